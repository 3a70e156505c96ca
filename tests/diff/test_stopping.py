"""When a run may stop early: boundaries against independent sources, plans, futility, whole runs of scores."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from benchmarks.truth.agents import Truth
from benchmarks.truth.runs import Scores, diffed, looked_at, simulate
from replaydiff.diff.result import Answer
from replaydiff.diff.statistics.sequential import boundary_levels, obrien_fleming, pocock
from replaydiff.diff.stopping import earlier_looks, look_levels, new_plan, plan_of, total_error
from replaydiff.replay.model import JsonObject, Look, RunRecord

FIFTHS = [0.2, 0.4, 0.6, 0.8, 1.0]


def run_record(settings: JsonObject) -> RunRecord:
    return RunRecord(id="r", created_at=datetime(2026, 11, 1), lanes={}, trials=3, seed=0, settings=settings)


def bounds(fractions: list[float], spent: list[float]) -> list[float]:
    return [-float(ndtri(level)) for level in boundary_levels(fractions, spent)]


def test_five_equal_looks_have_the_published_boundaries() -> None:
    # Lan-DeMets boundaries of the R packages ldbounds and gsDesign, one-sided 0.025.
    assert bounds(FIFTHS, [obrien_fleming(t, 0.025) for t in FIFTHS]) == pytest.approx(
        [4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=3e-4
    )
    assert bounds(FIFTHS, [pocock(t, 0.025) for t in FIFTHS]) == pytest.approx(
        [2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=3e-4
    )


@pytest.mark.parametrize("spending", [obrien_fleming, pocock])
def test_uneven_looks_spend_what_they_may_by_multivariate_integration(spending: object) -> None:
    from scipy.stats import multivariate_normal

    fractions = [0.13, 0.5, 0.58, 1.0]
    spent = [spending(t, 0.025) for t in fractions]  # type: ignore[operator]
    found = bounds(fractions, spent)
    for count in range(2, 5):
        t = np.array(fractions[:count])
        corr = np.sqrt(np.minimum.outer(t, t) / np.maximum.outer(t, t))
        stays = multivariate_normal(cov=corr).cdf(np.array(found[:count]))
        assert 1 - stays == pytest.approx(spent[count - 1], abs=1e-4)


def test_one_look_is_the_test_without_looks() -> None:
    assert boundary_levels([1.0], [0.025]) == pytest.approx([0.025], abs=1e-9)


@given(st.integers(1, 2000))
def test_a_plan_ends_at_all_items_and_looks_at_most_ten_times(items: int) -> None:
    plan = new_plan(items)
    assert plan.looks[-1] == items
    assert list(plan.looks) == sorted(set(plan.looks))
    assert len(plan.looks) <= 10
    assert all(look >= 20 for look in plan.looks[:-1])


@given(st.lists(st.integers(20, 400), min_size=2, max_size=5), st.booleans())
def test_runs_that_continue_each_other_never_spend_more_than_the_error(
    added: list[int], begun_with_a_plan: bool
) -> None:
    items, run = 0, run_record(settings={})
    for number, more in enumerate(added):
        items += more
        if number or begun_with_a_plan:
            before = earlier_looks(run, items - more, 3, 0.95) if number else ()
            plan = new_plan(items, before, total=total_error(run) if number else 1.0)
            looks = tuple(Look(items=look, answer="CAN'T TELL") for look in plan.looks)
            run = replace(run_record(settings={"until_known": plan.to_json()}), looks=looks)
            assert plan_of(run) == plan
            assert plan.looks[-1] == items
            assert all(look > items - more for look in plan.looks)
            for side in ("ship", "hold"):
                spent = [plan.spent(look, 0.025, side) for look in plan.looks]  # type: ignore[arg-type]
                assert spent == sorted(spent)
                assert spent[-1] == pytest.approx(0.025 * plan.limit)
            assert plan.limit < (1.0 if begun_with_a_plan else 1.2)
    assert total_error(run) == (1.0 if begun_with_a_plan else 1.2)


@pytest.mark.parametrize("items", [(100, 150), (100, 200, 400), (50, 500)])
def test_both_looks_of_a_run_and_one_that_continues_it_err_in_three_percent(items: tuple[int, ...]) -> None:
    """A normal estimate at exactly the tolerance: how often any of the answers is SHIP."""
    run, levels = run_record(settings={}), [0.025]
    for before, now in pairwise(items):
        plan = new_plan(now, earlier_looks(run, before, 3, 0.95), total=total_error(run), early=False)
        levels.append(look_levels(plan, [], now, 0.95).ship)
        looks = (Look(items=now, answer="CAN'T TELL"),)
        run = replace(run_record(settings={"until_known": plan.to_json()}), looks=looks)
    drawn = np.random.default_rng(2).standard_normal((400_000, items[-1] // 50))
    sums = np.cumsum(drawn, axis=1)[:, [look // 50 - 1 for look in items]]
    z = sums / np.sqrt(np.array(items) / 50)
    wrong = (z > -ndtri(np.array(levels))).any(axis=1).mean()
    assert 0.0275 < wrong < 0.0305
    assert 0.001 < levels[1] < 0.025


def test_a_run_with_more_trials_of_the_same_cases_continues_one_with_fewer() -> None:
    [look] = earlier_looks(run_record(settings={}), 60, 6, 0.95)
    assert (look.items, look.ship, look.hold) == (30, 1.0, 1.0)


def test_levels_do_not_depend_on_looks_that_are_still_to_come() -> None:
    plan = new_plan(200)
    levels = look_levels(plan, [20, 40], 60, 0.95)
    assert (levels.number, levels.of, levels.part) == (3, 10, 0.3)
    assert levels.hold == pytest.approx(look_levels(plan, [20, 40], 60, 0.95).hold)
    # A look that a budget forced comes between those that were planned.
    forced = look_levels(plan, [20, 40], 57, 0.95)
    assert forced.items_share < levels.items_share
    assert 0 < forced.hold < 0.025


def scores_of(loss: float, n: int = 120) -> tuple[Truth, Scores]:
    """An agent that passes 95 % of its trials, and one that fails on a share of the items."""
    rng = np.random.default_rng(3)
    old = np.full(n, 0.95)
    truth = Truth(old=old, new=np.where(rng.random(n) < loss, 0.0, old))
    return truth, simulate(rng, truth, 3, again=True)


def test_a_large_loss_is_held_after_few_items() -> None:
    result, items = looked_at(*scores_of(0.3))
    assert result.answer is Answer.HOLD
    assert items <= 40
    assert f"of 120 items: {1 - items / 120:.0%} of the calls saved" not in result.reason  # not yet stored


def test_an_equal_version_is_shipped_early_and_never_held() -> None:
    result, items = looked_at(*scores_of(0.0))
    assert result.answer is Answer.SHIP
    assert items < 120


def test_the_last_look_over_all_items_is_nearly_the_answer_without_looks() -> None:
    truth, scores = scores_of(0.0)
    whole = diffed(truth, scores).metrics["score:passed"]
    last, _ = looked_at(truth, scores, end=120)
    found = last.metrics["score:passed"]
    assert found.delta == whole.delta or found.n < whole.n
    assert whole.ci is not None
    assert found.ci is not None
    # Repeated confidence intervals are wider.
    assert found.ci[0] <= whole.ci[0] + 1e-9 or found.n < whole.n


def test_a_run_goes_on_until_neither_answer_is_likely() -> None:
    rng = np.random.default_rng(11)
    old = np.full(100, 0.5)
    # A loss of 0.06 in coins: neither SHIP nor HOLD is within reach of 100 items.
    truth = Truth(old=old, new=old - 0.06, weight=np.full(100, 10.0))
    result, items = looked_at(truth, simulate(rng, truth, 1))
    assert result.answer is Answer.CANNOT_TELL
    assert 50 <= items < 100
    assert result.chance is not None
    assert result.chance < 0.05


def test_the_interval_of_an_early_look_has_two_ends() -> None:
    truth, scores = scores_of(0.0)
    result, items = looked_at(truth, scores, end=20)
    assert items == 20
    assert result.answer is Answer.CANNOT_TELL
    assert result.metrics["score:passed"].ci is not None
    assert result.metrics["score:passed"].ci[0] <= -0.4


def test_the_spending_functions_begin_at_nothing_and_end_at_alpha() -> None:
    for spending in (obrien_fleming, pocock):
        assert spending(0.0, 0.025) == pytest.approx(0.0)
        assert spending(1.0, 0.025) == pytest.approx(0.025)
    assert obrien_fleming(0.5, 0.025) == pytest.approx(2 * ndtr(ndtri(0.0125) * math.sqrt(2)))
