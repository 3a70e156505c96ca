"""Where the marks of the page's small plots stand, in units of their view box."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replaydiff.diff.result import MetricDelta
from replaydiff.reports import numbers

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
    """What the plot says, for those who do not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from −reach to +reach."""

    reach: float

    def x(self, value: float) -> float:
        """Where a value stands; beyond the axis, at its end."""
        inside = max(-1.0, min(1.0, value / self.reach))
        return round(WIDTH / 2 + inside * (WIDTH / 2 - _EDGE), 1)

    @property
    def ends(self) -> tuple[str, str]:
        """The labels of both ends."""
        return numbers.change(-self.reach), numbers.change(self.reach)


def delta_axis(metrics: Iterable[MetricDelta]) -> Axis:
    """One axis that holds every delta and interval: its reach is 1, 2 or 5 times a power of ten."""
    sizes = [0.0]
    for metric in metrics:
        sizes += [abs(value) for value in (metric.delta, *(metric.ci or ())) if value is not None]
    largest = max(size for size in sizes if math.isfinite(size))
    if largest <= 0:
        return Axis(reach=0.1)
    power = 10.0 ** math.floor(math.log10(largest))
    return Axis(reach=next(step * power for step in (1, 2, 5, 10) if step * power >= largest * 0.999))


def delta_plots(metrics: Mapping[str, MetricDelta]) -> tuple[dict[str, DeltaPlot], dict[str, Axis]]:
    """A plot and its axis for every metric that has a delta. Metrics within 0..1 share an axis."""
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
    label = f"delta {numbers.change(metric.delta)}"
    if metric.ci is not None:
        low, high = metric.ci
        tone = "worse" if high < 0 else "better" if low > 0 else "open"
        label += f", interval from {numbers.change(low)} to {numbers.change(high)}"
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
