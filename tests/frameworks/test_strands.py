"""Strands Agents, the genuine package: no real tool runs, and the agent gets what the framework makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaydiff.replay.model import Status
from tests.agents.running import calls, recorded
from tests.frameworks.replaying import Calls, Replays, interpreter

interpreter("strands")

ORDER = recorded("get_order", {"order": "open"}, order_id="7")
CANCELLED = recorded("cancel_order", "cancelled", order_id="7")
FIRST: Calls = [("get_order", {"order_id": "7"}), ("cancel_order", {"order_id": "7"})]
FAILED = [
    recorded("get_order", error="no such order", order_id="7"),
    recorded("cancel_order", error="ValueError: too late", order_id="7"),
]


@pytest.fixture
def replays(tmp_path: Path) -> Replays:
    return Replays("strands", tmp_path / "canary")


ROUNDS = [FIRST, [("refund", {"order_id": "7"}), ("inner", {"order_id": "8"})]]
TAPE = [
    ORDER,
    CANCELLED,
    recorded("refund", "refunded", order_id="7"),
    recorded("inner", "in", order_id="8"),
]
ANSWERS = [
    ["cancel_order", "cancelled", "success"],
    ["get_order", '{"order": "open"}', "success"],
    ["inner", "in", "success"],
    ["refund", "refunded", "success"],
]


@pytest.mark.parametrize("entrypoint", ["run_sync", "run_agent"])
def test_agents_get_recorded_answers(replays: Replays, entrypoint: str) -> None:
    [outcome] = replays.run(f"strands_agents:{entrypoint}", ROUNDS, *TAPE)
    assert outcome.status is Status.OK, outcome.reason
    assert json.loads(outcome.final_response or "") == ANSWERS
    assert sorted(calls(outcome), key=str) == sorted(
        [(call.name, call.args, "tape") for call in TAPE], key=str
    )
    assert replays.real_calls == []


def test_a_decorated_function_is_answered_as_what_it_was(replays: Replays) -> None:
    [outcome] = replays.run("strands_agents:by_hand", [], ORDER, CANCELLED)
    assert (outcome.status, outcome.final_response) == (Status.OK, '[{"order": "open"}, "cancelled"]')
    assert replays.real_calls == []


def test_recorded_errors_are_what_the_framework_makes_of_them(replays: Replays) -> None:
    [outcome] = replays.run("strands_agents:run_agent", [FIRST], *FAILED)
    assert json.loads(outcome.final_response or "") == [
        ["cancel_order", "Error: ValueError: too late", "error"],
        ["get_order", "Error: no such order", "error"],
    ]
    assert replays.real_calls == []


def test_a_call_that_was_never_recorded_is_a_miss(replays: Replays) -> None:
    rounds: list[Calls] = [[("cancel_order", {"order_id": "8"})], FIRST]
    for entrypoint in ("run_sync", "run_agent"):
        [outcome] = replays.run(f"strands_agents:{entrypoint}", rounds, ORDER, CANCELLED)
        assert outcome.status is Status.DIVERGED
        assert calls(outcome) == [("cancel_order", {"order_id": "8"}, "miss")]
    assert replays.real_calls == []


def test_a_tool_that_may_run_runs(replays: Replays) -> None:
    [outcome] = replays.run("strands_agents:run_agent", [FIRST], live=("get_order", "cancel_order"))
    assert outcome.status is Status.OK, outcome.reason
    assert [rule for _, _, rule in calls(outcome)] == ["live", "live"]
    assert sorted(replays.real_calls) == ["cancel_order 7", "get_order 7"]
