"""One metric over runs: a plot of the means in their noise, and the table it is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from replaydiff.diff.trend import TrendPoint, series_kind, trend
from replaydiff.replay.errors import UnknownNameError
from replaydiff.replay.model import Lane
from replaydiff.replay.terminal.plain import visible
from replaydiff.reports import format as fmt
from replaydiff.reports.view.site import Site

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

WIDTH, HEIGHT = 1000.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 20.0, 14.0, 34.0
_LAST = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a run stands in the plot, in units of its view box."""

    x: float
    y: float
    low: float
    high: float
    point: TrendPoint
    day: str | None
    """Of the axis; None where the day before stands too near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    kinds: list[str]
    of: str
    points: list[TrendPoint]
    metrics: list[str]
    lanes: list[Lane]


def trends(site: Site, request: Request) -> Response:
    """The series that is asked for, else that of the latest run."""
    of = request.query_params.get("of", "")
    metric = request.query_params.get("metric", "tool_calls")
    try:
        lane = Lane.parse(request.query_params.get("lane", "new"))
    except UnknownNameError:
        lane = Lane.NEW

    def find(con: DuckDBPyConnection) -> _Found:
        from replaydiff.diff.compute import compute
        from replaydiff.replay.store.runs import list_runs

        runs = [run for run in list_runs(con) if run.finished_at is not None]
        kinds = list(dict.fromkeys(series_kind(run) for run in reversed(runs)))
        chosen = of if of in kinds else kinds[0] if kinds else ""
        shown = [run for run in runs if series_kind(run) == chosen]
        return _Found(
            kinds=kinds,
            of=chosen,
            points=trend(con, shown[-_LAST:], metric, lane, site.settings),
            lanes=sorted({lane, *(known for run in shown for known in run.lanes)}, key=lambda one: one.order),
            metrics=list(compute(con, shown[-1].id, site.settings).metrics) if shown else [],
        )

    found = site.shelf.read("trends", (of, metric, lane), find)
    points = found.value.points
    bottom, top = _reach(points)
    return site.page(
        "trends.html.j2",
        found,
        area="trends",
        kinds=found.value.kinds,
        of=found.value.of,
        metric=metric,
        metrics=list(dict.fromkeys([*found.value.metrics, metric])),
        lane=lane,
        lanes=found.value.lanes,
        points=points,
        marks=plot(points),
        levels=[(_y(level, bottom, top), fmt.score(level)) for level in (bottom, (bottom + top) / 2, top)],
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        right=WIDTH - _RIGHT,
        drifted=[point for point in points if point.drift],
        label=visible(f"{metric} of lane {lane} over {fmt.plural(len(points), 'run')}"),
    )


def plot(points: Sequence[TrendPoint]) -> list[Mark]:
    """Where the runs stand, one after the other: they come in bursts, and time would pile them up."""
    bottom, top = _reach(points)
    step = (WIDTH - _LEFT - _RIGHT) / max(len(points), 1)
    every = max(1, -(-len(points) * 90 // int(WIDTH)))
    return [
        Mark(
            x=round(_LEFT + (place + 0.5) * step, 1),
            y=_y(point.mean, bottom, top),
            low=_y(point.low, bottom, top),
            high=_y(point.high, bottom, top),
            point=point,
            day=f"{point.created_at:%m-%d %H:%M}" if place % every == 0 else None,
        )
        for place, point in enumerate(points)
    ]


def _reach(points: Sequence[TrendPoint]) -> tuple[float, float]:
    low = min((point.low for point in points), default=0.0)
    high = max((point.high for point in points), default=1.0)
    room = (high - low) * 0.08 or 0.05
    return low - room, high + room


def _y(value: float, bottom: float, top: float) -> float:
    return round(HEIGHT - _BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - _TOP - _BOTTOM), 1)
