"""One metric over runs of the same golden set, or over monthly samples: what moved, and what is noise.

Each run is held against the one before it. Runs of a golden set share cases: the change is the mean
difference over the cases both have, and what trials alone do to it has the standard error
σ·√((1/k₁ + 1/k₂)/n), with σ the noise of one trial, pooled over both runs and never taken for nothing
(`noise.cautious`). Monthly samples hold other items: their means are compared, and each mean's error, s/√n,
holds what items differ as well (Welch 1947). A change beyond the two-sided quantile of `confidence` is
drift. With many runs some drift is expected by chance: one in twenty at 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from scipy.special import ndtri

from diff.compute import compute
from diff.result import scores_of
from diff.statistics.noise import cautious, pooled_within
from replay.model import Lane, Run
from replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
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

    @property
    def drift(self) -> str | None:
        """`up` or `down` where the change is more than noise."""
        if self.change is None or self.limit is None or abs(self.change) <= self.limit:
            return None
        return "up" if self.change > 0 else "down"


def series(runs: Sequence[Run], cases: str | None = None, *, samples: bool = False) -> list[Run]:
    """The finished runs of a golden set, or of samples; else those of the kind that the latest is of."""
    done = [run for run in runs if run.finished_at is not None]
    if cases:
        return [run for run in done if run.golden_path == cases]
    if done and (samples or done[-1].sample):
        return [run for run in done if run.sample]
    return [run for run in done if run.golden_path == done[-1].golden_path]


def kind(run: Run) -> str:
    """Which series a run belongs to: `samples`, or the path of its golden set."""
    return "samples" if run.sample else str(run.golden_path)


@dataclass(frozen=True, slots=True)
class _Scores:
    point: Point
    groups: Mapping[str, Sequence[float]]


def trend(
    con: DuckDBPyConnection, runs: Sequence[Run], metric: str, lane: Lane, settings: Settings
) -> list[Point]:
    """The series of these runs, oldest first; runs without a score of the metric in the lane are left out."""
    z = float(ndtri((1 + settings.gate.confidence) / 2))
    points: list[Point] = []
    before: _Scores | None = None
    for run in runs:
        if lane not in run.lanes:
            continue
        result = compute(con, run.id, settings)
        if metric not in result.metrics:
            continue
        groups = {
            item.item.id: values
            for item in result.items
            if (values := scores_of(item.lanes.get(lane, ()), metric))
        }
        if not groups:
            continue
        found = _Scores(_point(run, lane, groups, z), groups)
        points.append(_against(found, before, z) if before else found.point)
        before = found
    return points


def _point(run: Run, lane: Lane, groups: Mapping[str, Sequence[float]], z: float) -> Point:
    means = [_mean(values) for values in groups.values()]
    mean, error = _mean(means), _error(run, groups)
    half = 0.0 if error is None else z * error
    version = run.lanes[lane]
    return Point(
        run=run.id,
        created_at=run.created_at,
        of=run.sample or run.golden_path or "-",
        version=f"{version.name} @ {version.commit[:7]}" if version.commit else version.name,
        items=len(means),
        trials=run.trials,
        mean=mean,
        low=mean - half,
        high=mean + half,
    )


def _against(now: _Scores, before: _Scores, z: float) -> Point:
    if now.point.of == before.point.of:
        shared = now.groups.keys() & before.groups.keys()
        if not shared:
            return now.point
        pairs = [(now.groups[name], before.groups[name]) for name in sorted(shared)]
        change = _mean([_mean(one) - _mean(other) for one, other in pairs])
        variance, degrees = pooled_within([group for pair in pairs for group in pair])
        if not degrees:
            return replace(now.point, change=change)
        variance = cautious(variance, degrees)
        spread = math.fsum(variance * (1 / len(one) + 1 / len(other)) for one, other in pairs)
        return replace(now.point, change=change, limit=z * math.sqrt(spread) / len(pairs))
    change = now.point.mean - before.point.mean
    errors = [_sampling_error(scores.groups) for scores in (now, before)]
    if None in errors:
        return replace(now.point, change=change)
    return replace(now.point, change=change, limit=z * math.hypot(*(error or 0.0 for error in errors)))


def _error(run: Run, groups: Mapping[str, Sequence[float]]) -> float | None:
    """Standard error of a run's mean, for the next run of the same kind."""
    if run.sample:
        return _sampling_error(groups)
    variance, degrees = pooled_within(list(groups.values()))
    if not degrees:
        return None
    variance = cautious(variance, degrees)
    return math.sqrt(math.fsum(variance / len(values) for values in groups.values())) / len(groups)


def _sampling_error(groups: Mapping[str, Sequence[float]]) -> float | None:
    means = [_mean(values) for values in groups.values()]
    if len(means) < 2:
        return None
    centre = _mean(means)
    spread = math.fsum((mean - centre) ** 2 for mean in means) / (len(means) - 1)
    return math.sqrt(spread / len(means))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
