"""Labels by hand, blind: a sheet of what the judge graded, without what it said, filled here a row at a time.

The sheet is a file beside replay.toml, as `replay calibrate --draw` writes it and `--read` takes it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from replay.errors import InputError
from replay.terminal.plain import visible
from reports.view.site import Site

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SIZE = 50


def row(site: Site, request: Request) -> Response:
    """The row that is asked for, else the first without a label; where there is no sheet, how to draw one."""
    run = _run(site, request)
    path = _sheet(site, run)
    rows = _rows(path) if path.exists() else []
    keys = [str(one.get("key")) for one in rows]
    open_ = [key for key, one in zip(keys, rows, strict=True) if not _label(one)]
    asked = request.query_params.get("row")
    place = keys.index(asked) if asked in keys else keys.index(open_[0]) if open_ else 0
    shown = {name: visible(str(text)) for name, text in rows[place].items()} if rows else None

    def address(index: int) -> str | None:
        return _address(run, keys[index]) if 0 <= index < len(keys) else None

    return site.page(
        "labels.html.j2",
        area="labels",
        run=run,
        path=str(path),
        size=_SIZE,
        total=len(rows),
        labelled=len(rows) - len(open_),
        place=place,
        shown=shown,
        address=address,
    )


def draw(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Draw a sheet, once."""
    from diff.compute import compute
    from diff.judge import sheet
    from reports.files import write_whole

    run = _run(site, request)
    path = _sheet(site, run)
    size = fields.get("size", str(_SIZE))
    if not (size.isascii() and size.isdigit() and 0 < len(size) < 5 and int(size)):
        raise InputError(f"{size[:20]!r} is no number of responses; say 1 to 9999")

    def find(con: DuckDBPyConnection) -> str:
        found = sheet.judged(compute(con, run, site.settings))
        if not found:
            raise InputError(
                f"run {run} has no response with a score of the judge; "
                "name a model in [judge], then `replay run`"
            )
        return sheet.sheet_text(sheet.draw(found, int(size), 0), lines=True)

    if not path.exists():
        write_whole(path, site.shelf.read("sheet", (run, size), find).value)
    return RedirectResponse(_address(run), status_code=303)


def label(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Keep a label and go on to the next row that has none."""
    from diff.judge import sheet
    from diff.judge.prompt import POINTS
    from reports.files import write_whole

    run = _run(site, request)
    path = _sheet(site, run)
    given = fields.get("label", "")
    if given not in ("", *map(str, POINTS)):
        raise InputError(f"a label is {', '.join(map(str, POINTS))}, not {given[:20]!r}")
    key = fields.get("row", "")
    write_whole(path, sheet.relabelled(path, key, int(given) if given else None, fields.get("note", "")))
    keys = [str(one.get("key")) for one in _rows(path)]
    open_ = {str(one.get("key")) for one in _rows(path) if not _label(one)}
    place = keys.index(key)
    following = next((other for other in [*keys[place + 1 :], *keys[:place]] if other in open_), None)
    return RedirectResponse(_address(run, following or key), status_code=303)


def _run(site: Site, request: Request) -> str:
    """The run's full id, which names the file: never a text of the address alone."""
    from replay.store.runs import get_run

    asked = request.path_params["run"]
    return site.shelf.read("run", asked, lambda con: get_run(con, asked)).value.id


def _sheet(site: Site, run: str) -> Path:
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in run)
    return site.settings.root / f"labels-{name}.jsonl"


def _rows(path: Path) -> list[Mapping[str, Any]]:
    from diff.judge import sheet

    return [one for _, one in sheet.rows(path)]


def _label(one: Mapping[str, Any]) -> str:
    return str(one.get("label") or "").strip()


def _address(run: str, key: str | None = None) -> str:
    return f"/runs/{quote(run, safe='')}/labels" + (f"?{urlencode({'row': key})}" if key else "")
