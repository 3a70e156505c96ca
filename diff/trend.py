"""One metric over runs of the same golden set, or over monthly samples: what moved, and what is noise.

**Levels.** Runs of a golden set share cases: a run's level is that of the run before it plus the mean change
over the cases both have. Monthly samples hold other items: their level is their weighted mean (Σwx/Σw).

**Noise between runs.** Two runs of one version differ by more than their trials: a provider's bad day moves
all items of a run together. That noise is estimated from the series itself: the variance of the levels of
earlier runs around their mean, together with a prior worth `PRIOR_RUNS` runs (the noise of trials plus a day
effect of sd `DAY_EFFECT`), and never less than trials alone make. What trials make of a level is σ²·Σ(1/k)/n²
over a golden set, where σ is the noise of one trial, pooled over lanes, with `old` and its repeat `old2` as
one, and never taken for nothing (`noise.cautious`); for a sample the linearised variance of a ratio,
n/(n−1)·Σw²(x−x̄)²/(Σw)² (Cochran 1977, §6.3).

**Drift.** A control chart with a learnt reference. Each level becomes u = Φ⁻¹(F(T)), with T the distance
from the mean of the runs in control over its standard error and F the t distribution of as many degrees of
freedom as the noise has (the self-starting CUSUM of Hawkins & Olwell 1998, ch. 7). Drift is a single |u|
above `SINGLE`, or a cumulative sum C⁺ = max(0, C⁺ + u − `SLACK`), or C⁻ likewise, above `CUMULATED` (Page
1954): slow losses add up. Every run joins the reference at once, so that the u are independent of each other;
were runs held back while a sum is above 0, an unlucky first run would count in each of them. After drift the
reference starts anew with that run. How many runs pass in control before the first false drift:
`benchmarks/trend_run_length.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from replaydiff.diff.compute import compute, graded_items
from replaydiff.diff.result import scores_of
from replaydiff.diff.statistics.distributions import normal_cdf, normal_quantile, t_cdf, t_quantile
from replaydiff.diff.statistics.noise import cautious, pooled_within
from replaydiff.replay.model import Lane, RunRecord
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


DAY_EFFECT = 0.04
"""Standard deviation, on a scale of 0 to 1, of what moves all items of a run together; a prior."""
PRIOR_RUNS = 4
"""How many runs the prior of the noise between runs is worth."""
SINGLE = 3.5
"""A single run this many standard deviations off is drift."""
CUMULATED = 5.0
"""A cumulative sum above it is drift."""
SLACK = 0.4
"""Standard deviations a run that the sums forgive: half the shift that they find soonest."""


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
    """Where the mean would fall again, by the noise of trials and between runs."""
    noise: float | None = None
    """Standard deviation of a run's mean, trials and days together; None where that of trials is unknown."""
    change: float | None = None
    """Against the run before; None for the first, and where they share no case."""
    limit: float | None = None
    """What a change must exceed to be more than trials make; None where their noise is not known."""
    base: str | None = None
    """The run that the reference begins with: that of the last drift, else the first."""
    base_change: float | None = None
    """Against the mean of the reference."""
    base_limit: float | None = None
    """What this change must exceed to be drift by itself."""
    drift: str | None = None
    """`up` or `down`."""
    slow: bool = False
    """Whether it is drift by a cumulative sum, over several runs."""

    @property
    def beyond_trials(self) -> bool:
        """Return whether the change is more than trials make: a day's noise, or the beginning of drift."""
        return self.change is not None and self.limit is not None and abs(self.change) > self.limit


@dataclass(slots=True)
class ControlChart:
    """Levels of runs against a reference that is learnt as they come; see the module's docstring."""

    mean: float
    """Of the reference."""
    runs: int = 1
    squares: float = 0.0
    """Of the levels around the mean of their reference, over all references."""
    degrees: int = 0
    up: float = 0.0
    down: float = 0.0

    def noise(self, trials: float) -> float:
        """Return the standard deviation of a level, where trials make the variance `trials` of it."""
        prior = PRIOR_RUNS * (trials + DAY_EFFECT**2)
        return math.sqrt(max((prior + self.squares) / (PRIOR_RUNS + self.degrees), trials))

    def limit(self, trials: float) -> float:
        """Return how far a level may be from the mean without being drift by itself."""
        quantile = t_quantile(PRIOR_RUNS + self.degrees, normal_cdf(SINGLE))
        return quantile * self.noise(trials) * math.sqrt(1 + 1 / self.runs)

    def add(self, level: float, trials: float) -> tuple[str | None, bool]:
        """Take the next level; return the direction of drift, if any, and whether several runs made it."""
        error = self.noise(trials) * math.sqrt(1 + 1 / self.runs)
        chance = t_cdf(PRIOR_RUNS + self.degrees, (level - self.mean) / error)
        u = normal_quantile(min(max(chance, _TINY), 1 - _TINY))
        self.up = max(0.0, self.up + u - SLACK)
        self.down = max(0.0, self.down - u - SLACK)
        single = abs(u) > SINGLE
        if single or max(self.up, self.down) > CUMULATED:
            falls = u < 0 if single else self.down > self.up
            self.restart(level)
            return "down" if falls else "up", not single
        self._learn(level)
        return None, False

    def restart(self, level: float) -> None:
        """Begin a new reference with this level; the noise between runs stays known."""
        self.mean, self.runs, self.up, self.down = level, 1, 0.0, 0.0

    def _learn(self, level: float) -> None:
        """Take a level into the reference (Welford 1962)."""
        distance = level - self.mean
        self.runs += 1
        self.mean += distance / self.runs
        self.squares += distance * (level - self.mean)
        self.degrees += 1


_TINY = 1e-12


def series(runs: Sequence[RunRecord], kind: str | None = None) -> list[RunRecord]:
    """Return the finished runs of a kind, as `series_kind` returns it; without one, of the latest run's."""
    finished_runs = [run for run in runs if run.finished_at is not None]
    if kind is None:
        kind = series_kind(finished_runs[-1]) if finished_runs else ""
    kinds = {kind, str(Path(kind).absolute())}
    return [run for run in finished_runs if series_kind(run) in kinds]


def series_kind(run: RunRecord) -> str:
    """Return which series a run belongs to: `samples`, or the path of its golden set."""
    return "samples" if run.sample else str(run.golden_path)


@dataclass(frozen=True, slots=True)
class _RunScores:
    point: TrendPoint
    groups: Mapping[str, Sequence[float]]
    """The lane's scores by item."""
    weights: Mapping[str, float]
    repeated: Sequence[Sequence[float]]
    """Scores of one version on one item, of all lanes: what they scatter is the noise."""
    error: float | None
    """Standard error of the mean by the noise of trials, or by the draw of a sample; None where unknown."""


def trend(
    con: DuckDBPyConnection, runs: Sequence[RunRecord], metric: str, lane: Lane, settings: Settings
) -> list[TrendPoint]:
    """Return these runs as a series, oldest first; those without a score are left out."""
    z = normal_quantile((1 + settings.gate.confidence) / 2)
    points: list[TrendPoint] = []
    before: _RunScores | None = None
    chart: ControlChart | None = None
    base, level = "", 0.0
    for run in runs:
        scores = _scores(con, run, metric, lane, settings)
        if scores is None:
            continue
        point, trials = scores.point, _trials_variance(scores)
        change, limit = (None, None) if before is None else _change_and_limit(scores, before, z)
        point = replace(point, change=change, limit=limit)
        if chart is None or change is None:
            # The first run, or one that shares no case with the run before it.
            level = point.mean
            chart, base = ControlChart(level) if chart is None else chart, run.id
            chart.restart(level)
        else:
            level = point.mean if run.sample else level + change
            point = replace(point, base=base, base_change=level - chart.mean, base_limit=chart.limit(trials))
            drift, slow = chart.add(level, trials)
            point = replace(point, drift=drift, slow=slow)
            base = run.id if drift else base
        points.append(_with_band(point, chart, trials, z, scores))
        before = scores
    return points


def _with_band(
    point: TrendPoint, chart: ControlChart, trials: float, z: float, scores: _RunScores
) -> TrendPoint:
    if scores.error is None:
        return point
    noise = chart.noise(trials)
    return replace(point, noise=noise, low=point.mean - z * noise, high=point.mean + z * noise)


def _scores(
    con: DuckDBPyConnection, run: RunRecord, metric: str, lane: Lane, settings: Settings
) -> _RunScores | None:
    """Return a run's point of the metric in the lane; None if it has none."""
    if lane not in run.lanes:
        return None
    candidate = _candidate(con, run, lane, settings)
    read, metrics = graded_items(con, run, settings, candidate)
    # A candidate is called new there.
    shown = Lane.NEW if lane.is_new else lane
    if metric not in metrics:
        return None
    groups: dict[str, Sequence[float]] = {}
    repeated: list[Sequence[float]] = []
    of_pattern = [
        {name: scores_of(trials, metric) for name, trials in block.lanes.items()}
        for block in read.patterns.blocks
    ]
    for block, by_lane in zip(read.blocks, read.patterns.spread(of_pattern), strict=True):
        if by_lane.get(shown):
            groups[block.item.id] = by_lane[shown]
        repeated.append([*by_lane.get(Lane.OLD, ()), *by_lane.get(Lane.OLD2, ())])
        repeated.append(by_lane.get(Lane.NEW, []))
    if not groups:
        return None
    weights = {block.item.id: block.item.weight if run.sample else 1.0 for block in read.blocks}
    error = _sampling_error(groups, weights) if run.sample else _noise_error(groups, repeated)
    return _RunScores(_point(run, lane, groups, weights), groups, weights, repeated, error)


def _candidate(con: DuckDBPyConnection, run: RunRecord, lane: Lane, settings: Settings) -> Lane | None:
    """Return the new lane that a lane is seen with: itself, else the one that ranks first."""
    new = [candidate for candidate in run.lanes if candidate.is_new]
    if new in ([], [Lane.NEW]):
        return None
    if lane.is_new:
        return lane
    ranking = compute(con, run.id, settings).ranking
    return next((candidate.lane for candidate in ranking if candidate.shown), new[0])


def _point(
    run: RunRecord, lane: Lane, groups: Mapping[str, Sequence[float]], weights: Mapping[str, float]
) -> TrendPoint:
    mean = _weighted(groups, weights)
    version = run.lanes[lane]
    return TrendPoint(
        run=run.id,
        created_at=run.created_at,
        of=run.sample or run.golden_path or "-",
        version=f"{version.name} @ {version.commit[:7]}" if version.commit else version.name,
        items=len(groups),
        trials=run.trials,
        mean=mean,
        low=mean,
        high=mean,
    )


def _trials_variance(scores: _RunScores) -> float:
    """Return the variance of a run's mean within the run.

    Where single trials do not show it, it is the most that scores of 0 to 1 with this mean can have, that of
    coins, with one trial of either outcome added.
    """
    if scores.error is not None:
        return scores.error**2
    items = len(scores.groups)
    share = (scores.point.mean * items + 1) / (items + 2)
    return share * (1 - share) / items


def _change_and_limit(now: _RunScores, before: _RunScores, z: float) -> tuple[float | None, float | None]:
    """Return the change of one run against another, and what it must exceed to be more than noise."""
    if now.point.of == before.point.of:
        shared = sorted(now.groups.keys() & before.groups.keys())
        if not shared:
            return None, None
        pairs = [(now.groups[name], before.groups[name]) for name in shared]
        change = fmean([fmean(later) - fmean(earlier) for later, earlier in pairs])
        variance, degrees = pooled_within([*now.repeated, *before.repeated])
        if not degrees:
            return change, None
        variance = cautious(variance, degrees)
        spread = math.fsum(variance * (1 / len(later) + 1 / len(earlier)) for later, earlier in pairs)
        return change, z * math.sqrt(spread) / len(pairs)
    change = now.point.mean - before.point.mean
    errors = [_sampling_error(scores.groups, scores.weights) for scores in (now, before)]
    if None in errors:
        return change, None
    return change, z * math.hypot(*(error or 0.0 for error in errors))


def _noise_error(groups: Mapping[str, Sequence[float]], repeated: Sequence[Sequence[float]]) -> float | None:
    """Return the standard error of a run's mean, for the next run of the same items."""
    variance, degrees = pooled_within(repeated)
    if not degrees:
        return None
    variance = cautious(variance, degrees)
    return math.sqrt(math.fsum(variance / len(values) for values in groups.values())) / len(groups)


def _sampling_error(groups: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> float | None:
    """Return the standard error of a month's mean, over the draw of its items."""
    if len(groups) < 2:
        return None
    centre = _weighted(groups, weights)
    total = math.fsum(weights[name] for name in groups)
    spread = math.fsum((weights[name] * (fmean(values) - centre)) ** 2 for name, values in groups.items())
    return math.sqrt(len(groups) / (len(groups) - 1) * spread) / total


def _weighted(groups: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> float:
    return math.fsum(weights[name] * fmean(values) for name, values in groups.items()) / math.fsum(
        weights[name] for name in groups
    )
