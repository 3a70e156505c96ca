"""One metric over runs of the same golden set, or over monthly samples: what moved, and what is noise.

Each run is held against the one before it, and against the last one that drifted (else the first), so that
what falls a little every month is seen as well. Runs of a golden set share cases: the change is the mean
difference over the cases both have, and what trials alone do to it has the standard error
σ·√((1/k₁ + 1/k₂)/n). σ is the noise of one trial, pooled over the lanes of both runs, with `old` and its
repeat `old2` as one, and never taken for nothing (`noise.cautious`); so an A/A lane tells it where each lane
has one trial. Monthly samples hold other items: their means are compared, weighted to their months
(Σwx/Σw), and each mean's error, √(n/(n−1)·Σw²(x−x̄)²)/Σw, holds what items differ as well (the linearised
variance of a ratio; Cochran 1977, §6.3; Welch 1947 for the difference).

A change beyond the two-sided quantile of `confidence` is drift; the two comparisons of a run share what is
left of it (Bonferroni). With many runs some drift is expected by chance: one in twenty at 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from scipy.special import ndtri

from replaydiff.diff.compute import compute
from replaydiff.diff.result import scores_of
from replaydiff.diff.statistics.noise import cautious, pooled_within
from replaydiff.diff.statistics.paired import simultaneous
from replaydiff.replay.model import Lane, RunRecord
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """One run of a series."""

    run: str
    created_at: datetime
    of: str
    """The sample's name, or the golden set's path."""
    version: str
    items: int
    """Items with a score."""
    trials: int
    mean: float
    low: float
    high: float
    """Where the mean would fall again, by the noise alone."""
    change: float | None = None
    """Against the run before; None for the first, and where they share no case."""
    limit: float | None = None
    """What a change must exceed to be more than noise; None where the noise is not known."""
    base: str | None = None
    """The run of the last drift, else the first; None where that is the run before."""
    base_change: float | None = None
    """Against `base`; None without one."""
    base_limit: float | None = None

    @property
    def drift(self) -> str | None:
        """`up` or `down` where a change is more than noise."""
        for change, limit in ((self.change, self.limit), (self.base_change, self.base_limit)):
            if change is not None and limit is not None and abs(change) > limit:
                return "up" if change > 0 else "down"
        return None

    @property
    def slow(self) -> bool:
        """Whether it is drift against `base` alone: no run left the noise of the one before it."""
        return self.drift is not None and not (
            self.change is not None and self.limit is not None and abs(self.change) > self.limit
        )


def series(runs: Sequence[RunRecord], cases: str | None = None, *, samples: bool = False) -> list[RunRecord]:
    """The finished runs of a golden set, or of samples; else those of the kind that the latest is of."""
    done = [run for run in runs if run.finished_at is not None]
    if cases:
        return [run for run in done if run.golden_path == cases]
    if done and (samples or done[-1].sample):
        return [run for run in done if run.sample]
    return [run for run in done if run.golden_path == done[-1].golden_path]


def series_kind(run: RunRecord) -> str:
    """Which series a run belongs to: `samples`, or the path of its golden set."""
    return "samples" if run.sample else str(run.golden_path)


@dataclass(frozen=True, slots=True)
class _RunScores:
    point: TrendPoint
    groups: Mapping[str, Sequence[float]]
    """The lane's scores by item."""
    weights: Mapping[str, float]
    repeated: Sequence[Sequence[float]]
    """Scores of one version on one item, of all lanes: what they scatter is the noise."""


def trend(
    con: DuckDBPyConnection, runs: Sequence[RunRecord], metric: str, lane: Lane, settings: Settings
) -> list[TrendPoint]:
    """The series of these runs, oldest first; runs without a score of the metric in the lane are left out."""
    confidence = settings.gate.confidence
    points: list[TrendPoint] = []
    before: _RunScores | None = None
    base: _RunScores | None = None
    for run in runs:
        found = _scores(con, run, metric, lane, settings)
        if found is None:
            continue
        point = found.point
        if before is not None and base is not None:
            several = base is not before
            z = float(ndtri((1 + simultaneous(confidence, 1 + several)) / 2))
            change, limit = _change_and_limit(found, before, z)
            point = replace(point, change=change, limit=limit)
            if several:
                change, limit = _change_and_limit(found, base, z)
                point = replace(point, base=base.point.run, base_change=change, base_limit=limit)
        points.append(point)
        before = found
        if base is None or point.drift:
            base = found
    return points


def _scores(
    con: DuckDBPyConnection, run: RunRecord, metric: str, lane: Lane, settings: Settings
) -> _RunScores | None:
    """What a run says of the metric in the lane; None where it says nothing."""
    if lane not in run.lanes:
        return None
    several = sum(one.is_new for one in run.lanes) > 1
    result = compute(con, run.id, settings, candidate=lane if several and lane.is_new else None)
    # A candidate among several is called new in its result.
    known = Lane.NEW if lane.is_new else lane
    if metric not in result.metrics:
        return None
    groups: dict[str, Sequence[float]] = {}
    repeated: list[Sequence[float]] = []
    for item in result.items:
        by_lane = {name: scores_of(trials, metric) for name, trials in item.lanes.items()}
        if by_lane.get(known):
            groups[item.item.id] = by_lane[known]
        repeated.append([*by_lane.get(Lane.OLD, ()), *by_lane.get(Lane.OLD2, ())])
        repeated.append(by_lane.get(Lane.NEW, []))
    if not groups:
        return None
    weights = {item.item.id: item.item.weight if run.sample else 1.0 for item in result.items}
    return _RunScores(_point(run, lane, groups, weights, repeated, settings), groups, weights, repeated)


def _point(
    run: RunRecord,
    lane: Lane,
    groups: Mapping[str, Sequence[float]],
    weights: Mapping[str, float],
    repeated: Sequence[Sequence[float]],
    settings: Settings,
) -> TrendPoint:
    mean = _weighted(groups, weights)
    error = _sampling_error(groups, weights) if run.sample else _noise_error(groups, repeated)
    half = 0.0 if error is None else float(ndtri((1 + settings.gate.confidence) / 2)) * error
    version = run.lanes[lane]
    return TrendPoint(
        run=run.id,
        created_at=run.created_at,
        of=run.sample or run.golden_path or "-",
        version=f"{version.name} @ {version.commit[:7]}" if version.commit else version.name,
        items=len(groups),
        trials=run.trials,
        mean=mean,
        low=mean - half,
        high=mean + half,
    )


def _change_and_limit(now: _RunScores, before: _RunScores, z: float) -> tuple[float | None, float | None]:
    """The change of one run against another, and what it must exceed to be more than noise."""
    if now.point.of == before.point.of:
        shared = sorted(now.groups.keys() & before.groups.keys())
        if not shared:
            return None, None
        pairs = [(now.groups[name], before.groups[name]) for name in shared]
        change = _mean([_mean(one) - _mean(other) for one, other in pairs])
        variance, degrees = pooled_within([*now.repeated, *before.repeated])
        if not degrees:
            return change, None
        variance = cautious(variance, degrees)
        spread = math.fsum(variance * (1 / len(one) + 1 / len(other)) for one, other in pairs)
        return change, z * math.sqrt(spread) / len(pairs)
    change = now.point.mean - before.point.mean
    errors = [_sampling_error(scores.groups, scores.weights) for scores in (now, before)]
    if None in errors:
        return change, None
    return change, z * math.hypot(*(error or 0.0 for error in errors))


def _noise_error(groups: Mapping[str, Sequence[float]], repeated: Sequence[Sequence[float]]) -> float | None:
    """Standard error of a run's mean, for the next run of the same items."""
    variance, degrees = pooled_within(repeated)
    if not degrees:
        return None
    variance = cautious(variance, degrees)
    return math.sqrt(math.fsum(variance / len(values) for values in groups.values())) / len(groups)


def _sampling_error(groups: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> float | None:
    """Standard error of a month's mean, over the draw of its items."""
    if len(groups) < 2:
        return None
    centre = _weighted(groups, weights)
    total = math.fsum(weights[name] for name in groups)
    spread = math.fsum((weights[name] * (_mean(values) - centre)) ** 2 for name, values in groups.items())
    return math.sqrt(len(groups) / (len(groups) - 1) * spread) / total


def _weighted(groups: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> float:
    return math.fsum(weights[name] * _mean(values) for name, values in groups.items()) / math.fsum(
        weights[name] for name in groups
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
