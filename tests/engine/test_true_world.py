"""A replay is given what its own trace's world showed in that state, or nothing, and each answer is labelled."""

from __future__ import annotations

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


def tool(name: str, result: Any, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, result=result)


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
