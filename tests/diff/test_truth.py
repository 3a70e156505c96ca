"""The simulations of benchmarks/ compute what a real store gives, and what they say holds in a few of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.truth import worlds
from benchmarks.truth.agents import AGENTS, outcomes, unchanged, worse_by
from benchmarks.truth.runs import METRIC, diffed, items_of, run_of, simulate, trials_of
from replaydiff.diff.compute import compute
from replaydiff.diff.result import Answer, Verdict
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.trials import write_trials
from tests.stand_ins.full import full


@pytest.mark.parametrize(("sessions", "judge"), [(False, False), (True, True)])
def test_a_simulated_comparison_is_what_a_store_with_its_trials_gives(
    tmp_path: Path, sessions: bool, judge: bool
) -> None:
    rng = np.random.default_rng(4)
    truth = unchanged(AGENTS["Beta(0.5, 0.5)"](rng, 24), sessions=sessions)
    scores = simulate(rng, truth, 3, again=True, judge=judge)
    items, run = items_of(truth), run_of(truth, scores, 9)
    with open_store(tmp_path / "replay.duckdb") as con:
        create_run(con, run, items)
        write_trials(con, [trial for trials in trials_of(items, scores) for trial in trials])
        stored = compute(con, run.id, Settings(root=tmp_path))
    simulated = diffed(truth, scores, seed=9)
    assert replace(stored, items=(), media=None) == replace(simulated, items=())
    assert [(one.item.id, one.metrics) for one in stored.items] == [
        (one.item.id, one.metrics) for one in simulated.items
    ]


def test_luck_that_is_shared_in_a_session_leaves_every_item_its_pass_rate() -> None:
    rng = np.random.default_rng(1)
    rates, session = np.array([0.1, 0.5, 0.9, 0.9]), np.array([0, 0, 0, 1])
    passed = outcomes(rng, rates, 20_000, session)
    assert passed.mean(axis=1) == pytest.approx(rates, abs=0.015)
    together = np.corrcoef(passed)
    assert together[1, 2] > 0.15
    assert abs(together[2, 3]) < 0.03


@full
def test_four_metrics_raise_no_more_alarms_than_one() -> None:
    """Four metrics that nothing changed on, each as noisy as agents are: HOLD in at most one run of twenty."""
    rng, runs, held, called = np.random.default_rng(8), 40, 0, 0
    for seed in range(runs):
        truth = unchanged(AGENTS["70 % certain, 30 % coins"](rng, 20))
        drawn = [simulate(rng, truth, 3, again=True) for _ in range(4)]
        scores = {
            lane: {f"m{number}": one[lane]["passed"] for number, one in enumerate(drawn)} for lane in drawn[0]
        }
        result = diffed(truth, scores, seed=seed)
        held += result.answer is Answer.HOLD
        called += any(item.verdict in (Verdict.REGRESSED, Verdict.IMPROVED) for item in result.items)
    assert held / runs <= 0.05
    assert called / runs <= 0.1


def test_a_metric_on_which_nothing_varies_costs_the_others_nothing() -> None:
    rng = np.random.default_rng(2)
    truth = unchanged(np.ones(40))
    scores = simulate(rng, truth, 2)
    for lane, by_name in scores.items():
        by_name["passed"][0] = 1.0 if str(lane) == "old" else 0.0  # type: ignore[index]
    alone = diffed(truth, scores)
    same = {f"same{number}": np.ones((40, 2)) for number in range(9)}
    among = diffed(truth, {lane: {**by_name, **same} for lane, by_name in scores.items()})
    verdicts = [result.items[0].metrics[METRIC].verdict for result in (alone, among)]
    assert verdicts == [Verdict.REGRESSED, Verdict.REGRESSED]


@full
def test_a_judge_that_is_biased_or_knows_nothing_never_gives_ship() -> None:
    """A loss of the tolerance, which the judge hides; and one that sees it, whose labels say so."""
    rng = np.random.default_rng(3)
    for errors in (worlds.CONSTANT, worlds.LENIENT):
        found = [worlds.judged_by(errors)(rng, 0.05) for _ in range(8)]
        assert Answer.SHIP not in {one.answer for one in found}
        assert sum(one.covers for one in found) >= 7
    fair = [worlds.judged_by(worlds.FAIR)(rng, loss) for loss in (0.0, 0.2) for _ in range(4)]
    assert {one.answer for one in fair[:4]} <= {Answer.SHIP, Answer.CANNOT_TELL}
    assert {one.answer for one in fair[4:]} == {Answer.HOLD}


def test_a_loss_in_the_commonest_of_many_tool_paths_is_in_the_interval() -> None:
    rng = np.random.default_rng(6)
    found = [worlds.long_tail(rng, 0.09) for _ in range(12)]
    assert Answer.SHIP not in {one.answer for one in found}, "four of six seeds said SHIP"
    assert sum(one.covers for one in found) >= 10


@pytest.mark.parametrize("loss", [0.0, 0.03, 0.05])
def test_what_is_worse_by_the_tolerance_is_worse_on_these_very_items(loss: float) -> None:
    old = np.random.default_rng(2).beta(2, 1, 40)
    new = worse_by(np.random.default_rng(3), old, loss)
    assert (old - new).mean() == pytest.approx(loss, abs=1e-12)
    assert (new >= -1e-12).all()
    assert (new <= old).all()
