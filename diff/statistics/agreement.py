"""How far two raters agree on ordered grades: share, Cohen's kappa with its interval, what chance gives."""

from __future__ import annotations

import math
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
    kappa = float(weighted_kappa(table[np.newaxis])[0])
    defined = not math.isnan(kappa)
    return Agreement(
        labels=int(total),
        share=float(np.trace(table) / total),
        constant=float(table.sum(axis=1).max() / total),
        kappa=kappa if defined else None,
        kappa_ci=_interval(table, seed) if defined and total > 1 else None,
        confusion=tuple(tuple(int(count) for count in row) for row in table),
    )


def weighted_kappa(tables: np.ndarray) -> np.ndarray:
    """Return κ_w = 1 − Σ w·o / Σ w·e of each table, with w_ij = |i − j| / (k − 1).

    A miss by two counts twice a miss by one. o are the observed shares, e those of two raters who grade
    independently with the same marginals (Cohen 1968). NaN where e leaves no room: both gave one and the
    same grade throughout.

    Args:
        tables: counts, shape (n, k, k).
    """
    shares = tables / tables.sum(axis=(1, 2), keepdims=True)
    grades = np.arange(tables.shape[1])
    weights = np.abs(np.subtract.outer(grades, grades)) / (len(grades) - 1)
    expected = np.einsum("ij,ni,nj->n", weights, shares.sum(axis=2), shares.sum(axis=1))
    observed = np.einsum("ij,nij->n", weights, shares)
    kappa: np.ndarray = 1 - np.divide(
        observed, expected, out=np.full(len(tables), np.nan), where=expected > 0
    )
    return kappa


def _table(first: np.ndarray, second: np.ndarray, grades: Sequence[int]) -> np.ndarray:
    place = {grade: index for index, grade in enumerate(sorted(grades))}
    table = np.zeros((len(place), len(place)))
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        table[place[one], place[other]] += 1
    return table


def _interval(table: np.ndarray, seed: int) -> tuple[float, float]:
    """Return the percentile bootstrap over the graded things (Efron & Tibshirani 1993, ch. 13)."""
    total = int(table.sum())
    drawn = np.random.default_rng(seed).multinomial(total, (table / total).ravel(), size=RESAMPLES)
    found = np.nan_to_num(weighted_kappa(drawn.reshape(RESAMPLES, *table.shape)), nan=1.0)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
