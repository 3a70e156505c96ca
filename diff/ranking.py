"""Several new versions against one old: which is best, and whether that is more than luck.

Each candidate is compared with the old lane as if it were the only one, over the same items, with two
corrections for the choice that follows. Its intervals, and so its answer, are those of
`paired.simultaneous`: over all candidates together they hold with the set confidence, so that the best of
five is not SHIP more easily than one alone. Its p-values are adjusted over the candidates by Holm (1979).
Verdicts on single items are not corrected: a correction would make regressions harder to find, and SHIP
cheaper.

The order is: the answer (SHIP, CAN'T TELL, HOLD); then the mean change over the metrics that decide, or over
all where none may; then fewer regressed items; then the lower cost; then the order in which they were named.

How far a candidate is behind the first is the mean paired difference of their changes, with an interval of
the confidence 1 − α/(m(m − 1)/2): which candidate is first was read off the same data, and any pair could
have been looked at (Bonferroni over all pairs; Hsu 1996, Multiple Comparisons, ch. 5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from replaydiff.diff.clusters import clusters_of
from replaydiff.diff.result import Answer, Candidate, DiffResult, ItemVerdict, MetricDelta, RankedMetric
from replaydiff.diff.statistics import noise, paired
from replaydiff.replay.model import Lane

_ORDER = (Answer.SHIP, Answer.CANNOT_TELL, Answer.HOLD)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def ranked(results: Mapping[Lane, DiffResult], candidate: Lane | None = None) -> DiffResult:
    """Return the result of one candidate, with the ranking of all.

    `results` are those of the candidates, each as the lane `new`. `candidate` is the one to show; None shows
    the one that ranks first.
    """
    order = sorted(results, key=lambda lane: _rank_key(results[lane], list(results).index(lane)))
    shown = order[0] if candidate is None else candidate
    ranking = tuple(
        Candidate(
            lane=lane,
            shown=lane == shown,
            answer=results[lane].answer,
            reason=results[lane].reason,
            counts=results[lane].counts,
            metrics=_metrics(lane, order[0], results),
            summary=results[lane].lanes[Lane.NEW],
        )
        for lane in order
    )
    result = results[shown]
    rank = _ordinal(order.index(shown) + 1)
    name = result.run.lanes[Lane.NEW].name
    return replace(
        result,
        reason=f"{shown} ({name}), {rank} of {len(order)}: {result.reason}",
        ranking=ranking,
    )


def _ordinal(number: int) -> str:
    """Return "first" for 1, "second" for 2, "10th" for 10."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    ending = "th" if 10 < number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _rank_key(result: DiffResult, named: int) -> tuple[int, float, int, float, int]:
    deciding = [metric for metric in result.metrics.values() if metric.gated] or [*result.metrics.values()]
    deltas = [metric.delta for metric in deciding if metric.delta is not None]
    cost = result.lanes[Lane.NEW].cost_usd
    return (
        _ORDER.index(result.answer),
        -math.fsum(deltas) / len(deltas) if deltas else math.inf,
        result.counts.regressed,
        math.inf if cost is None else cost,
        named,
    )


def _metrics(lane: Lane, first: Lane, results: Mapping[Lane, DiffResult]) -> dict[str, RankedMetric]:
    return {
        name: _metric(name, metric, lane, first, results) for name, metric in results[lane].metrics.items()
    }


def _metric(
    name: str, metric: MetricDelta, lane: Lane, first: Lane, results: Mapping[Lane, DiffResult]
) -> RankedMetric:
    graded_lanes = [graded_lane for graded_lane in results if name in results[graded_lane].metrics]
    chances = [
        1.0 if (p := results[graded_lane].metrics[name].p) is None else p for graded_lane in graded_lanes
    ]
    adjusted = dict(zip(graded_lanes, noise.holm(chances), strict=True))[lane]
    behind, behind_ci = _behind(name, results[lane], results[first], len(results))
    return RankedMetric(
        old=metric.old,
        new=metric.new,
        delta=metric.delta,
        ci=metric.ci,
        p=metric.p,
        p_adjusted=None if metric.p is None else adjusted,
        behind=None if lane == first else behind,
        behind_ci=None if lane == first else behind_ci,
        gated=metric.gated,
    )


def _behind(
    name: str, result: DiffResult, first: DiffResult, candidates: int
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the mean paired difference of two candidates' changes, and its interval."""
    best = _changes(name, first.items)
    pairs = [
        (item, best[item.item.id] - delta)
        for item in result.items
        if item.item.id in best and (delta := _change(name, item)) is not None
    ]
    if not pairs:
        return None, None
    clusters = clusters_of(item.item for item, _ in pairs).numbers
    grouped = paired.weighted_clusters(
        [gap for _, gap in pairs],
        [item.item.weight if result.run.sample else 1.0 for item, _ in pairs],
        [clusters[item.item.id] for item, _ in pairs],
    )
    ci = paired.interval(
        grouped,
        confidence=paired.simultaneous(result.confidence, candidates * (candidates - 1) // 2),
        reach=max(1.0, *(abs(gap) for _, gap in pairs)),
    )
    return grouped.mean, ci


def _changes(name: str, items: Sequence[ItemVerdict]) -> dict[str, float]:
    return {item.item.id: delta for item in items if (delta := _change(name, item)) is not None}


def _change(name: str, item: ItemVerdict) -> float | None:
    return item.metrics[name].delta if name in item.metrics else None
