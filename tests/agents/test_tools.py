"""Tool calls of a replay: answered from the tape, stopped at a miss."""

import time
from pathlib import Path

import pytest

from replaydiff.replay.agents import attempt
from replaydiff.replay.model import Status
from replaydiff.replay.settings import ToolSection
from tests.agents.running import calls, item, recorded, run, run_one

SHOP = {"tools": ("shop:_exec",)}
STATUS = recorded("get_order_status", {"status": "shipped"}, order_id="1")
CANCEL = recorded("cancel_order", "cancelled", order_id="1")


def test_tools_are_answered_from_the_tape() -> None:
    asked = item(
        [("get_order_status", {"order_id": "1"}), ("cancel_order", {"order_id": "1"})], STATUS, CANCEL
    )
    outcome = run_one("shop:run_agent", asked, **SHOP)
    assert outcome.status is Status.OK
    assert outcome.final_response == '{"status": "shipped"} | cancelled'
    assert calls(outcome) == [
        ("get_order_status", {"order_id": "1"}, "tape"),
        ("cancel_order", {"order_id": "1"}, "tape"),
    ]
    assert [served.call.index for served in outcome.served] == [0, 1]
    assert outcome.served[0].call.result == {"status": "shipped"}
    assert outcome.usage is not None
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (10, 2)
    assert outcome.latency_ms is not None
    assert 0 < outcome.latency_ms < 5000
    assert outcome.stderr is None


@pytest.mark.parametrize("entrypoint", ["shop:run_agent", "shop:careful"])
def test_a_miss_stops_the_trial_whatever_the_agent_catches(entrypoint: str) -> None:
    steps = [("get_order_status", {"order_id": "1"}), ("cancel_order", {"order_id": "2"}), ("more", {})]
    outcome = run_one(entrypoint, item(steps, STATUS, CANCEL), **SHOP)
    assert outcome.status is Status.DIVERGED
    assert outcome.final_response is None
    assert calls(outcome) == [
        ("get_order_status", {"order_id": "1"}, "tape"),
        ("cancel_order", {"order_id": "2"}, "miss"),
    ]
    assert outcome.reason == outcome.served[-1].note
    assert outcome.reason == (
        'cancel_order(order_id="2"): never recorded; the nearest recorded call is '
        'cancel_order(order_id="1") (order_id was "1", not "2")'
    )


def test_calls_from_threads_belong_to_their_trial() -> None:
    tape = (recorded("a", "A", n=1), recorded("b", "B", n=2), recorded("a", "A again", n=1))
    asked = item([("a", {"n": 1}), ("b", {"n": 2})], *tape)
    outcome = run_one("shop:in_threads", asked, **SHOP)
    assert outcome.final_response == "A | B | A again"
    assert len(outcome.served) == 3


def test_a_thread_that_is_stopped_ends_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "AFTER_MISS_S", 0.3)
    began = time.monotonic()
    outcomes = run("shop:waits_for_its_thread", item("9"), concurrency=1, **SHOP)
    assert time.monotonic() - began < 50
    assert [outcome.status for outcome in outcomes] == [Status.DIVERGED]


def test_async_trials_run_together_and_keep_their_calls_apart() -> None:
    tools = ("shop:_exec", "shop:_exec_async")
    items = [
        item([("look", {"n": n})], *[recorded("look", f"{n}.{i}", n=n) for i in range(6)]) for n in range(20)
    ]
    outcomes = run("shop:together", *items, tools=tools, concurrency=20)
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 20
    for n, outcome in enumerate(outcomes):
        assert outcome.final_response is not None
        assert sorted(outcome.final_response.split(" | ")) == [f"{n}.{i}" for i in range(6)]


def test_an_async_trial_is_stopped_at_a_miss() -> None:
    outcomes = run(
        "shop:together",
        item([("look", {"n": 1})], recorded("look", "x", n=1)),
        item([("look", {"n": 2})], *[recorded("look", "y", n=2) for _ in range(6)]),
        tools=("shop:_exec", "shop:_exec_async"),
        tools_settings={"look": ToolSection(effect="write")},
    )
    assert [outcome.status for outcome in outcomes] == [Status.DIVERGED, Status.OK]
    assert [rule for *_, rule in calls(outcomes[0])] == ["tape", "miss"]


def test_ignored_arguments_do_not_count() -> None:
    steps = [("get_order_status", {"order_id": "1", "request_id": "new", "trace": 7})]
    outcome = run_one(
        "shop:run_agent",
        item(steps, STATUS),
        ignore_args=("request_id",),
        tools_settings={"get_order_status": ToolSection(ignore_args=("trace",))},
        **SHOP,
    )
    assert outcome.status is Status.OK
    assert outcome.served[0].call.args == steps[0][1]


REPORTING = """
def search(q):
    raise SystemError("the real tool ran")

def alone(user_message):
    function = {"name": "search", "arguments": '{"q": "shoes"}'}
    return {"text": "ok", "tool_calls": [
        {"id": "c1", "type": "function", "function": function, "result": "3 found"},
        {"name": "buy", "input": "broken"},
    ]}

def beside(user_message):
    search("shoes")
    first = {"tool_calls": [("before", {}), ("search", {"q": "shoes"})]}
    return {"text": "ok", "steps": [first, {"tool_calls": [("after", {"a": 1})]}]}
"""


def test_without_patch_points_the_calls_that_the_agent_reports_count(tmp_path: Path) -> None:
    (tmp_path / "reporting.py").write_text(REPORTING)
    outcome = run_one("reporting:alone", folder=tmp_path, tools=())
    assert calls(outcome) == [("search", {"q": "shoes"}, "live"), ("buy", {"_raw": "broken"}, "live")]
    assert [served.note for served in outcome.served] == [None, None]
    assert outcome.served[0].call.result == "3 found"
    assert outcome.served[0].call.call_id == "c1"


def test_a_reported_call_that_passed_no_patch_point_is_shown_as_such(tmp_path: Path) -> None:
    (tmp_path / "reporting.py").write_text(REPORTING)
    asked = item("x", recorded("search", "3 found", q="shoes"))
    outcome = run_one("reporting:beside", asked, folder=tmp_path, tools=("reporting:search",))
    assert calls(outcome) == [
        ("before", {}, "live"),
        ("search", {"q": "shoes"}, "tape"),
        ("after", {"a": 1}, "live"),
    ]
    assert outcome.served[0].note is not None
    assert "passed no patch point" in outcome.served[0].note
    assert [served.call.index for served in outcome.served] == [0, 1, 2]
