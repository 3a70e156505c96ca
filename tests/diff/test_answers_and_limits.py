"""The graders of a case's answer and of its budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.graders.answer import close, numbers
from replaydiff.diff.graders.registry import free_grades
from replaydiff.replay.model import Status
from replaydiff.replay.settings import Settings
from tests.diff.build import case, trial

SETTINGS = Settings(root=Path())


@pytest.mark.parametrize(
    ("answer", "tolerance", "response", "passed"),
    [
        ("Paris", "exact_match", "  paris. ", True),
        ("Paris", "exact_match", "It is Paris", False),
        ("Paris", None, "Paris", True),
        ("1234.5", "numeric_close", "It comes to $1,234.50 in all.", True),
        ("1234.5", "numeric_close", "It comes to 1246 euros.", True),
        ("1234.5", "numeric_close", "It comes to 1247 euros.", False),
        ("100", "numeric_close", "101", True),
        ("100", "numeric_close", "98.9", False),
        ("-5", "numeric_close", "minus: −5", True),
        ("0", "numeric_close", "0.01", True),
        ("0", "numeric_close", "0.02", False),
        ("12 %", "numeric_close", "12.1 %", True),
        ("42", None, "The answer is 42.", True),
        ("42", "numeric_close", "no idea", False),
    ],
)
def test_answers(answer: str, tolerance: str | None, response: str, passed: bool) -> None:
    wanted = case("c", answer=answer, tolerance=tolerance)
    found = free_grades(wanted, trial("c", "new", final_response=response), SETTINGS)["answer"]
    assert found.passed is passed
    assert bool(found.reason) is not passed


def test_what_only_a_model_can_compare_is_not_graded_here() -> None:
    for fields in (
        {"answer": "kind words", "tolerance": "semantic_similar"},
        {"answer": "many", "tolerance": "numeric_close"},
    ):
        assert "answer" not in free_grades(case("c", **fields), trial("c", "new"), SETTINGS)


def test_a_stopped_trial_has_no_answer() -> None:
    stopped = trial("c", "new", status=Status.DIVERGED, final_response=None)
    assert "answer" not in free_grades(case("c", answer="x"), stopped, SETTINGS)


@pytest.mark.parametrize(("took", "passed"), [(500.0, True), (501.0, False)])
def test_latency(took: float, passed: bool) -> None:
    found = free_grades(case("c", max_latency_ms=500.0), trial("c", "new", latency_ms=took), SETTINGS)
    assert found["latency"].passed is passed


def test_an_unknown_latency_is_not_graded() -> None:
    limited = case("c", max_latency_ms=500.0)
    assert "latency" not in free_grades(limited, trial("c", "new", latency_ms=None), SETTINGS)


@pytest.mark.parametrize(("cost", "passed"), [(0.01, True), (0.0101, False)])
def test_cost(cost: float, passed: bool) -> None:
    found = free_grades(case("c", max_cost_usd=0.01), trial("c", "new", cost_usd=cost), SETTINGS)["cost"]
    assert found.passed is passed
    assert found.reason == (None if passed else "cost $0.0101, more than $0.01")


def test_an_unknown_cost_is_not_graded() -> None:
    assert "cost" not in free_grades(case("c", max_cost_usd=1.0), trial("c", "new"), SETTINGS)


@given(
    target=st.floats(-1e9, 1e9).filter(lambda number: number == 0 or abs(number) > 1e-300),
    part=st.floats(-0.0099, 0.0099),
)
def test_numbers_within_a_hundredth_are_close_and_others_are_not(target: float, part: float) -> None:
    size = abs(target) or 1.0
    assert close(target + part * size, target)
    assert not close(target + 0.0101 * size, target)
    assert close(-(target + part * size), -target)


@given(
    st.integers(-(10**12), 10**12),
    st.sampled_from(["{:d}", "{:,d}", "${:,d}", "about {:d}, or so", "{:d} %"]),
)
def test_numbers_are_read_however_they_are_written(number: int, form: str) -> None:
    assert numbers(form.format(abs(number))) == [float(abs(number))]
    assert numbers(f"{number:,d}") == [float(number)]


def test_scores_of_observed_trials_are_metrics() -> None:
    made = trial("c", "new", scores={"reward": 0.5, "solved": True, "comment": "fine"})
    grades = free_grades(case("c"), made, SETTINGS)
    assert {name: grade.score for name, grade in grades.items() if name.startswith("score:")} == {
        "score:reward": 0.5,
        "score:solved": 1.0,
    }
    assert grades["score:solved"].passed
    assert grades["score:reward"].passed is False
