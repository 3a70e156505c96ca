"""Labels by hand, blind: a sheet of what the judge graded, without what it said, filled here a row at a time.

Everyone who labels has a sheet of their own with the same rows: the file that `replay calibrate` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from replaydiff.diff.judge import labels
from replaydiff.replay.errors import InputError
from replaydiff.replay.terminal.plain import visible
from replaydiff.reports.view.pages.triage import LABELS
from replaydiff.reports.view.site import Site

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.diff.judge.labels import JudgedResponse

_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeller:
    """Somebody who labels, and how far they are."""

    name: str
    done: int
    total: int
    address: str


def row(site: Site, request: Request) -> Response:
    """The row that is asked for, else the first without a label; where there is no sheet, how to draw one."""
    run, by = _run(site, request), _by(site, request.query_params)
    path = labels.own_sheet(site.settings, run, by)
    rows = labels.read(path) if path.exists() else []
    keys = [one.key for one in rows]
    open_ = [one.key for one in rows if one.label is None]
    asked = request.query_params.get("row")
    place = keys.index(asked) if asked in keys else keys.index(open_[0]) if open_ else 0
    people = _people(site, run)

    def address(index: int) -> str | None:
        return _address(run, by, keys[index]) if 0 <= index < len(keys) else None

    return site.page(
        "labels.html.j2",
        area="labels",
        run=run,
        by=by,
        path=str(path),
        size=max((one.total for one in people), default=labels.SIZE),
        total=len(rows),
        labelled=len(rows) - len(open_),
        place=place,
        shown=_shown(rows[place]) if rows else None,
        labels=LABELS,
        people=people,
        reads=" ".join(f"--read {_near(site, sheet)}" for sheet in labels.sheets_of(site.settings, run)),
        saved=f"/runs/{quote(run, safe='')}/labels/sheet?{urlencode({'by': by})}",
        address=address,
    )


def sheet(site: Site, request: Request) -> Response:
    """One person's sheet as a file, to send or keep."""
    run, by = _run(site, request), _by(site, request.query_params)
    path = labels.own_sheet(site.settings, run, by)
    if not path.exists():
        raise InputError(f"there is no sheet of {by!r} for this run; draw one first")
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in path.name)
    return Response(
        path.read_bytes(),
        media_type="application/jsonl",
        headers={"Content-Disposition": f'attachment; filename="labels-{name}"'},
    )


def draw(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Draw a sheet, once for everyone who labels."""
    run, by = _run(site, request), _by(site, fields)
    path = labels.own_sheet(site.settings, run, by)
    size = fields.get("size", str(labels.SIZE))
    if not (size.isascii() and size.isdigit() and 0 < len(size) < 5 and int(size)):
        raise InputError(f"{size[:20]!r} is no number of responses; say 1 to 9999")

    def find(con: DuckDBPyConnection) -> list[JudgedResponse]:
        return labels.draw_sheet(con, site.settings, run, size=int(size))

    if not path.exists():
        labels.write_sheet(path, site.shelf.read("sheet", (run, size), find).value)
    return RedirectResponse(_address(run, by), status_code=303)


def label(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Keep a label and go on to the next row that has none."""
    run, by = _run(site, request), _by(site, fields)
    path = labels.own_sheet(site.settings, run, by)
    given = fields.get("label", "")
    if given not in ("", *LABELS):
        raise InputError(f"a label is {', '.join(LABELS)}, not {given[:20]!r}")
    key = fields.get("row", "")
    labels.set_label(path, key, int(given) if given else None, fields.get("note", ""))
    rows = labels.read(path)
    keys = [one.key for one in rows]
    open_ = {one.key for one in rows if one.label is None}
    place = keys.index(key)
    following = next((other for other in [*keys[place + 1 :], *keys[:place]] if other in open_), None)
    return RedirectResponse(_address(run, by, following or key), status_code=303)


def _run(site: Site, request: Request) -> str:
    """The run's full id, which names the file: never a text of the address alone."""
    from replaydiff.replay.store.runs import get_run

    asked = request.path_params["run"]
    return site.shelf.read("run", asked, lambda con: get_run(con, asked)).value.id


def _by(site: Site, fields: Mapping[str, str]) -> str:
    """Who labels: as the address or the form says, else the person that git knows."""
    person = site.desk.person
    return fields.get("by", "").strip()[:_LONGEST_NAME] or person.partition("<")[0].strip() or person


def _people(site: Site, run: str) -> list[Labeller]:
    found = []
    for path in labels.sheets_of(site.settings, run):
        rows = labels.read(path)
        name = path.stem.partition(".")[2]
        done = sum(one.label is not None for one in rows)
        found.append(Labeller(name=name, done=done, total=len(rows), address=_address(run, name)))
    return found


def _shown(one: labels.LabelRow) -> dict[str, Any]:
    texts = ("key", "conversation", "tool_calls", "response", "expected", "note")
    return {"label": "" if one.label is None else str(one.label)} | {
        name: visible(getattr(one, name)) for name in texts
    }


def _near(site: Site, path: Path) -> str:
    return str(path.relative_to(site.settings.root) if path.is_relative_to(site.settings.root) else path)


def _address(run: str, by: str, key: str | None = None) -> str:
    query = urlencode({"by": by} | ({"row": key} if key else {}))
    return f"/runs/{quote(run, safe='')}/labels?{query}"
