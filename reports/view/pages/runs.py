"""Runs: the list, how far one is that goes on now, and one run as its report."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from replaydiff.replay.engine.tally import running
from replaydiff.replay.model import Lane, RunRecord
from replaydiff.replay.terminal.plain import one_line
from replaydiff.reports import format as fmt
from replaydiff.reports.html import render
from replaydiff.reports.view.site import Site

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.diff.result import DiffResult

_PAGE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A run of the list."""

    run: RunRecord
    what: str
    versions: str
    items: int


def listed(site: Site, request: Request) -> Response:
    """The runs, newest first. Their answers are computed, so the page asks for them one by one."""
    found = site.shelf.read("runs", None, _lines)
    first = max(0, _number(request.query_params.get("from", "0")))
    lines = found.value
    return site.page(
        "runs.html.j2",
        found,
        area="runs",
        lines=lines[first : first + _PAGE],
        total=len(lines),
        first=first,
        size=_PAGE,
        mark=_mark(site),
    )


def live(site: Site, request: Request) -> Response:
    """How far the runs are that go on now, and whether the page is still as it was; asks files alone.

    Of the run that is followed, what came of its trials, too.
    """
    told = [
        {"run": one.run, "done": one.done, "total": one.total, "failed": one.failed}
        for one in running(site.shelf.store)
    ]
    followed = site.follower.told(request.query_params.get("run") or "-")
    return JSONResponse(
        {"running": told, "mark": _mark(site), "run": followed and site.follower.look(followed)}
    )


def report(site: Site, request: Request) -> Response:
    """A run, as its HTML report shows it; while it goes on, how far it is and what came of its trials."""
    told = site.follower.told(request.path_params["run"])
    if told is not None:
        return site.page(
            "live.html.j2", area="report", run=told.run, mark=_mark(site), seen=site.follower.look(told)
        )
    found = site.result("report", request.path_params["run"], render.parts)
    return site.page("run.html.j2", found, area="report", run=found.value["result"].run.id, **found.value)


def answer(site: Site, request: Request) -> Response:
    """A run's answer in a line."""
    return JSONResponse(site.result("answer", request.path_params["run"], _answer).value)


def file(site: Site, request: Request) -> Response:
    """The report of a run as one file, to keep or send."""
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
        "reason": one_line(result.reason, 300),
    }


def _file(result: DiffResult) -> tuple[str, str]:
    return result.run.id, render.render(result, width=0, color=False)


def _lines(con: DuckDBPyConnection) -> list[Line]:
    from replaydiff.replay.store.runs import list_runs

    items = dict(con.execute("SELECT run_id, count(*) FROM run_items GROUP BY run_id").fetchall())
    return [
        Line(
            run=run,
            what=run.sample or run.golden_path or "–",
            versions=" → ".join(
                fmt.version_name({"name": run.lanes[lane].name, "commit": run.lanes[lane].commit})
                for lane in (Lane.OLD, Lane.NEW)
                if lane in run.lanes
            ),
            items=items.get(run.id, 0),
        )
        for run in reversed(list_runs(con))
    ]


def _mark(site: Site) -> str:
    """Other than before, once a run has begun or ended: the page is then read anew."""
    ids = " ".join(one.run for one in running(site.shelf.store))
    return hashlib.sha256(ids.encode()).hexdigest()[:12]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
