"""Split the uncertainty of a judged change into judge, agent and items.

A score is taken as item + trial + vote (a random-effects model, balanced enough for moments). With v the
pooled variance of the votes of one trial, s the pooled variance of the trials' scores within an item and
lane, k votes a trial, n trials a lane and d the variance of the items' changes:

    judge   v
    agent   s − v/k, at least 0: what the votes of the same trial do not explain
    items   d − 2·(agent + v/k)/n, at least 0 (a change is the difference of two lanes)

The variance of a change's mean is d over the number of items; its parts are v·2/(nk), agent·2/n and items.
The largest part is what is worth buying more of: votes, trials, or items. k and n are harmonic means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from replaydiff.diff.statistics.noise import pooled_within

TrialVoteScores = Sequence[float]
"""The scores of a trial's votes."""
LaneVoteScores = Sequence[TrialVoteScores]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """Standard deviations, on the scale of the score, and their shares of the change's variance."""

    votes: float | None
    """Of one vote around its trial's mean; None where no trial has two votes."""
    trials: float | None
    """Of one trial around its item's mean, the votes' part taken off; None where no lane has two trials."""
    items: float
    """Of an item's change, what votes and trials explain taken off."""
    shares: dict[str, float]
    """Of the variance of the change, by `votes`, `trials` and `items`; what is not known counts with what
    is next in that order."""
    buy: str | None
    """The largest of them; None where nothing varies."""


def split_variance(items: Sequence[tuple[LaneVoteScores, LaneVoteScores]]) -> VarianceSplit | None:
    """Return the split over items with their old and new trials; None with fewer than two such items."""
    paired = [(old, new) for old, new in items if old and new]
    if len(paired) < 2:
        return None
    lanes = [lane for pair in paired for lane in pair]
    votes = _pooled(trial for lane in lanes for trial in lane)
    trials = _pooled([fmean(trial) for trial in lane] for lane in lanes)
    k = _harmonic([len(trial) for lane in lanes for trial in lane])
    n = _harmonic([len(lane) for lane in lanes])
    deltas = [
        fmean([fmean(trial) for trial in new]) - fmean([fmean(trial) for trial in old]) for old, new in paired
    ]
    total = _pooled([deltas]) or 0.0
    of_votes = 2 * (votes or 0.0) / (n * k)
    agent = None if trials is None else max(0.0, trials - (votes or 0.0) / k)
    of_trials = 2 * (agent or 0.0) / n
    of_items = max(0.0, total - of_votes - of_trials)
    parts = {"votes": of_votes, "trials": of_trials, "items": of_items}
    whole = math.fsum(parts.values())
    return VarianceSplit(
        votes=None if votes is None else math.sqrt(votes),
        trials=None if agent is None else math.sqrt(agent),
        items=math.sqrt(of_items),
        shares={name: part / whole if whole else 0.0 for name, part in parts.items()},
        buy=max(parts, key=parts.__getitem__) if whole else None,
    )


def _harmonic(counts: Sequence[int]) -> float:
    return len(counts) / math.fsum(1 / count for count in counts)


def _pooled(groups: Iterable[Sequence[float]]) -> float | None:
    """Return the variance within groups, pooled; None where no group has two values."""
    variance, degrees = pooled_within(groups)
    return variance if degrees else None
