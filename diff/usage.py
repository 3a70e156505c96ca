"""What the new version takes beside the old one: money, time and tokens of a trial, paired by item.

Trials are averaged within an item first, then items are paired, as scores are. Only items count on which a
figure is known of both lanes. Times are of trials that ended `ok`: one that was stopped or failed took less
for no merit of the version. Percentiles are of all those trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from diff.metrics import Block
from diff.result import UsageDelta
from diff.slices import cluster
from diff.statistics import paired
from diff.statistics.quantiles import quantile_changes
from replay.model import Lane, Run, Status, Trial

PERCENTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95}
_FIGURES: dict[str, Callable[[Trial], float | None]] = {
    "cost_usd": lambda trial: trial.cost_usd,
    "latency_ms": lambda trial: trial.latency_ms if trial.status is Status.OK else None,
    "input_tokens": lambda trial: None if trial.usage is None else trial.usage.input_tokens,
    "output_tokens": lambda trial: None if trial.usage is None else trial.usage.output_tokens,
}


def usage(run: Run, blocks: Sequence[Block], confidence: float) -> dict[str, UsageDelta]:
    """Every figure that is known of both lanes in some item; nothing where one lane is alone."""
    if not {Lane.OLD, Lane.NEW} <= run.lanes.keys():
        return {}
    found: dict[str, UsageDelta] = {}
    for name, figure in _FIGURES.items():
        keys, old, new = _known(blocks, figure)
        if not keys:
            continue
        found[name] = _mean_change(keys, old, new, confidence, run.seed)
        if name == "latency_ms":
            shares = list(PERCENTILES.values())
            changes = quantile_changes(old, new, keys, shares, confidence=confidence, seed=run.seed)
            for percentile, change in zip(PERCENTILES, changes, strict=True):
                found[percentile] = UsageDelta(
                    old=change.old,
                    new=change.new,
                    delta=change.new - change.old,
                    ci=change.ci,
                    items=len(keys),
                )
    return found


def _known(
    blocks: Sequence[Block], figure: Callable[[Trial], float | None]
) -> tuple[list[Hashable], list[list[float]], list[list[float]]]:
    """Cluster, old and new values of each item that has both."""
    keys: list[Hashable] = []
    old: list[list[float]] = []
    new: list[list[float]] = []
    for block in blocks:
        sides = [
            [value for graded in block.lanes[lane] if (value := figure(graded.trial)) is not None]
            for lane in (Lane.OLD, Lane.NEW)
        ]
        if all(sides):
            keys.append(cluster(block.item))
            old.append(sides[0])
            new.append(sides[1])
    return keys, old, new


def _mean_change(
    keys: Sequence[Hashable],
    old: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    confidence: float,
    seed: int,
) -> UsageDelta:
    before, after = [_mean(values) for values in old], [_mean(values) for values in new]
    deltas = [late - early for early, late in zip(before, after, strict=True)]
    grouped = paired.clusters(deltas, keys)
    # A price has no largest change: the largest that was seen stands for what was not.
    reach = max(abs(delta) for delta in deltas)
    return UsageDelta(
        old=_mean(before),
        new=_mean(after),
        delta=grouped.mean,
        ci=paired.interval(grouped, confidence=confidence, reach=reach, seed=seed),
        items=len(deltas),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
