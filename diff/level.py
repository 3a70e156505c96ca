"""Whether the level of a metric fell during a run.

Items are replayed in random order, the lanes of an item beside each other. A provider's bad hour therefore
lowers all lanes of the items that it hits: the change stays a fair comparison, but the level is that of a bad
hour, and a reader who knows another one must be told. The items are cut into quarters by when they began; the
worst quarter is compared with the others (a normal test of two means, corrected for the choice among four).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean, variance

from replaydiff.diff.blocks import trials_of
from replaydiff.diff.result import ItemVerdict, MetricDelta
from replaydiff.diff.statistics.distributions import normal_cdf
from replaydiff.replay.model import Lane, RunRecord, VersionKind

_PARTS = 4
_FEWEST_ITEMS = 40
_LEVEL = 0.01
"""The largest p of a fall that is named."""
_LEAST_FALL = 0.1
"""The smallest fall that is worth a word, as a share of the metric's scale."""


def fall_during_run(
    name: str, metric: MetricDelta, run: RunRecord, items: Sequence[ItemVerdict]
) -> str | None:
    """Return a sentence where a metric decides, and is significantly lower in a part of the run; else None.

    Args:
        name: the metric.
        metric: its figures over the run.
        run: the run.
        items: its items, with their verdicts.
    """
    lanes = [lane for lane, version in run.lanes.items() if version.kind is not VersionKind.OBSERVED]
    if not metric.gated or len(lanes) < len(run.lanes) or Lane.NEW not in lanes:
        return None
    levels = sorted(_levels(name, lanes, items))
    if len(levels) < _FEWEST_ITEMS:
        return None
    values, size = [value for _, value in levels], len(levels) / _PARTS
    cuts = [round(number * size) for number in range(_PARTS + 1)]
    parts = [values[start:end] for start, end in pairwise(cuts)]
    number = min(range(_PARTS), key=lambda at: fmean(parts[at]))
    worst, others = parts[number], [value for at, part in enumerate(parts) if at != number for value in part]
    fall = fmean(others) - fmean(worst)
    se = math.sqrt(variance(worst) / len(worst) + variance(others) / len(others))
    p = _PARTS * (normal_cdf(-fall / se) if se else float(fall <= 0))
    if fall < _LEAST_FALL * metric.reach or p > _LEVEL:
        return None
    began = levels[cuts[number]][0]
    return (
        f"the level of {name} fell during the run, all versions taken together: {fmean(worst):.2f} in the "
        f"{len(worst)} items from {began:%Y-%m-%d %H:%M} on, {fmean(others):.2f} in the other {len(others)}, "
        "as in a provider's bad hour: the versions are still compared fairly, but the level is not the usual "
        "one"
    )


def _levels(name: str, lanes: Sequence[Lane], items: Sequence[ItemVerdict]) -> list[tuple[datetime, float]]:
    """Return of each item when it began, and the mean of both versions."""
    levels = []
    for item in items:
        metric = item.metrics.get(name)
        scores = [] if metric is None else [mean for mean in (metric.old, metric.new) if mean is not None]
        began = [trial.started_at for lane in lanes for trial in trials_of(item, lane) if trial.started_at]
        if scores and began:
            levels.append((min(began), fmean(scores)))
    return levels
