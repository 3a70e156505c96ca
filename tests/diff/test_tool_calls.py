"""The tool-call grade of a trial: against a case, against a recording, and where it was cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaydiff.diff.graders.registry import free_grades
from replaydiff.diff.graders.tool_calls import grade
from replaydiff.replay.model import ExpectedCall, GradeState, Match, Rule, Status, ToolCall
from replaydiff.replay.settings import AgentSection, MatchSection, Settings, ToolSection
from tests.diff.build import CALLS, case, item, trial

SETTINGS = Settings(root=Path())
MISSED = ToolCall(name="refund", args={"order_id": "1"})


def test_a_sampled_trace_is_held_against_its_recording() -> None:
    made = grade(item("t"), trial("t", "new"), SETTINGS)
    assert made is not None
    assert (made.score, made.passed, made.reason, made.detail) == (1.0, True, None, {"partial": 1.0})
    failed = grade(item("t"), trial("t", "new", passed=False), SETTINGS)
    assert failed is not None
    assert (failed.score, failed.passed) == (0.0, False)
    assert failed.reason == "called cancel_order without get_order_status(order_id='1') first"
    assert failed.detail["partial"] == pytest.approx(2 / 3)


def test_match_settings_are_for_recordings_and_cases_carry_their_own() -> None:
    lax = Settings(root=Path(), match=MatchSection(mode="superset", args="ignore"))
    more = trial("t", "new", calls=[*CALLS, MISSED])
    assert grade(item("t"), more, lax).passed  # type: ignore[union-attr]
    assert not grade(case("t"), more, lax).passed  # type: ignore[union-attr]


def test_expected_arguments_are_a_subset_by_default() -> None:
    wanted = case("c", ExpectedCall(name="cancel_order", args={"order_id": "1"}))
    made = trial("c", "new", calls=[ToolCall(name="cancel_order", args={"order_id": "1", "why": "late"})])
    assert grade(wanted, made, SETTINGS).passed  # type: ignore[union-attr]


def test_arguments_that_never_count() -> None:
    noisy = [ToolCall(name=c.name, args={**c.args, "request_id": "x", "n": 1}) for c in CALLS]
    made = trial("t", "new", calls=noisy)
    settings = Settings(
        root=Path(),
        agent=AgentSection(ignore_args=("request_id",)),
        tools={
            "get_order_status": ToolSection(ignore_args=("n",)),
            "cancel_order": ToolSection(ignore_args=("n",)),
        },
    )
    assert grade(item("t"), made, settings).passed  # type: ignore[union-attr]
    assert not grade(item("t"), made, SETTINGS).passed  # type: ignore[union-attr]


def test_a_case_that_expects_no_calls_has_no_such_grade() -> None:
    named = case("c", tools=("get_order_status",))
    grades = free_grades(named, trial("c", "new"), SETTINGS)
    assert set(grades) == {"expected_tools"}
    assert grades["expected_tools"].passed
    failed = free_grades(named, trial("c", "new", passed=False), SETTINGS)["expected_tools"]
    assert (failed.passed, failed.reason) == (False, "never called get_order_status")


def test_an_errored_trial_is_neither_passed_nor_failed() -> None:
    assert free_grades(item("t"), trial("t", "new", status=Status.TIMEOUT), SETTINGS) == {}


@pytest.mark.parametrize(
    ("mode", "calls", "state"),
    [
        ("strict", [CALLS[0], MISSED], GradeState.SCORED),
        ("strict", [MISSED], GradeState.SCORED),
        ("superset", [MISSED], GradeState.ABSTAINED),
        ("in_order", [CALLS[0], MISSED], GradeState.ABSTAINED),
        ("unordered", [MISSED], GradeState.SCORED),
    ],
)
def test_a_diverged_trial_failed_only_where_that_is_certain(
    mode: str, calls: list[ToolCall], state: GradeState
) -> None:
    stopped = trial(
        "c",
        "new",
        calls=calls,
        rules=[Rule.TAPE] * (len(calls) - 1) + [Rule.MISS],
        status=Status.DIVERGED,
        reason="refund was never recorded",
    )
    made = grade(case("c", match=Match(mode=mode)), stopped, SETTINGS)
    assert made is not None
    assert made.state is state
    if state is GradeState.ABSTAINED:
        assert (made.score, made.passed) == (None, None)
        assert made.reason == "stopped before it could be decided: refund was never recorded"
    else:
        assert made.passed is False


def test_a_missed_call_that_does_not_count_leaves_it_open() -> None:
    rules = Match(ignore_tools=("refund",))
    stopped = trial("c", "new", calls=[CALLS[0], MISSED], status=Status.DIVERGED)
    assert grade(case("c", match=rules), stopped, SETTINGS).state is GradeState.ABSTAINED  # type: ignore[union-attr]
