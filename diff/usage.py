"""What a trial takes and gives in both versions: money, time, tokens, calls, length of the answer, refusals.

Trials are averaged within an item first, then items are paired, as scores are. Only items count on which a
figure is known of both lanes. Times, calls and answers are of trials that ended `ok`: one that was stopped or
failed took less for no merit of the version. Percentiles are of all those trials.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from replaydiff.diff.blocks import trials_of
from replaydiff.diff.comparison import Comparison
from replaydiff.diff.responses import declines
from replaydiff.diff.result import UsageDelta
from replaydiff.diff.statistics import paired
from replaydiff.diff.statistics.quantiles import quantile_changes
from replaydiff.replay.model import Lane, Status, Trial

PERCENTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95}
_FIGURES = ("cost_usd", "latency_ms", "input_tokens", "output_tokens", "calls", "answer_chars", "refusals")


def usage(comparison: Comparison) -> dict[str, UsageDelta]:
    """Every figure that is known of both lanes in some item; nothing where one lane is alone."""
    if not comparison.has_both_lanes:
        return {}
    confidence, seed = comparison.confidence, comparison.run.seed
    found: dict[str, UsageDelta] = {}
    every_key = [comparison.clusters[block.item.id] for block in comparison.read.blocks]
    sides = [_Side.of(comparison, lane) for lane in (Lane.OLD, Lane.NEW)]
    for figure, name in enumerate(_FIGURES):
        before, after = (side.by_item(figure) for side in sides)
        places = [place for place, values in enumerate(zip(before, after, strict=True)) if all(values)]
        if not places:
            continue
        old, new, keys = before, after, every_key
        if len(places) < len(every_key):
            old, new = ([side[place] for place in places] for side in (before, after))
            keys = [every_key[place] for place in places]
        found[name] = _mean_change(keys, old, new, confidence, seed)
        if name == "latency_ms":
            shares = list(PERCENTILES.values())
            changes = quantile_changes(old, new, keys, shares, confidence=confidence, seed=seed)
            for percentile, change in zip(PERCENTILES, changes, strict=True):
                found[percentile] = UsageDelta(
                    old=change.old,
                    new=change.new,
                    delta=change.new - change.old,
                    ci=change.ci,
                    items=len(keys),
                )
    return found


class _Side(NamedTuple):
    """The figures of one lane's trials."""

    ends: list[int]
    """Of each item, where its trials end among all."""
    columns: list[tuple[float | None, ...]]
    """Of each figure, its value in every trial."""

    @classmethod
    def of(cls, comparison: Comparison, lane: Lane) -> _Side:
        trials = [trials_of(block, lane) for block in comparison.read.blocks]
        took = [_took(trial) for done in trials for trial in done]
        return cls(ends=list(accumulate(map(len, trials))), columns=list(zip(*took, strict=True)))

    def by_item(self, figure: int) -> list[Sequence[float]]:
        """The known values of each item."""
        column: Any = self.columns[figure] if self.columns else ()
        groups = [column[start:end] for start, end in pairwise((0, *self.ends))]
        return [[one for one in group if one is not None] for group in groups] if None in column else groups


def _took(trial: Trial) -> tuple[float | None, ...]:
    """The figures of one trial, in the order of `_FIGURES`."""
    used, ended, answer = trial.usage, trial.status is Status.OK, trial.final_response or ""
    return (
        trial.cost_usd,
        trial.latency_ms if ended else None,
        None if used is None else used.input_tokens,
        None if used is None else used.output_tokens,
        len(trial.served) if ended else None,
        len(answer) if ended else None,
        float(declines(answer)) if ended else None,
    )


def _mean_change(
    keys: Sequence[Hashable],
    old: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    confidence: float,
    seed: int,
) -> UsageDelta:
    before, after = ([_mean(values) for values in side] for side in (old, new))
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
    return math.fsum(values) / len(values) if len(values) > 1 else values[0]
