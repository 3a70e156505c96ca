"""A replay is given what its own trace's world showed in that state, or nothing, and each answer is labelled."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.model import MissReason, Rule, Status, ToolCall, Trial
from tests.commands.conftest import Replay
from tests.engine.project import Project
from tests.store.build import trace

AGENT = """
def get_cart(): raise SystemError("the real tool ran")
def checkout(): raise SystemError("the real tool ran")
def get_order(order_id): raise SystemError("the real tool ran")
def cancel(order_id): raise SystemError("the real tool ran")

def cart(text):
    return f"{get_cart()}, {checkout()}"

def confirm(text):
    cancel("7")
    return get_order("7")

def twice(text):
    return get_order("7") + get_order("7")
"""
SETTINGS = """
[agent]
entrypoint = "app.agent:{}"
tools = ["app.agent:get_cart", "app.agent:checkout", "app.agent:get_order", "app.agent:cancel"]
[tools.get_cart]
effect = "read"
[tools.get_order]
effect = "read"
"""


@pytest.fixture
def project(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "shop")
    project.write("v1", AGENT)
    monkeypatch.chdir(project.folder)
    return project


def replayed(replay: Replay, project: Project, entrypoint: str, *recordings: list[ToolCall]) -> list[Trial]:
    """Return the trials of an entrypoint on traces with these recordings, one for each."""
    project.settings(SETTINGS.format(entrypoint))
    project.traces(
        [
            trace(
                f"trace-{number}",
                session_id=f"s{number}",
                user_id=f"u{number}",
                tool_calls=tuple(
                    ToolCall(index=index, name=call.name, args=call.args, result=call.result)
                    for index, call in enumerate(calls)
                ),
            )
            for number, calls in enumerate(recordings)
        ]
    )
    assert replay("sample", "--month", "2026-10", "--name", "october").code == 0
    replay("run", "--new", ".", "--sample", "october", "--trials", "1")
    return sorted(project.trials(), key=lambda trial: trial.item_id)


def tool(name: str, result: Any, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, result=result)


SCRIPTED = """
import json

def call(name, args): raise SystemError("the real tool ran")

def run_agent(text):
    results = []
    for name, args in json.loads(text):
        try:
            results.append(call(name, args))
        except RuntimeError as error:
            results.append(f"failed: {error}")
    return json.dumps(results)
"""
SCRIPTED_SETTINGS = """
[agent]
entrypoint = "app.agent:run_agent"
tools = ["app.agent:call"]
[world]
max_false = 0.6
[tools.get_product]
effect = "read"
[tools.get_time]
effect = "read"
[tools.get_next_page]
effect = "read"
"""
BEFORE, AFTER = tool("get_order", "open", order_id="O-7001"), tool("get_order", "shipped", order_id="O-7001")
SHIP = tool("ship", "ok", order_id="O-7001")
NINE, TEN = tool("get_time", "09:00"), tool("get_time", "10:00")
PAGES = [tool("get_next_page", ["a"]), tool("get_next_page", ["b"])]
REFUSED = ToolCall(name="ship", args={"order_id": "O-9009"}, error="no such order")
LOST = tool("get_order", "lost", order_id="O-9009")
NOTES = [tool("list_notes", []), tool("add_note", "ok", text="x"), tool("list_notes", ["x"])]
BY_TEXT = tool("process", "done", text="please ship O-7001 today")
SEARCHED = tool("search", ["O-7001"], query="open orders")
TEA = tool("get_product", "tea", sku="SKU-100")

Row = tuple[list[ToolCall], list[ToolCall], list[Any], MissReason | None]
ADVERSARY: dict[str, Row] = {
    "the catalogue is shared": ([BEFORE], [TEA], ["tea"], None),
    "an order is not": ([TEA], [BEFORE], [], MissReason.NEVER_RECORDED),
    "a state after a write": ([BEFORE, SHIP, AFTER], [SHIP, AFTER], ["ok", "shipped"], None),
    "a state before a write": ([BEFORE, SHIP, AFTER], [BEFORE, BEFORE], ["open", "open"], None),
    "no state": ([SHIP, AFTER], [AFTER], [], MissReason.STALE),
    "a write twice": ([SHIP], [SHIP, SHIP], ["ok"], MissReason.USED_UP),
    "a write that failed": ([REFUSED, LOST], [REFUSED, LOST], ["failed: no such order", "lost"], None),
    "without the write that failed": ([REFUSED, LOST], [LOST], [], MissReason.STALE),
    "a clock": ([NINE, TEA, TEN], [NINE, TEN], ["09:00", "10:00"], None),
    "a clock once more": ([NINE, TEA, TEN], [NINE, TEN, TEN], ["09:00", "10:00"], MissReason.USED_UP),
    "pages": (PAGES, PAGES, [["a"], ["b"]], None),
    "a page too many": (PAGES, [*PAGES, PAGES[0]], [["a"], ["b"]], MissReason.USED_UP),
    "a write seen by another tool": (NOTES, NOTES[1:], ["ok", ["x"]], None),
    "before a write seen by another tool": (NOTES[:2], [NOTES[1], NOTES[0]], ["ok"], MissReason.STALE),
    "an id in a text": ([BEFORE, BY_TEXT], [BY_TEXT, BEFORE], ["done"], MissReason.STALE),
    "a read that names no object": ([SEARCHED, SHIP], [SHIP, SEARCHED], ["ok"], MissReason.STALE),
}
"""What is recorded, what a trial asks, what it is answered, and why its last call is not."""


def test_each_call_is_answered_rightly_or_a_miss_with_its_reason(replay: Replay, project: Project) -> None:
    project.write("v1", SCRIPTED)
    project.settings(SCRIPTED_SETTINGS)
    shelf = {f"shelf {number}": ([TEA], [TEA], ["tea"], None) for number in range(4)}
    rows: dict[str, Row] = {**ADVERSARY, **shelf}  # type: ignore[dict-item]
    project.traces(
        [
            trace(
                name.replace(" ", "-"),
                session_id=f"session of {name}",
                user_id=f"user of {name}",
                input=json.dumps([[call.name, call.args] for call in asked]),
                tool_calls=tuple(replace(call, index=index) for index, call in enumerate(recording)),
            )
            for name, (recording, asked, _, _) in rows.items()
        ]
    )
    assert replay("sample", "--month", "2026-10", "--name", "october").code == 0
    replay("run", "--new", ".", "--sample", "october", "--trials", "1")
    trials = {trial.item_id: trial for trial in project.trials()}
    assert len(trials) == len(rows)
    for name, (_, _, answers, reason) in rows.items():
        trial = trials[name.replace(" ", "-")]
        answered = [served.call for served in trial.served if served.rule is not Rule.MISS]
        results = [f"failed: {call.error}" if call.error else call.result for call in answered]
        assert results == answers, name
        assert trial.status is (Status.OK if reason is None else Status.DIVERGED), name
        if reason is not None:
            assert trial.served[-1].miss is reason, name
            assert trial.reason, name
    [shared] = trials["the-catalogue-is-shared"].served
    assert (shared.rule, shared.note) == (
        Rule.CORPUS,
        "7 recordings in 7 sessions agree; of the tool's calls, 0 of 7 would have been answered falsely",
    )


def test_no_user_gets_the_cart_of_another(replay: Replay, project: Project) -> None:
    whisky = [tool("get_cart", ["whisky"]), tool("checkout", "ok")]
    trials = replayed(replay, project, "cart", [tool("checkout", "ok")], [tool("checkout", "ok")], whisky)
    assert [trial.status for trial in trials] == [Status.DIVERGED, Status.DIVERGED, Status.OK]
    [missed] = trials[0].served
    assert (missed.rule, missed.miss) == (Rule.MISS, MissReason.NEVER_RECORDED)
    assert trials[2].final_response == "['whisky'], ok"


def test_a_read_after_a_write_is_of_the_state_after_it(replay: Replay, project: Project) -> None:
    before, write, after = (
        tool("get_order", "active", order_id="7"),
        tool("cancel", "ok", order_id="7"),
        tool("get_order", "cancelled", order_id="7"),
    )
    whole, stale = replayed(replay, project, "confirm", [before, write, after], [before, write])
    assert (whole.status, whole.final_response) == (Status.OK, "cancelled")
    assert stale.status is Status.DIVERGED
    assert stale.served[-1].miss is MissReason.STALE
    assert "stale; the trial has made cancel" in (stale.reason or "")


def test_a_read_is_answered_as_often_as_it_is_asked(replay: Replay, project: Project) -> None:
    [trial] = replayed(replay, project, "twice", [tool("get_order", "active", order_id="7")])
    assert (trial.status, trial.final_response) == (Status.OK, "activeactive")
    assert [served.rule for served in trial.served] == [Rule.TAPE, Rule.TAPE]
