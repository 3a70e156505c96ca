"""Google's ADK, the genuine package: no real tool runs, and the agent gets what the framework makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaydiff.replay.model import Status
from tests.agents.running import calls, recorded
from tests.frameworks.replaying import Calls, Replays, interpreter

interpreter("google-adk")

ORDER = recorded("get_order", {"order": "open"}, order_id="7")
CANCELLED = recorded("cancel_order", "cancelled", order_id="7")
FIRST: Calls = [("get_order", {"order_id": "7"}), ("cancel_order", {"order_id": "7"})]
FAILED = [
    recorded("get_order", error="no such order", order_id="7"),
    recorded("cancel_order", error="ValueError: too late", order_id="7"),
]


@pytest.fixture
def replays(tmp_path: Path) -> Replays:
    return Replays("google-adk", tmp_path / "canary")


ROUNDS = [FIRST, [("refund", {"order_id": "7"}), ("inner", {"order_id": "8"})]]
TAPE = [
    ORDER,
    CANCELLED,
    recorded("refund", "refunded", order_id="7"),
    recorded("inner", "in", order_id="8"),
]
ANSWERS = [
    ["get_order", {"order": "open"}],
    ["cancel_order", {"result": "cancelled"}],
    ["refund", {"result": "refunded"}],
    ["inner", {"result": "in"}],
]


def test_agents_get_recorded_answers(replays: Replays) -> None:
    handed_over: Calls = [("transfer_to_agent", {"agent_name": "shop"})]
    for entrypoint, rounds in (("run_agent", ROUNDS), ("run_team", [handed_over, *ROUNDS])):
        [outcome] = replays.run(f"google_adk_agents:{entrypoint}", rounds, *TAPE)
        assert outcome.status is Status.OK, outcome.reason
        assert json.loads(outcome.final_response or "") == ANSWERS
        assert sorted(calls(outcome), key=str) == sorted(
            [(call.name, call.args, "tape") for call in TAPE], key=str
        )
    assert replays.real_calls == []


def test_a_recorded_error_ends_the_run_as_a_tool_that_raises_does(replays: Replays) -> None:
    [outcome] = replays.run("google_adk_agents:run_agent", [FIRST[1:]], FAILED[1])
    assert outcome.status is Status.AGENT_ERROR
    assert "ValueError: too late" in (outcome.reason or "")
    assert replays.real_calls == []


def test_hosted_tools_are_refused_by_name(replays: Replays) -> None:
    [outcome] = replays.run("google_adk_agents:hosted", [])
    assert outcome.status is Status.AGENT_ERROR
    assert "the tool google_search runs at the model's provider" in (outcome.reason or "")


def test_a_call_that_was_never_recorded_is_a_miss(replays: Replays) -> None:
    rounds: list[Calls] = [[("cancel_order", {"order_id": "8"})], FIRST]
    for entrypoint in ("run_agent",):
        [outcome] = replays.run(f"google_adk_agents:{entrypoint}", rounds, ORDER, CANCELLED)
        assert outcome.status is Status.DIVERGED
        assert calls(outcome) == [("cancel_order", {"order_id": "8"}, "miss")]
    assert replays.real_calls == []


def test_a_tool_that_may_run_runs(replays: Replays) -> None:
    [outcome] = replays.run("google_adk_agents:run_agent", [FIRST], live=("get_order", "cancel_order"))
    assert outcome.status is Status.OK, outcome.reason
    assert [rule for _, _, rule in calls(outcome)] == ["live", "live"]
    assert sorted(replays.real_calls) == ["cancel_order 7", "get_order 7"]
