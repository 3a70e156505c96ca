"""Labels by hand: a sheet of the responses that the judge graded, without its grades, a row at a time.

Everyone who labels has a sheet of their own with the same rows: the file that `replay calibrate` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from replaydiff.replay.errors import InputError
from replaydiff.replay.terminal.text import visible
from replaydiff.replay.view.pages.triage import LABELS
from replaydiff.replay.view.site import Site, address, go_to

if TYPE_CHECKING:
    from replaydiff.replay.api.judge import LabelRow, LabelSheets

_LONGEST_NAME = 80
_SIZE = 50
"""Rows of a sheet unless the form has another number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeller:
    """A person who labels, and their progress."""

    name: str
    done: int
    total: int
    address: str


def row(site: Site, request: Request) -> Response:
    """Show the requested row, else the first without a label; without a sheet, how to draw one."""
    sheets, by = _sheets(site, request), _by(site, request.query_params)
    run, rows = sheets.run_id, sheets.rows(by)
    keys = [label_row.key for label_row in rows]
    open_ = [label_row.key for label_row in rows if label_row.label is None]
    requested = request.query_params.get("row")
    position = keys.index(requested) if requested in keys else keys.index(open_[0]) if open_ else 0
    people = _people(sheets)

    def address_of(index: int) -> str | None:
        return _address(run, by, keys[index]) if 0 <= index < len(keys) else None

    return site.page(
        "labels.html.j2",
        area="labels",
        run=run,
        by=by,
        path=site.near(str(sheets.path_of(by))),
        size=max((label_row.total for label_row in people), default=_SIZE),
        total=len(rows),
        labelled=len(rows) - len(open_),
        place=position,
        shown=_shown(rows[position]) if rows else None,
        labels=LABELS,
        people=people,
        reads=" ".join(f"--labels {site.near(str(path))}" for path in sheets.paths().values()),
        saved=address("runs", run, "labels", "sheet", by=by),
        address=address_of,
    )


def sheet(site: Site, request: Request) -> Response:
    """Return one person's sheet as a file, to send or keep."""
    by = _by(site, request.query_params)
    path = _sheets(site, request).path_of(by)
    if not path.exists():
        raise InputError(f"there is no sheet of {by!r} for this run; draw one first")
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in path.name)
    return Response(
        path.read_bytes(),
        media_type="application/jsonl",
        headers={"Content-Disposition": f'attachment; filename="labels-{name}"'},
    )


def draw(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Draw a sheet, once for all people who label."""
    sheets, by = _sheets(site, request), _by(site, fields)
    size = fields.get("size", str(_SIZE))
    if not (size.isascii() and size.isdigit() and 0 < len(size) < 5 and int(size)):
        raise InputError(f"{size[:20]!r} is not a number of responses; use 1 to 9999")
    sheets.draw(by, size=int(size))
    return go_to(_address(sheets.run_id, by))


def label(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Keep a label and show the next row that has none."""
    sheets, by = _sheets(site, request), _by(site, fields)
    label_text = fields.get("label", "")
    if label_text not in ("", *LABELS):
        raise InputError(f"a label is {', '.join(LABELS)}, not {label_text[:20]!r}")
    key = fields.get("row", "")
    sheets.set_label(by, key, int(label_text) if label_text else None, fields.get("note", ""))
    rows = sheets.rows(by)
    keys = [label_row.key for label_row in rows]
    open_ = {label_row.key for label_row in rows if label_row.label is None}
    position = keys.index(key)
    following = next(
        (candidate for candidate in [*keys[position + 1 :], *keys[:position]] if candidate in open_), None
    )
    return go_to(_address(sheets.run_id, by, following or key))


def _sheets(site: Site, request: Request) -> LabelSheets:
    """Return the sheets of a run of the store.

    A file is named after its id, never after a text of the address.
    """
    run = request.path_params["run"]
    return site.cache.read("run", run, lambda: site.project.judge.sheets(run)).value


def _by(site: Site, fields: Mapping[str, str]) -> str:
    """Return the person who labels: from the address or the form, else git's user."""
    person = site.reviewer.person
    return fields.get("by", "").strip()[:_LONGEST_NAME] or person.partition("<")[0].strip() or person


def _people(sheets: LabelSheets) -> list[Labeller]:
    people = []
    for name in sheets.paths():
        rows = sheets.rows(name)
        labelled = sum(label_row.label is not None for label_row in rows)
        people.append(
            Labeller(name=name, done=labelled, total=len(rows), address=_address(sheets.run_id, name))
        )
    return people


def _shown(label_row: LabelRow) -> dict[str, Any]:
    texts = ("key", "conversation", "tool_calls", "response", "expected", "note")
    return {"label": "" if label_row.label is None else str(label_row.label)} | {
        name: visible(getattr(label_row, name)) for name in texts
    }


def _address(run: str, by: str, key: str | None = None) -> str:
    return address("runs", run, "labels", by=by, row=key or None)
