"""What a trial takes and gives in both versions: money, time, tokens, calls, length of the answer, refusals.

Trials are averaged within an item first, then items are paired, as scores are. Only items count on which a
figure is known of both lanes. Times, calls and answers are of trials that ended `ok`: one that was stopped or
failed took less for no merit of the version. Percentiles are of all those trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import TypeVar

from replaydiff.diff.blocks import trials_of
from replaydiff.diff.comparison import Comparison
from replaydiff.diff.responses import declines
from replaydiff.diff.result import UsageDelta
from replaydiff.diff.statistics import paired
from replaydiff.diff.statistics.quantiles import quantile_changes
from replaydiff.replay.model import Lane, Status, Trial

T = TypeVar("T")

PERCENTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95}


def _if_ok(value: Callable[[Trial], float | None]) -> Callable[[Trial], float | None]:
    return lambda trial: value(trial) if trial.status is Status.OK else None


_FIGURES: dict[str, Callable[[Trial], float | None]] = {
    "cost_usd": attrgetter("cost_usd"),
    "latency_ms": _if_ok(attrgetter("latency_ms")),
    "input_tokens": lambda trial: None if trial.usage is None else trial.usage.input_tokens,
    "output_tokens": lambda trial: None if trial.usage is None else trial.usage.output_tokens,
    "calls": _if_ok(lambda trial: len(trial.served)),
    "answer_chars": _if_ok(lambda trial: len(trial.final_response or "")),
    "refusals": _if_ok(lambda trial: float(declines(trial.final_response or ""))),
}
"""Each figure, of one trial; None where it is not known."""


def usage(comparison: Comparison) -> dict[str, UsageDelta]:
    """Compute every figure that both lanes have in some item; nothing where one lane is alone."""
    if not comparison.has_both_lanes:
        return {}
    confidence, seed = comparison.confidence, comparison.run.seed
    deltas: dict[str, UsageDelta] = {}
    every_key = [comparison.clusters.numbers[block.item.id] for block in comparison.read.blocks]
    sides = [_Side(comparison, lane) for lane in (Lane.OLD, Lane.NEW)]
    for name, figure in _FIGURES.items():
        columns = [side.values(figure) for side in sides]
        before, after = (side.means(values) for side, values in zip(sides, columns, strict=True))
        old, new, keys = _values_of_both(before, after, every_key)
        if keys:
            deltas[name] = _mean_change(keys, old, new, confidence)
        if keys and name == "latency_ms":
            old_times, new_times = (side.by_item(values) for side, values in zip(sides, columns, strict=True))
            times = _values_of_both(old_times, new_times, every_key)
            shares = list(PERCENTILES.values())
            changes = quantile_changes(*times, shares, confidence=confidence, seed=seed)
            for percentile, change in zip(PERCENTILES, changes, strict=True):
                deltas[percentile] = UsageDelta(
                    old=change.old,
                    new=change.new,
                    delta=change.new - change.old,
                    ci=change.ci,
                    items=len(keys),
                )
    return deltas


def _values_of_both(
    before: Iterable[T | None], after: Iterable[T | None], keys: Sequence[Hashable]
) -> tuple[list[T], list[T], list[Hashable]]:
    """Return what is known of the items of which something is known in both lanes, and their keys."""
    old, new, shared_keys = [], [], []
    for early, late, key in zip(before, after, keys, strict=True):
        if early is not None and late is not None:
            old.append(early)
            new.append(late)
            shared_keys.append(key)
    return old, new, shared_keys


class _Side:
    """The trials of one lane, in the order of the items."""

    def __init__(self, comparison: Comparison, lane: Lane) -> None:
        by_item = [trials_of(block, lane) for block in comparison.read.blocks]
        self._trials = [trial for trials in by_item for trial in trials]
        self._ends = list(accumulate(map(len, by_item)))
        self._is_single = all(len(trials) == 1 for trials in by_item)

    def values(self, figure: Callable[[Trial], float | None]) -> list[float | None]:
        """Return a figure of each trial."""
        return list(map(figure, self._trials))

    def by_item(self, values: Sequence[float | None]) -> Iterator[tuple[float, ...] | None]:
        """Yield the known values of each item, of those of each trial; None without any."""
        for start, end in pairwise((0, *self._ends)):
            yield tuple([value for value in values[start:end] if value is not None]) or None

    def means(self, values: list[float | None]) -> list[float | None]:
        """Return the mean of each item's known values, of those of each trial; None without any."""
        if self._is_single:
            return values
        return [None if item_values is None else _mean(item_values) for item_values in self.by_item(values)]


def _mean_change(
    keys: Sequence[Hashable],
    before: Sequence[float],
    after: Sequence[float],
    confidence: float,
) -> UsageDelta:
    """Return how a figure changed, of each item's cluster, old mean and new mean."""
    deltas = [late - early for early, late in zip(before, after, strict=True)]
    grouped = paired.clusters(deltas, keys)
    # A price has no largest change: the largest that was seen stands for what was not.
    reach = max(abs(delta) for delta in deltas)
    return UsageDelta(
        old=_mean(before),
        new=_mean(after),
        delta=grouped.mean,
        ci=paired.interval(grouped, confidence=confidence, reach=reach),
        items=len(deltas),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if len(values) > 1 else values[0]
