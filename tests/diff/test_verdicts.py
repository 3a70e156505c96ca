"""Verdicts on items: what the noise allows to be said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.result import Verdict
from replaydiff.diff.verdicts import (
    SINGLE_TRIAL,
    ItemScores,
    Scale,
    ScoredVerdict,
    combine,
    item_verdicts,
    null_model,
    single_lane_verdict,
)

SCALE = Scale()


def sample(old: str, new: str, again: str = "") -> ItemScores:
    """`110` is two passes and a failure; `?` a trial without a score."""
    return ItemScores(
        old=tuple(float(c) for c in old if c != "?"),
        new=tuple(float(c) for c in new if c != "?"),
        again=tuple(float(c) for c in again),
        old_unscored=old.count("?"),
        new_unscored=new.count("?"),
    )


def verdicts(*samples: ItemScores, scale: Scale = SCALE) -> list[ScoredVerdict]:
    return item_verdicts(samples, scale, null_model(samples, scale), min_delta=0.1, confidence=0.95)


def of(*samples: ItemScores) -> list[str]:
    return [judged.verdict.value for judged in verdicts(*samples)]


@pytest.mark.parametrize("items", [5, 20, 50, 200])
def test_a_clear_change_of_a_stable_agent_is_announced(items: int) -> None:
    rest = [sample("111", "111")] * (items - 2)
    assert of(sample("111", "000"), sample("000", "111"), *rest) == [
        "regressed",
        "improved",
        *["unchanged"] * (items - 2),
    ]


def test_the_same_change_of_an_unstable_agent_is_not() -> None:
    rest = [sample("101", "011"), sample("001", "110"), sample("010", "001")] * 16
    assert of(sample("111", "000"), *rest)[0] == "inconclusive"


def test_a_repeat_that_flips_speaks_for_noise() -> None:
    """Old passed once, failed once, and new failed: the old version did that by itself."""
    steady = [sample("1", "1", "1")] * 30
    assert of(sample("1", "0", "0"), *steady)[0] == "inconclusive"


def test_with_one_trial_and_a_repeat_one_flip_is_not_enough_and_a_pattern_is() -> None:
    steady = [sample("1", "1", "1")] * 40
    assert of(sample("1", "0", "1"), *steady)[0] == "inconclusive"
    assert of(*[sample("1", "0", "1")] * 8, *steady)[:8] == ["regressed"] * 8


def test_single_trials_without_a_repeat_give_the_sign_and_say_so() -> None:
    found = verdicts(sample("1", "0"), sample("0", "1"), sample("1", "1"))
    assert [one.verdict for one in found] == [Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED]
    assert found[0].note == SINGLE_TRIAL


def test_changes_below_min_delta_are_none() -> None:
    small = ItemScores(old=(0.9, 0.9), new=(0.85, 0.85))
    assert item_verdicts([small], SCALE, None, min_delta=0.1, confidence=0.95)[0].verdict is Verdict.UNCHANGED
    exactly = ItemScores(old=(0.9,), new=(0.8,))
    assert (
        item_verdicts([exactly], SCALE, None, min_delta=0.1, confidence=0.95)[0].verdict is Verdict.REGRESSED
    )


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("111", "???", "inconclusive"),
        ("???", "111", "inconclusive"),
        ("111", "11?", "inconclusive"),
        ("111", "00?", "regressed"),
        ("11?", "000", "regressed"),
        ("1??", "000", "inconclusive"),
        ("000", "00?", "inconclusive"),
    ],
)
def test_trials_without_a_score_leave_open_what_they_could_have_changed(
    old: str, new: str, verdict: str
) -> None:
    found = verdicts(sample(old, new), *[sample("111", "111")] * 20)[0]
    assert found.verdict.value == verdict
    assert "no score" in found.note


def test_scores_beyond_0_and_1_are_scaled() -> None:
    samples = [ItemScores(old=(5.0,) * 3, new=(1.0,) * 3), *[ItemScores(old=(4.0,) * 3, new=(4.0,) * 3)] * 20]
    scale = Scale.of(score for one in samples for score in (*one.old, *one.new))
    assert (scale.low, scale.high) == (0.0, 5.0)
    assert verdicts(*samples, scale=scale)[0].verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("passes", "unscored", "verdict"),
    [
        ((True, True), 0, "unchanged"),
        ((False, False), 0, "regressed"),
        ((True, False), 0, "inconclusive"),
        ((True,), 1, "inconclusive"),
        ((False,), 1, "inconclusive"),
        ((), 2, "inconclusive"),
    ],
)
def test_one_lane_is_held_against_the_expectation(
    passes: tuple[bool, ...], unscored: int, verdict: str
) -> None:
    assert single_lane_verdict(passes, unscored).verdict.value == verdict


@pytest.mark.parametrize(
    ("metrics", "verdict"),
    [
        ("regressed improved", "mixed"),
        ("regressed inconclusive", "regressed"),
        ("improved unchanged", "improved"),
        ("inconclusive unchanged", "inconclusive"),
        ("unchanged", "unchanged"),
    ],
)
def test_an_item_is_what_its_metrics_are(metrics: str, verdict: str) -> None:
    assert combine(Verdict(word) for word in metrics.split()) is Verdict(verdict)


trials = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4).map(tuple)


@given(st.lists(st.builds(ItemScores, old=trials, new=trials), min_size=1, max_size=8))
def test_swapping_old_and_new_swaps_the_verdicts(samples: list[ItemScores]) -> None:
    opposite = {Verdict.REGRESSED: Verdict.IMPROVED, Verdict.IMPROVED: Verdict.REGRESSED}
    swapped = [ItemScores(old=one.new, new=one.old) for one in samples]
    there = [one.verdict for one in verdicts(*samples)]
    back = [opposite.get(one.verdict, one.verdict) for one in verdicts(*swapped)]
    assert there == back
