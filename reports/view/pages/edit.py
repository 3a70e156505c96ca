"""A case is edited before it is added, as from the terminal's triage; what is wrong is told by line."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from replaydiff.cases.attention import Entry
from replaydiff.cases.duplicates import DuplicateError
from replaydiff.cases.promote import RECORDING, better
from replaydiff.cases.queue import Queue
from replaydiff.replay.errors import InputError, ReplayError, StoreBusyError
from replaydiff.replay.model import Case
from replaydiff.reports.view.pages import triage
from replaydiff.reports.view.site import Site


def form(site: Site, request: Request) -> Response:
    """The case that an entry would become, as a text."""
    from replaydiff.cases.editing import text_of

    fields = dict(request.query_params)
    queue, one, _ = triage.asked(site, request, fields)
    expect = fields.get("expect") or better(one.item)
    expect = expect if expect in triage.expects(one) else RECORDING
    case = triage.proposed(site, queue, one, expect, fields.get("trait", ""))
    return _page(site, queue, one, fields, text=text_of(case), expect=expect)


def save(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Add the case as it was edited; where it is none, the text comes back with what is wrong."""
    from replaydiff.cases.editing import EditError, read_case

    queue, one, following = triage.asked(site, request, fields)
    text = fields.get("text", "").replace("\r\n", "\n")
    try:
        case = read_case(text)
        with site.shelf.writing():
            site.desk.promote([(one.item.item, case)], force=fields.get("force") == "1")
    except (InputError, StoreBusyError) as error:
        line = error.line if isinstance(error, EditError) else None
        return _page(site, queue, one, fields, text=text, wrong=error, line=line)
    return triage.on(queue, following, fields, "promoted")


def again(
    site: Site, queue: Queue, one: Entry, fields: Mapping[str, str], case: Case, wrong: DuplicateError
) -> Response:
    """A case that was not added, since one like it is there: to change, or to add all the same."""
    from replaydiff.cases.editing import text_of

    return _page(site, queue, one, fields, text=text_of(case), wrong=wrong)


def _page(
    site: Site,
    queue: Queue,
    one: Entry,
    fields: Mapping[str, str],
    *,
    text: str,
    expect: str | None = None,
    wrong: ReplayError | None = None,
    line: int | None = None,
) -> Response:
    item, skipped = one.item.item.id, fields.get("again") == "1"
    kept = {"item": item} | ({"again": "1"} if skipped else {})
    twin = isinstance(wrong, DuplicateError)
    return site.page(
        "edit.html.j2",
        status=200 if wrong is None else 400 if isinstance(wrong, InputError) else 503,
        area="triage",
        run=queue.result.run.id,
        item=item,
        again=skipped,
        expect=expect,
        expects=[(name, urlencode(kept | {"expect": name})) for name in triage.expects(one)],
        back=urlencode(kept),
        text=text,
        wrong=None if wrong is None else str(wrong).partition("; --force")[0],
        twin=twin,
        line=line,
        golden=str(site.settings.golden_path),
    )
