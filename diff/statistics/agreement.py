"""How far two raters agree on ordered grades: share, Cohen's kappa with its interval, what chance gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Of two raters over the same things."""

    labels: int
    share: float
    """On how many both gave the same grade."""
    constant: float
    """What a second rater who always gives the first one's most frequent grade would reach."""
    kappa: float | None
    """Cohen's kappa with linear weights; None where one grade is all there is."""
    kappa_ci: tuple[float, float] | None
    """95 % bootstrap interval of kappa."""
    confusion: tuple[tuple[int, ...], ...]
    """Rows: the first rater's grades in ascending order; columns: the second's."""


def agreement(
    first: Sequence[int], second: Sequence[int], grades: Sequence[int], *, seed: int = 0
) -> Agreement:
    """Compare two raters. Both give one of `grades` to each of at least one thing."""
    table = _table(np.asarray(first), np.asarray(second), grades)
    total = table.sum()
    return Agreement(
        labels=int(total),
        share=float(np.trace(table) / total),
        constant=float(table.sum(axis=1).max() / total),
        kappa=weighted_kappa(table),
        kappa_ci=_interval(table, seed),
        confusion=tuple(tuple(int(count) for count in row) for row in table),
    )


def weighted_kappa(table: np.ndarray) -> float | None:
    """κ_w = 1 − Σ w·o / Σ w·e with w_ij = |i − j| / (k − 1): a miss by two counts twice a miss by one.

    o are the observed shares, e those of two raters who grade independently with the same marginals (Cohen
    1968). None where e leaves no room: both gave one and the same grade throughout.
    """
    shares = table / table.sum()
    size = len(table)
    weights = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / (size - 1)
    expected = float((weights * np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())
    return None if expected == 0 else 1 - float((weights * shares).sum()) / expected


def _table(first: np.ndarray, second: np.ndarray, grades: Sequence[int]) -> np.ndarray:
    place = {grade: index for index, grade in enumerate(sorted(grades))}
    table = np.zeros((len(place), len(place)))
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        table[place[one], place[other]] += 1
    return table


def _interval(table: np.ndarray, seed: int) -> tuple[float, float] | None:
    """Percentile bootstrap over the things that were graded (Efron & Tibshirani 1993, ch. 13)."""
    total = int(table.sum())
    if weighted_kappa(table) is None or total < 2:
        return None
    drawn = np.random.default_rng(seed).multinomial(total, (table / total).ravel(), size=RESAMPLES)
    found = [weighted_kappa(row.reshape(table.shape)) for row in drawn]
    low, high = np.quantile([1.0 if kappa is None else kappa for kappa in found], [0.025, 0.975])
    return float(low), float(high)
