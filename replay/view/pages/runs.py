"""Runs: the list, how far one in progress is, one run as its report, and one metric over runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from replaydiff.replay.api.runs import RunSummary
from replaydiff.replay.errors import UnknownNameError
from replaydiff.replay.model import Lane
from replaydiff.replay.terminal.text import single_line, visible
from replaydiff.replay.view.pages import forks
from replaydiff.replay.view.site import Site
from replaydiff.reports import format as fmt
from replaydiff.reports import phrases
from replaydiff.reports.html import render

if TYPE_CHECKING:
    from replaydiff.replay.api.diff import DiffResult
    from replaydiff.replay.api.runs import TrendPoint

_PAGE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run of the list."""

    summary: RunSummary
    source: str
    """The sample's name, or the golden set's path."""
    versions: str


def listed(site: Site, request: Request) -> Response:
    """Show the runs, newest first. The page requests their answers one by one, because they are computed."""
    cached = site.cache.read("runs", None, site.project.runs)
    forked = site.cache.read("forks", None, site.project.runs.forks)
    first = max(0, _number(request.query_params.get("from", "0")))
    rows = cached.value
    return site.page(
        "runs.html.j2",
        cached,
        area="runs",
        rows=[_row(site, summary) for summary in rows[first : first + _PAGE]],
        total=len(rows),
        first=first,
        size=_PAGE,
        forks=[] if first else forked.value[:_PAGE],
        mark=_mark(site),
    )


def live(site: Site, request: Request) -> Response:
    """Return the progress of the runs in progress, and a mark that changes with them; reads no store.

    Of the run that the page follows, its trials as well.
    """
    running = [
        {"run": live_run.run, "done": live_run.done, "total": live_run.total, "failed": live_run.failed}
        for live_run in site.project.runs.in_progress()
    ]
    followed = site.live.find(request.query_params.get("run") or "-")
    return JSONResponse(
        {"running": running, "mark": _mark(site), "run": followed and site.live.page_data(followed)}
    )


def report(site: Site, request: Request) -> Response:
    """Show a run as in its HTML report; while it is in progress, its trials so far."""
    progress = site.live.find(request.path_params["run"])
    if progress is not None:
        return site.page(
            "live.html.j2",
            area="report",
            run=progress.run,
            mark=_mark(site),
            seen=site.live.page_data(progress),
        )
    run = request.path_params["run"]
    fork_runs = {
        fork.record.id: fork.of_run for fork in site.cache.read("forks", None, site.project.runs.forks).value
    }
    if run in fork_runs:
        return forks.page(
            site, site.cache.read("fork", run, lambda: site.project.runs.forked(run)), fork_runs[run]
        )
    cached = site.result("report", run, render.parts)
    return site.page("run.html.j2", cached, area="report", run=cached.value["result"].run.id, **cached.value)


def answer(site: Site, request: Request) -> Response:
    """Show a run's answer in one line."""
    return JSONResponse(site.result("answer", request.path_params["run"], _answer).value)


def file(site: Site, request: Request) -> Response:
    """Return the report of a run as one file, to keep or send."""
    run, text = site.result("file", request.path_params["run"], _file).value
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in run)
    return Response(
        text,
        media_type="text/html",
        headers={"Content-Disposition": f'attachment; filename="replay-report-{name}.html"'},
    )


def _answer(result: DiffResult) -> dict[str, str]:
    return {
        "answer": result.answer.value,
        "tone": render.TONE[result.answer],
        "reason": single_line(result.reason, 300),
    }


def _file(result: DiffResult) -> tuple[str, str]:
    return result.run.id, render.render(result, width=0, color=False)


def _row(site: Site, summary: RunSummary) -> RunRow:
    run = summary.record
    return RunRow(
        summary=summary,
        source=run.sample or site.near(run.golden_path or "–"),
        versions=" → ".join(
            phrases.version_name({"name": run.lanes[lane].name, "commit": run.lanes[lane].commit})
            for lane in (Lane.OLD, Lane.NEW)
            if lane in run.lanes
        ),
    )


def _mark(site: Site) -> str:
    """Return a value that changes when a run begins or ends, so that the page reloads."""
    ids = " ".join(running.run for running in site.project.runs.in_progress())
    return hashlib.sha256(ids.encode()).hexdigest()[:12]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


WIDTH, HEIGHT = 1000.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 20.0, 14.0, 34.0
_WIDEST = 200.0
"""Largest distance of two runs: the first ones are at the left, where a phone shows them."""
_LAST = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Position of a run in the plot, in units of its view box."""

    x: float
    y: float
    low: float
    high: float
    point: TrendPoint
    day: str | None
    """Of the axis; None where the day before stands too near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    kinds: list[str]
    of: str
    points: list[TrendPoint]
    metrics: list[str]
    lanes: list[Lane]


def trends(site: Site, request: Request) -> Response:
    """Show the requested series, else that of the latest run."""
    of = request.query_params.get("of", "")
    metric = request.query_params.get("metric", "tool_calls")
    try:
        lane = Lane.parse(request.query_params.get("lane", "new"))
    except UnknownNameError:
        lane = Lane.NEW

    def find() -> _Match:
        all_series = site.project.runs.series()
        chosen = next(
            (series for series in all_series if series.name == of), all_series[0] if all_series else None
        )
        runs = () if chosen is None else chosen.runs
        return _Match(
            kinds=[series.name for series in all_series],
            of="" if chosen is None else chosen.name,
            points=[] if chosen is None else site.project.runs.points(chosen, metric, str(lane), last=_LAST),
            lanes=sorted(
                {lane, *(run_lane for run in runs for run_lane in run.lanes)},
                key=lambda run_lane: run_lane.order,
            ),
            metrics=list(site.project.diff(runs[-1].id).metrics) if runs else [],
        )

    cached = site.cache.read("trends", (of, metric, lane), find)
    points = cached.value.points
    bottom, top = _reach(points)
    return site.page(
        "trends.html.j2",
        cached,
        area="trends",
        kinds=cached.value.kinds,
        near=site.near,
        of=cached.value.of,
        metric=metric,
        metrics=list(dict.fromkeys([*cached.value.metrics, metric])),
        lane=lane,
        lanes=cached.value.lanes,
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
    """Return the positions of the runs, evenly spaced: on a time axis, bursts of runs would overlap."""
    bottom, top = _reach(points)
    step = min(_WIDEST, (WIDTH - _LEFT - _RIGHT) / max(len(points), 1))
    every = max(1, -(-len(points) * 90 // int(WIDTH)))
    return [
        Mark(
            x=round(_LEFT + (position + 0.5) * step, 1),
            y=_y(point.mean, bottom, top),
            low=_y(point.low, bottom, top),
            high=_y(point.high, bottom, top),
            point=point,
            day=f"{point.created_at:%m-%d %H:%M}" if position % every == 0 else None,
        )
        for position, point in enumerate(points)
    ]


def _reach(points: Sequence[TrendPoint]) -> tuple[float, float]:
    low = min((point.low for point in points), default=0.0)
    high = max((point.high for point in points), default=1.0)
    room = (high - low) * 0.08 or 0.05
    return low - room, high + room


def _y(value: float, bottom: float, top: float) -> float:
    return round(HEIGHT - _BOTTOM - (value - bottom) / (top - bottom) * (HEIGHT - _TOP - _BOTTOM), 1)
