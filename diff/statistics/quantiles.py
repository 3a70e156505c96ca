"""How a percentile changed between two versions that were given the same items."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2_000
_FEWEST_RESAMPLES = 200
_DRAWS = 4_000_000
"""Weighted values one interval may cost: above it there are fewer resamples, each over more items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileChange:
    """One percentile of all trials of either version."""

    old: float
    new: float
    ci: tuple[float, float] | None
    """Of new − old; None below two clusters."""


def quantile_change(
    old: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    keys: Sequence[Hashable],
    share: float,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> QuantileChange:
    """A percentile of both versions and the interval of its change. Item i has the trials old[i] and new[i].

    The percentiles are those of all trials (linear interpolation, Hyndman & Fan 1996, type 7). The interval
    is a Bayesian bootstrap over clusters (Rubin 1981): each resample draws one weight a cluster, the same for
    both versions, since the items are the same, and takes the difference of the weighted percentiles; its
    ends are percentiles of those differences.
    """
    codes: dict[Hashable, int] = {}
    places = [codes.setdefault(key, len(codes)) for key in keys]
    sides = [_Side(values, places) for values in (old, new)]
    found = [float(np.quantile(side.values, share)) for side in sides]
    count = len(codes)
    if count < 2:
        return QuantileChange(old=found[0], new=found[1], ci=None)
    size = sum(len(side.values) for side in sides)
    resamples = max(_FEWEST_RESAMPLES, min(RESAMPLES, _DRAWS // size))
    rng = np.random.default_rng(seed)
    changes = np.empty(resamples)
    step = max(1, 1_000_000 // size)
    for start in range(0, resamples, step):
        weights = rng.standard_exponential(size=(min(step, resamples - start), count))
        before, after = (side.at(weights, share) for side in sides)
        changes[start : start + len(weights)] = after - before
    low, high = np.quantile(changes, [(1 - confidence) / 2, (1 + confidence) / 2])
    return QuantileChange(old=found[0], new=found[1], ci=(float(low), float(high)))


class _Side:
    """The trials of one version in ascending order, each with the place of its cluster."""

    def __init__(self, values: Sequence[Sequence[float]], places: Sequence[int]) -> None:
        flat = np.array([value for trials in values for value in trials])
        owners = np.repeat(np.asarray(places), [len(trials) for trials in values])
        order = np.argsort(flat, kind="stable")
        self.values, self._owners = flat[order], owners[order]

    def at(self, weights: np.ndarray, share: float) -> np.ndarray:
        """The weighted percentile of each row: the first value that so much of the weight does not exceed."""
        sums = np.cumsum(weights[:, self._owners], axis=1)
        reached = (sums < share * sums[:, -1:]).sum(axis=1)
        found: np.ndarray = self.values[np.minimum(reached, len(self.values) - 1)]
        return found
