"""Compare percentiles of two versions that replayed the same items."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2_000
_FEWEST_RESAMPLES = 200
_DRAWS = 2_000_000
"""Weighted values one interval may cost: above it there are fewer resamples, each over more items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileChange:
    """One percentile of all trials of either version."""

    old: float
    new: float
    ci: tuple[float, float] | None
    """Of new − old; None below two clusters."""


def quantile_changes(
    old: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    keys: Sequence[Hashable],
    shares: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[QuantileChange]:
    """Return percentiles of both versions and the intervals of their changes.

    Item i has trials old[i] and new[i].

    The percentiles are those of all trials (linear interpolation, Hyndman & Fan 1996, type 7). The interval
    is a Bayesian bootstrap over clusters (Rubin 1981): each resample draws one weight a cluster, the same for
    both versions, since the items are the same, and takes the difference of the weighted percentiles; its
    ends are percentiles of those differences.
    """
    codes: dict[Hashable, int] = {}
    places = [codes.setdefault(key, len(codes)) for key in keys]
    sides = [_Side(values, places) for values in (old, new)]
    percentiles = [[float(end) for end in np.quantile(side.values, list(shares))] for side in sides]
    count = len(codes)
    if count < 2:
        return [
            QuantileChange(old=before, new=after, ci=None) for before, after in zip(*percentiles, strict=True)
        ]
    size = sum(len(side.values) for side in sides)
    resamples = max(_FEWEST_RESAMPLES, min(RESAMPLES, _DRAWS // size))
    rng = np.random.default_rng(seed)
    changes = np.empty((len(shares), resamples))
    step = max(1, 1_000_000 // size)
    for start in range(0, resamples, step):
        weights = rng.standard_exponential(size=(min(step, resamples - start), count))
        before, after = (side.at(weights, shares) for side in sides)
        changes[:, start : start + len(weights)] = after - before
    tail = (1 - confidence) / 2
    ends = np.quantile(changes, [tail, 1 - tail], axis=1).T.tolist()
    return [
        QuantileChange(old=old_, new=new_, ci=(low, high))
        for old_, new_, (low, high) in zip(*percentiles, ends, strict=True)
    ]


class _Side:
    """The trials of one version in ascending order, each with the place of its cluster."""

    def __init__(self, values: Sequence[Sequence[float]], places: Sequence[int]) -> None:
        flat = np.array([value for trials in values for value in trials])
        owners = np.repeat(np.asarray(places), [len(trials) for trials in values])
        order = np.argsort(flat, kind="stable")
        self.values, self._owners = flat[order], owners[order]

    def at(self, weights: np.ndarray, shares: Sequence[float]) -> np.ndarray:
        """Return, by share and row, the weighted percentile.

        The first value that so much weight does not exceed.
        """
        sums = np.cumsum(weights[:, self._owners], axis=1)
        reached = np.stack([np.sum(sums < share * sums[:, -1:], axis=1) for share in shares])
        percentiles: np.ndarray = self.values[np.minimum(reached, len(self.values) - 1)]
        return percentiles
