"""Compute the positions of marks in the page's small plots, in units of their view box.

The page's larger plots: every item's score in both lanes, and what the lanes took in time and money.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from replaydiff.diff.result import DiffResult, LaneSummary, MetricDelta, Verdict
from replaydiff.replay.model import Lane
from replaydiff.replay.terminal.text import visible
from replaydiff.reports import format as fmt
from replaydiff.reports import phrases

WIDTH = 240.0
_EDGE = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaPlot:
    """A metric's delta with its interval on an axis around 0; lengths are those of the view box."""

    tone: str
    """`worse`, `better` or `open`: whether the interval lies wholly on one side of 0."""
    point: float
    low: float | None
    high: float | None
    band: tuple[float, float] | None
    """From x and width: changes too small for this size to show."""
    label: str
    """The plot in words, for those who do not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from −reach to +reach."""

    reach: float

    def x(self, value: float) -> float:
        """Return the position of a value; at the axis's end if it is beyond."""
        inside = max(-1.0, min(1.0, value / self.reach))
        return round(WIDTH / 2 + inside * (WIDTH / 2 - _EDGE), 1)

    @property
    def ends(self) -> tuple[str, str]:
        """Return the labels of both ends."""
        return fmt.change(-self.reach), fmt.change(self.reach)


def delta_axis(metrics: Iterable[MetricDelta]) -> Axis:
    """Return one axis for every delta and interval; its range is 1, 2 or 5 times a power of ten."""
    sizes = [0.0]
    for metric in metrics:
        sizes += [abs(value) for value in (metric.delta, *(metric.ci or ())) if value is not None]
    largest = max(size for size in sizes if math.isfinite(size))
    if largest <= 0:
        return Axis(reach=0.1)
    power = 10.0 ** math.floor(math.log10(largest))
    return Axis(reach=next(step * power for step in (1, 2, 5, 10) if step * power >= largest * 0.999))


def delta_plots(metrics: Mapping[str, MetricDelta]) -> tuple[dict[str, DeltaPlot], dict[str, Axis]]:
    """Return a plot and its axis for every metric with a delta. Metrics within 0..1 share an axis."""
    drawn = {name: metric for name, metric in metrics.items() if metric.delta is not None}
    shares = {name: metric for name, metric in drawn.items() if _is_share(metric)}
    common = delta_axis(shares.values())
    axes = {name: common if name in shares else delta_axis([metric]) for name, metric in drawn.items()}
    return {name: _plot(metric, axes[name]) for name, metric in drawn.items()}, axes


def _is_share(metric: MetricDelta) -> bool:
    return all(-1 <= value <= 1 for value in (metric.old, metric.new, metric.delta) if value is not None)


def _plot(metric: MetricDelta, axis: Axis) -> DeltaPlot:
    delta = metric.delta or 0.0
    tone = "open"
    label = f"delta {fmt.change(metric.delta)}"
    if metric.ci is not None:
        low, high = metric.ci
        tone = "worse" if high < 0 else "better" if low > 0 else "open"
        label += f", interval from {fmt.change(low)} to {fmt.change(high)}"
    band = None
    if metric.mde is not None:
        left = axis.x(-metric.mde)
        band = (left, round(axis.x(metric.mde) - left, 1))
    return DeltaPlot(
        tone=tone,
        point=axis.x(delta),
        low=None if metric.ci is None else axis.x(metric.ci[0]),
        high=None if metric.ci is None else axis.x(metric.ci[1]),
        band=band,
        label=label,
    )


SIDE = 200.0
"""Side of a scatter's square, in units of its view box."""
_CELLS = 24
"""Columns and rows of the grid that items are counted in: what is nearer is one dot."""
_MOST = 6
"""Metrics that are drawn, those that decide the answer first."""
_LEAST_R, _MOST_R = 3.0, 13.0
_TONES = {Verdict.REGRESSED: "worse", Verdict.IMPROVED: "better"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """Items with about the same scores and the same verdict; the dot's area is their number."""

    x: float
    y: float
    r: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """The scatter plot of one metric: the old lane's score on the x axis, the new lane's on the y axis."""

    metric: str
    dots: tuple[Dot, ...]
    band: str | None
    """The corners of the noise band around the line of no change."""
    noise: float | None
    low: str
    high: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One lane's figure as a length in percent of the largest."""

    lane: str
    wide: float
    inner: float | None
    """The median, of a bar that ends at the 95th percentile."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """One figure of all lanes."""

    name: str
    of: str
    rows: tuple[Bar, ...]
    label: str


def scatters(result: DiffResult) -> list[Scatter]:
    """Return a scatter plot for each metric that has scores in both lanes."""
    names = sorted(result.metrics, key=lambda name: not result.metrics[name].gated)
    drawn = (_scatter(result, name, result.metrics[name]) for name in names)
    return [scatter for scatter in drawn if scatter is not None][:_MOST]


def bars(result: DiffResult) -> list[Bars]:
    """Return latency and cost of the lanes side by side; nothing for a single lane."""
    if phrases.is_check(result):
        return []
    shown = [(lane, result.lanes[lane]) for lane in phrases.lanes(result)]
    return [chart for chart in (_latency(shown), _cost(shown)) if chart is not None]


def _scatter(result: DiffResult, name: str, metric: MetricDelta) -> Scatter | None:
    points = [
        (metric_of_item.old, metric_of_item.new, _TONES.get(metric_of_item.verdict, "open"))
        for item in result.items
        if (metric_of_item := item.metrics.get(name)) is not None
        and metric_of_item.old is not None
        and metric_of_item.new is not None
    ]
    if not points:
        return None
    low, high = _reach(value for old, new, _ in points for value in (old, new))
    tones = Counter(tone for _, _, tone in points)
    return Scatter(
        metric=visible(name),
        dots=tuple(_dots(points, low, high)),
        band=_band(metric.noise, high - low),
        noise=metric.noise,
        low=fmt.score(low),
        high=fmt.score(high),
        label=visible(
            f"{name} of each item, old against new: {fmt.count(tones['worse'])} regressed, "
            f"{fmt.count(tones['better'])} improved, {fmt.count(tones['open'])} neither"
        ),
    )


def _reach(values: Iterable[float]) -> tuple[float, float]:
    """Return 0 and 1 for shares; else the least and the largest value."""
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    low = min(low, 0.0)
    return low, high if high > low else low + 1.0


def _dots(points: Sequence[tuple[float, float, str]], low: float, high: float) -> Iterable[Dot]:
    def cell(value: float) -> int:
        return round((value - low) / (high - low) * _CELLS)

    counts = Counter((cell(old), cell(new), tone) for old, new, tone in points)
    largest = max(counts.values())
    room = SIDE - 2 * _MOST_R
    words = {"worse": "regressed", "better": "improved", "open": "neither"}
    # The largest first, so that no dot hides a smaller one.
    for (right, up, tone), number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        yield Dot(
            x=round(_MOST_R + room * right / _CELLS, 1),
            y=round(SIDE - _MOST_R - room * up / _CELLS, 1),
            r=round(_LEAST_R + (_MOST_R - _LEAST_R) * math.sqrt((number - 1) / max(largest - 1, 1)), 1),
            tone=tone,
            title=f"{fmt.plural(number, 'item')}, {words[tone]}",
        )


def _band(noise: float | None, reach: float) -> str | None:
    """Return a strip along the diagonal, as wide on each side as one trial varies by."""
    if not noise:
        return None
    wide = round(min(noise / reach, 1.0) * (SIDE - 2 * _MOST_R), 1)
    near, far = _MOST_R, SIDE - _MOST_R
    corners = [
        (near, far),
        (near, far - wide),
        (far - wide, near),
        (far, near),
        (far, near + wide),
        (near + wide, far),
    ]
    return " ".join(f"{round(x, 1)},{round(y, 1)}" for x, y in corners)


def _latency(lanes: Sequence[tuple[Lane, LaneSummary]]) -> Bars | None:
    most = max((lane.latency_p95_ms or 0.0 for _, lane in lanes), default=0.0)
    if not most:
        return None
    rows = tuple(
        Bar(
            lane=str(name),
            wide=_percent(lane.latency_p95_ms, most),
            inner=None if lane.latency_p50_ms is None else _percent(lane.latency_p50_ms, most),
            text=f"{fmt.duration(lane.latency_p50_ms)} · {fmt.duration(lane.latency_p95_ms)}",
        )
        for name, lane in lanes
    )
    return Bars(name="latency", of="median · 95th percentile", rows=rows, label=_bars_label("Latency", rows))


def _cost(lanes: Sequence[tuple[Lane, LaneSummary]]) -> Bars | None:
    most = max((lane.cost_usd or 0.0 for _, lane in lanes), default=0.0)
    if not most:
        return None
    rows = tuple(
        Bar(
            lane=str(name),
            wide=_percent(lane.cost_usd, most),
            inner=None,
            text=fmt.dollars(lane.cost_usd),
        )
        for name, lane in lanes
    )
    return Bars(name="cost", of="of all trials", rows=rows, label=_bars_label("Cost", rows))


def _bars_label(what: str, rows: Sequence[Bar]) -> str:
    return f"{what}: " + "; ".join(f"{row.lane} {row.text}" for row in rows)


def _percent(value: float | None, most: float) -> float:
    return round(100 * (value or 0.0) / most, 2)
