"""The change that labels and judge give together: unbiased, covered, and as published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.diff.statistics import prediction_powered
from replaydiff.diff.statistics.prediction_powered import (
    Corrected,
    Grouped,
    Judged,
    Labelled,
    corrected_change,
    tuning_factor,
)
from tests.stand_ins.full import examples, full

CHANGES = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])
PAIRS = st.lists(st.tuples(CHANGES, CHANGES), min_size=3, max_size=30)


def _corrected(
    pairs: Sequence[tuple[float, float]], others: Sequence[float], tuning: float | None = None
) -> Corrected:
    found = corrected_change(
        [Labelled(label=label, judge=judge) for label, judge in pairs],
        [Judged(change=change) for change in others],
        tuning=tuning,
    )
    assert found is not None
    return found


@given(PAIRS, st.lists(CHANGES, min_size=3, max_size=60), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=examples(12, 25), deadline=None)
def test_the_estimate_is_that_of_ppi_python(
    pairs: list[tuple[float, float]], others: list[float], tuning: float
) -> None:
    ppi = pytest.importorskip("ppi_py", reason="ppi-python is not installed")
    labels, judge = (np.array(side) for side in zip(*pairs, strict=True))
    expected = ppi.ppi_mean_pointestimate(labels, judge, np.array(others), lam=tuning)
    assert _corrected(pairs, others, tuning).delta == pytest.approx(float(np.squeeze(expected)), abs=1e-12)


@given(PAIRS, st.lists(CHANGES, min_size=3, max_size=60))
@settings(max_examples=examples(12, 25), deadline=None)
def test_the_tuning_factor_is_the_published_one(
    pairs: list[tuple[float, float]], others: list[float]
) -> None:
    """Cov(label, judge) over the variance that the estimate has in the judge's part: no other λ does better."""
    labels, judge = (np.array(side) for side in zip(*pairs, strict=True))
    rest = np.array(others)

    def variance(tuning: float) -> float:
        return float(np.var(labels - tuning * judge) / len(labels) + tuning**2 * np.var(rest) / len(rest))

    found = tuning_factor(
        Grouped(labels, judge, np.ones(len(pairs))), Grouped(rest, rest, np.ones(len(others)))
    )
    assert 0 <= found <= 1
    assert variance(found) <= min(variance(tuning) for tuning in np.linspace(0, 1, 41)) + 1e-12


def test_a_judge_that_knows_nothing_is_left_out_and_a_perfect_one_taken() -> None:
    rng = np.random.default_rng(1)
    labels = rng.choice([-1.0, 0.0, 1.0], 60, p=[0.2, 0.7, 0.1])
    blind = _corrected([(label, 0.0) for label in labels], [0.0] * 200)
    assert (blind.tuning, blind.delta) == (0.0, pytest.approx(labels.mean()))
    others = rng.choice([-1.0, 0.0, 1.0], 2000, p=[0.2, 0.7, 0.1])
    perfect = _corrected([(label, label) for label in labels], [*others])
    assert perfect.tuning > 0.9
    assert perfect.delta == pytest.approx(others.mean(), abs=0.02)
    assert perfect.high - perfect.low < (blind.high - blind.low) * 0.7


def test_pairs_of_equal_labels_leave_open_what_so_few_did_not_show() -> None:
    """No difference in n pairs: the ends are near those of a rate never seen, 1 − 0.025^(1/n)."""
    for pairs in (30, 60, 120):
        found = _corrected([(0.0, 0.0)] * pairs, [0.0] * 300)
        unseen = 1 - 0.025 ** (1 / pairs)
        assert found.delta == 0.0
        assert -1.2 * unseen < found.low < -0.8 * unseen
        assert 0.8 * unseen < found.high < 1.2 * unseen


def test_clusters_and_weights_count() -> None:
    """Four copies of each pair in one cluster tell no more than the pair; weights move the mean."""
    pairs = [(-1.0, 0.0), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)] * 4
    single = _corrected(pairs, [0.0] * 50)
    copied = corrected_change(
        [Labelled(label=a, judge=b, cluster=n) for n, (a, b) in enumerate(pairs) for _ in range(4)],
        [Judged(change=0.0) for _ in range(50)],
    )
    assert copied is not None
    assert copied.delta == pytest.approx(single.delta)
    assert copied.high - copied.low == pytest.approx(single.high - single.low, rel=0.05)
    weighted = corrected_change(
        [Labelled(label=1.0, judge=0.0, weight=3.0), Labelled(label=0.0, judge=0.0, weight=1.0)], []
    )
    assert weighted is not None
    assert (weighted.delta, weighted.tuning) == (0.75, 0.0)
    assert corrected_change([Labelled(label=1.0, judge=0.0)], []) is None


@pytest.mark.parametrize(
    ("catches", "clears"),
    [
        pytest.param((0.9, 0.9), (0.9, 0.9), marks=full),
        ((0.95, 0.3), (0.9, 1.0)),
        pytest.param((0.0, 0.0), (1.0, 1.0), marks=full),
    ],
    ids=["fair", "lenient to the new version", "constant"],
)
def test_the_interval_holds_the_truth_whatever_the_judge(
    catches: tuple[float, float], clears: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of 0.05 that the judge cannot be trusted with: it is in the interval, and rarely waved through."""
    monkeypatch.setattr(prediction_powered, "RESAMPLES", 2_000)
    rng = np.random.default_rng(7)
    runs, items, labelled, loss = 150, 200, 60, 0.05
    held = shipped = 0
    means = []
    for _ in range(runs):
        old = rng.random(items) < 0.9
        new = old & (rng.random(items) > loss / 0.9)
        graded = [
            np.where(passed, rng.random(items) < clear, rng.random(items) >= catch).astype(float)
            for passed, catch, clear in zip((old, new), catches, clears, strict=True)
        ]
        truth, judge = new.astype(float) - old, graded[1] - graded[0]
        pairs = [*zip(truth[:labelled].tolist(), judge[:labelled].tolist(), strict=True)]
        found = _corrected(pairs, judge[labelled:].tolist())
        held += found.low <= -loss <= found.high
        shipped += found.low >= -0.05
        means.append(found.delta)
    assert np.mean(means) == pytest.approx(-loss, abs=3 * np.std(means) / runs**0.5), "unbiased"
    assert held / runs >= 0.93
    assert shipped / runs <= 0.025 + 2 * (0.025 * 0.975 / runs) ** 0.5
