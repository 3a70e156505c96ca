"""A case is edited before it is added, as from the terminal's triage; what is wrong is told by line."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from cases.attention import Entry
from cases.queue import Queue
from replay.errors import InputError, StoreBusyError
from reports.view.pages import triage
from reports.view.site import Site


def form(site: Site, request: Request) -> Response:
    """The case that an entry would become, as a text."""
    from cases.editing import text_of

    fields = dict(request.query_params)
    queue, one, _ = triage.asked(site, request, fields)
    expect = fields.get("expect") or triage.better(one)
    expect = expect if expect in triage.expects(one) else triage.RECORDING
    case = triage.proposed(site, queue, one, expect, fields.get("trait", ""))
    return _page(site, queue, one, fields, text=text_of(case), expect=expect)


def save(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Add the case as it was edited; where it is none, the text comes back with what is wrong."""
    from cases.editing import EditError, read_case

    queue, one, following = triage.asked(site, request, fields)
    text = fields.get("text", "").replace("\r\n", "\n")
    try:
        case = read_case(text)
        with site.shelf.writing():
            site.desk.promote([(one.item.item, case)])
    except (InputError, StoreBusyError) as error:
        line = error.line if isinstance(error, EditError) else None
        status = 400 if isinstance(error, InputError) else 503
        return _page(site, queue, one, fields, text=text, wrong=str(error), line=line, status=status)
    return triage.on(queue, following, fields, "promoted")


def _page(
    site: Site,
    queue: Queue,
    one: Entry,
    fields: Mapping[str, str],
    *,
    text: str,
    expect: str | None = None,
    wrong: str | None = None,
    line: int | None = None,
    status: int = 200,
) -> Response:
    item, again = one.item.item.id, fields.get("again") == "1"
    kept = {"item": item} | ({"again": "1"} if again else {})
    return site.page(
        "edit.html.j2",
        status=status,
        area="triage",
        run=queue.result.run.id,
        item=item,
        again=again,
        expect=expect,
        expects=[(name, urlencode(kept | {"expect": name})) for name in triage.expects(one)],
        back=urlencode(kept),
        text=text,
        wrong=wrong,
        line=line,
        golden=str(site.settings.golden_path),
    )
