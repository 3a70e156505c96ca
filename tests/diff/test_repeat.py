"""The A/A lane as evidence: what the old version differs from itself by is no loss of the new one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.truth.agents import unchanged
from benchmarks.truth.runs import METRIC, diffed
from replaydiff.diff.blocks import Patterns
from replaydiff.diff.comparison import may_be_copies, trials_are_copies
from replaydiff.diff.compute import compute
from replaydiff.diff.graders.base import scored
from replaydiff.diff.result import Answer, Block, DiffResult, GradedTrial
from replaydiff.replay.model import Lane
from tests.diff.build import RUN_ID, case, filled, settings, trial, trials
from tests.stand_ins.full import full


def answered(folder: Path, lanes: list[dict[str, str]]) -> DiffResult:
    items = [case(f"c{n:03}") for n in range(len(lanes))]
    done = [t for one, outcomes in zip(items, lanes, strict=True) for t in trials(one, **outcomes)]
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, settings(folder))


SAME = {"old": "111", "new": "111", "old2": "111"}


def test_a_loss_that_the_old_version_shows_against_itself_is_not_held(tmp_path: Path) -> None:
    """A bad hour of two lanes: old 0.91, old2 0.71, new 0.69."""
    lanes = [{"old": "110", "new": "100", "old2": "010"}] * 30 + [SAME] * 70
    result = answered(tmp_path, lanes)
    repeat = result.metrics["tool_calls"].aa
    assert repeat is not None
    assert repeat.delta == pytest.approx(-0.1)
    assert repeat.p is not None
    assert repeat.p < 0.05
    assert result.answer is Answer.CANNOT_TELL
    assert result.reason.startswith(
        "the old version differs from itself: tool_calls changed by -0.10 between"
    )


def test_a_loss_beyond_what_the_old_version_shows_against_itself_is_held(tmp_path: Path) -> None:
    result = answered(tmp_path, [{"old": "111", "new": "000", "old2": "111"}] * 30 + [SAME] * 70)
    repeat = result.metrics["tool_calls"].aa
    assert repeat is not None
    assert (repeat.delta, repeat.p, repeat.se) == (0.0, 1.0, 0.0)
    assert result.answer is Answer.HOLD


@pytest.mark.parametrize(
    ("falls", "extra", "answer"),
    [
        (20, [], Answer.HOLD),
        # One old item fell as far, so shocks of a lane may do that.
        (20, [{"old": "111", "new": "111", "old2": "000"}], Answer.CANNOT_TELL),
        # Most of the loss is a little of many items.
        (5, [{"old": "111", "new": "110", "old2": "111"}] * 24, Answer.CANNOT_TELL),
    ],
)
def test_items_that_make_the_loss_and_fall_further_than_old_ones_differ_are_held(
    tmp_path: Path, falls: int, extra: list[dict[str, str]], answer: Answer
) -> None:
    """The old lanes differ by 0.03, significantly; that alone would leave a loss of 0.2 open."""
    differs = [{"old": "111", "new": "111", "old2": "110"}] * 10
    fallen = [{"old": "111", "new": "000", "old2": "111"}] * falls
    result = answered(tmp_path, [*differs, *fallen, *extra, *[SAME] * (90 - falls - len(extra))])
    repeat = result.metrics["tool_calls"].aa
    assert repeat is not None
    assert repeat.p is not None
    assert repeat.p < 0.05
    assert result.metrics["tool_calls"].regressed == falls
    assert result.answer is answer
    expected = "20 items regressed beyond the noise" if answer is Answer.HOLD else "the old version differs"
    assert result.reason.startswith(expected)


def test_a_clear_loss_is_held_although_the_old_lanes_differ_by_chance(tmp_path: Path) -> None:
    """The old lanes differ by one standard error, 0.03; the new version is worse by 0.10, spread over items."""
    noisy = [("110", "110", "110")] * 5 + [("110", "100", "110")] * 26 + [("110", "100", "100")] * 9
    lanes = [dict(zip(("old", "new", "old2"), each, strict=True)) for each in noisy] + [SAME] * 60
    result = answered(tmp_path, lanes)
    metric = result.metrics["tool_calls"]
    assert metric.aa is not None
    assert (metric.delta, metric.aa.delta) == pytest.approx((-30.5 / 300, -0.03))
    assert metric.regressed == 0
    assert result.answer is Answer.HOLD


def test_a_loss_is_held_by_its_interval_where_the_old_lanes_agree(tmp_path: Path) -> None:
    """Two thirds pass on 24 items in both old lanes, one third in the new one: a loss of 0.08."""
    result = answered(tmp_path, [{"old": "110", "new": "100", "old2": "101"}] * 24 + [SAME] * 76)
    metric = result.metrics["tool_calls"]
    assert metric.aa is not None
    assert (metric.delta, metric.aa.differs) == (pytest.approx(-0.08), False)
    assert metric.regressed == 0
    assert result.answer is Answer.HOLD
    assert "differs from itself" not in result.reason


def graded(n: int, lane: str, k: int, outcome: str) -> GradedTrial:
    done = trial(case(f"c{n}"), lane, k, outcome == "1")
    return GradedTrial(trial=done, grades={"passed": scored(done, "passed", "1", float(outcome == "1"))})


def blocks(outcomes: list[dict[str, str]]) -> list[Block]:
    return [
        Block(
            item=case(f"c{n}"),
            lanes={
                Lane(lane[:3], 2) if lane == "old2" else Lane(lane): tuple(
                    graded(n, lane, k, outcome) for k, outcome in enumerate(text)
                )
                for lane, text in by_lane.items()
            },
        )
        for n, by_lane in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("outcomes", "copies"),
    [
        ([{"old": "111", "old2": "000", "new": "111"}] * 3 + [SAME] * 20, True),
        ([{"old": "111", "old2": "000", "new": "111"}] * 2 + [SAME] * 20, False),
        ([SAME] * 20, False),
        ([{"old": "110", "old2": "010", "new": "101"}] * 20, False),
        (
            [{"old": "111", "old2": "000", "new": "111"}, *[{"old": "110", "old2": "010", "new": "1"}] * 3]
            * 3,
            False,
        ),
        ([{"old": "1", "old2": "0", "new": "1"}] * 20, False),
    ],
)
def test_trials_that_copy_each_other_are_found(outcomes: list[dict[str, str]], copies: bool) -> None:
    assert trials_are_copies(Patterns.all_different(blocks(outcomes))) is copies


def test_copied_trials_count_as_one(tmp_path: Path) -> None:
    """A seed of the lane: whatever an item does, it does three times, and otherwise in another lane."""
    rng = np.random.default_rng(3)
    drawn = rng.random((40, 3)) < 0.7
    lanes = [
        {lane: "111" if passed else "000" for lane, passed in zip(("old", "new", "old2"), row, strict=True)}
        for row in drawn
    ]
    result = answered(tmp_path, lanes)
    assert result.answer is Answer.CANNOT_TELL
    assert result.counts.regressed == 0
    assert any("are copies of one another" in warning for warning in result.warnings)


@full
def test_identical_agents_with_a_bad_hour_are_rarely_held() -> None:
    """Lanes differ with a standard deviation of 0.1: at most one run in twenty, give or take chance."""
    rng, held, runs = np.random.default_rng(5), 0, 40
    for seed in range(runs):
        rates = np.where(rng.random(100) < 0.6, 0.9, rng.beta(2, 1.2, 100))
        scores = {
            lane: {
                "passed": (rng.random((100, 3)) < np.clip(rates + rng.normal(0, 0.1), 0, 1)[:, None]).astype(
                    float
                )
            }
            for lane in (Lane.OLD, Lane.NEW, Lane.OLD2)
        }
        result = diffed(unchanged(rates), scores, seed=seed)
        assert result.metrics[METRIC].aa is not None
        held += result.answer is Answer.HOLD
    assert held <= 5


def test_failures_without_a_score_do_not_hide_the_noise(tmp_path: Path) -> None:
    """Trials of the old lanes that fail are not recorded: what the new version fails is no regression."""
    noisy = [{"old": "11E", "new": "111", "old2": "1EE"}] * 20 + [{"old": "1E1", "new": "000", "old2": "EE1"}]
    result = answered(tmp_path, noisy + [SAME] * 40)
    assert result.counts.regressed == 0
    assert result.answer is not Answer.HOLD


@pytest.mark.parametrize(
    ("outcomes", "copies"),
    [
        ([{"old": "111", "new": "000"}] * 4 + [{"old": "000", "new": "111"}] * 4, True),
        # An agent without chance that only got worse, or trials that differ anywhere, do not look like copies.
        ([{"old": "111", "new": "000"}] * 8 + [{"old": "111", "new": "111"}] * 8, False),
        (
            [{"old": "111", "new": "000"}] * 4
            + [{"old": "000", "new": "111"}] * 4
            + [{"old": "110", "new": "111"}],
            False,
        ),
        ([{"old": "1", "new": "0"}] * 4 + [{"old": "0", "new": "1"}] * 4, False),
    ],
)
def test_trials_without_a_repeat_may_be_copies_where_items_change_both_ways(
    outcomes: list[dict[str, str]], copies: bool
) -> None:
    assert may_be_copies(Patterns.all_different(blocks(outcomes))) is copies


def test_a_few_copies_among_many_trials_that_vary_are_more_than_chance() -> None:
    copied = [{"old": "111", "old2": "000", "new": "111"}] * 4
    varying = [{"old": "110", "old2": "010", "new": "1"}]
    assert trials_are_copies(Patterns.all_different(blocks(copied + varying * 14)))
    assert not trials_are_copies(Patterns.all_different(blocks(copied + varying * 40)))
