"""Triage: one entry at a time, decided at the same desk as in the terminal.

A case is edited before it is added, as from the terminal's triage; what is wrong is told by line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from replaydiff.cases.promote import RECORDING, better
from replaydiff.cases.similarity import DuplicateError
from replaydiff.cases.triage.priority import Entry, decision_key
from replaydiff.cases.triage.queue import Queue, kind
from replaydiff.diff.graders.base import JUDGE
from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import InputError, ReplayError, StoreBusyError
from replaydiff.replay.model import Action, Case, Lane, Status
from replaydiff.reports.html import render, transcripts
from replaydiff.reports.view.cache import Cached
from replaydiff.reports.view.site import Site

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def entry(site: Site, request: Request) -> Response:
    """The entry that is asked for by its item, else the first."""
    again = request.query_params.get("again") == "1"
    found = _queue(site, request.path_params["run"], again=again)
    queue, entries = found.value, _open(site, found.value)
    run = queue.result.run.id
    names = [one.item.item.id for one in entries]
    wanted = request.query_params.get("item")
    place = names.index(wanted) if wanted in names else 0
    shown = entries[place] if entries else None

    def address(index: int) -> str | None:
        return _address(run, names[index], again=again) if 0 <= index < len(names) else None

    return site.page(
        "triage.html.j2",
        found,
        area="triage",
        run=run,
        again=again,
        entries=entries,
        place=place,
        shown=shown,
        kind=kind,
        address=address,
        decided=queue.decided + len(_decided(site) & {decision_key(item) for item in queue.result.items}),
        undoable=any(decision.action is not Action.LABEL for decision, _ in site.desk.done),
        expects=_expectation_choices(shown) if shown else [],
        better=better(shown.item) if shown else RECORDING,
        label=_label_of(site, shown) if shown else None,
        judged=JUDGE in queue.result.metrics,
        said=_SAID.get(request.query_params.get("said", "")),
        labels=LABELS,
        golden=str(site.settings.golden_path),
        data=_script_data(queue, shown) if shown else "",
    )


def promote(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Make the entry a case of the golden set."""
    from replaydiff.cases.similarity import DuplicateError

    pass

    queue, one, following = _requested_entry(site, request, fields)
    case = _proposed_case(site, queue, one, fields.get("expect", RECORDING), fields.get("trait", ""))
    try:
        with site.shelf.writing():
            site.desk.promote([(one.item.item, case)])
    except DuplicateError as error:
        return _edit_page_after_duplicate(site, queue, one, fields, case, error)
    return _redirect_to_next(queue, following, fields, "promoted")


def _proposed_case(site: Site, queue: Queue, one: Entry, expect: str, trait: str) -> Case:
    """The case that an entry would become.

    Raises:
        InputError: the lane whose calls are to be expected has no trial that ended well.
    """
    from replaydiff.cases.golden import free_id
    from replaydiff.cases.promote import propose

    return propose(
        one.item.item,
        case_id=free_id(site.desk.golden, one.item.item.id),
        reviewer=site.desk.person,
        at=utc_now(),
        run=queue.result.run,
        trials=tuple(graded.trial for lane in one.item.lanes.values() for graded in lane),
        expect=expect,
        traits=(trait.strip(),) if trait.strip() else (),
    ).case


def dismiss(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Put the entry aside, with a reason, and with `alike` its near-duplicates too."""
    queue, one, following = _requested_entry(site, request, fields)
    reason = fields.get("reason", "").strip()
    if not reason:
        raise InputError("nothing was put aside: say in a few words why it needs no case")
    items = [one.item.item, *(item.item for item in one.alike if fields.get("alike") == "1")]
    with site.shelf.writing():
        site.desk.dismiss(items, queue.result.run.id, reason)
    return _redirect_to_next(queue, following, fields, "dismissed")


def skip(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Leave the entry for later."""
    queue, one, following = _requested_entry(site, request, fields)
    with site.shelf.writing():
        site.desk.skip(one.item.item, queue.result.run.id)
    return _redirect_to_next(queue, following, fields, "skipped")


def label(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Say how good the new lane's answer is, where no judge did; the entry stays."""
    queue, one, _ = _requested_entry(site, request, fields)
    given = fields.get("label", "")
    if given not in LABELS:
        raise InputError(f"a label is {', '.join(LABELS)}, not {given[:20]!r}")
    if not one.item.lanes.get(Lane.NEW):
        raise InputError("there is no new lane to label")
    with site.shelf.writing():
        site.desk.label(one.item.item, queue.result.run.id, int(given))
    return _redirect(queue.result.run.id, one.item.item.id, fields, "labelled")


def undo(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Take back the last decision made here, and show its entry again."""
    with site.shelf.writing():
        taken = site.desk.undo()
    # It may have been decided before the queue was read.
    site.shelf.forget("queue")
    run = (taken and taken.run_id) or request.path_params["run"]
    found = _queue(site, run, again=fields.get("again") == "1").value
    back = [one.item.item.id for one in found.entries if taken and decision_key(one.item) == taken.item_id]
    return _redirect(run, back[0] if back else None, fields, "undone" if taken else "nothing")


LABELS = {"1": "poor", "2": "fair", "3": "good"}
_SAID = {
    "labelled": "Labelled.",
    "promoted": "Promoted.",
    "dismissed": "Put aside.",
    "skipped": "Left for later.",
    "undone": "Taken back.",
    "nothing": "There is nothing to undo.",
}


def _queue(site: Site, run: str, *, again: bool) -> Cached[Queue]:
    from replaydiff.cases.triage.queue import triage_queue

    def find(con: DuckDBPyConnection) -> Queue:
        return triage_queue(con, run, site.settings, everything=False, again=again)

    return site.shelf.read("queue", (run, again), find)


def _decided(site: Site) -> set[str]:
    return {decision.item_id for decision, _ in site.desk.done if decision.action is not Action.LABEL}


def _label_of(site: Site, one: Entry) -> int | None:
    """The label given here last."""
    own = [
        decision.label
        for decision, _ in site.desk.done
        if decision.item_id == decision_key(one.item) and decision.label is not None
    ]
    return own[-1] if own else None


def _open(site: Site, queue: Queue) -> list[Entry]:
    """The entries that were not decided since the queue was read."""
    decided = _decided(site)
    return [one for one in queue.entries if decision_key(one.item) not in decided]


def _requested_entry(
    site: Site, request: Request, fields: Mapping[str, str]
) -> tuple[Queue, Entry, str | None]:
    """The queue, the entry a form is about, and the item of the entry after it."""
    queue = _queue(site, request.path_params["run"], again=fields.get("again") == "1").value
    entries = _open(site, queue)
    names = [one.item.item.id for one in entries]
    if fields.get("item") not in names:
        raise InputError("this entry was decided already, or is none of this run's; go back to the queue")
    place = names.index(fields["item"])
    following = names[place + 1] if place + 1 < len(names) else names[place - 1] if place else None
    return queue, entries[place], following


def _redirect_to_next(queue: Queue, following: str | None, fields: Mapping[str, str], said: str) -> Response:
    """On to the entry after the one that was decided."""
    return _redirect(queue.result.run.id, following, fields, said)


def _redirect(run: str, item: str | None, fields: Mapping[str, str], said: str) -> Response:
    return RedirectResponse(_address(run, item, again=fields.get("again") == "1", said=said), status_code=303)


def _address(run: str, item: str | None, *, again: bool, said: str | None = None) -> str:
    pairs = {"item": item, "again": "1" if again else None, "said": said}
    query = urlencode({name: value for name, value in pairs.items() if value is not None})
    return f"/runs/{quote(run, safe='')}/triage" + (f"?{query}" if query else "")


def _expectation_choices(one: Entry) -> list[str]:
    """What a case can expect: the recording, or what a lane did that has a trial that ended well."""
    return [
        RECORDING,
        *(
            str(lane)
            for lane in (Lane.OLD, Lane.NEW)
            if any(graded.trial.status is Status.OK for graded in one.item.lanes.get(lane, ()))
        ),
    ]


def _script_data(queue: Queue, one: Entry) -> str:
    """What the script of the report draws: this item alone, with long texts."""
    result = queue.result
    check = Lane.OLD not in result.lanes
    return render.embedded({"check": check, "cases": [transcripts.case(result, one.item, transcripts.MOST)]})


def edit_form(site: Site, request: Request) -> Response:
    """The case that an entry would become, as a text."""
    from replaydiff.cases.edit import text_of

    fields = dict(request.query_params)
    queue, one, _ = _requested_entry(site, request, fields)
    expect = fields.get("expect") or better(one.item)
    expect = expect if expect in _expectation_choices(one) else RECORDING
    case = _proposed_case(site, queue, one, expect, fields.get("trait", ""))
    return _edit_page(site, queue, one, fields, text=text_of(case), expect=expect)


def save_edited(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Add the case as it was edited; where it is none, the text comes back with what is wrong."""
    from replaydiff.cases.edit import EditError, read_case

    queue, one, following = _requested_entry(site, request, fields)
    text = fields.get("text", "").replace("\r\n", "\n")
    try:
        case = read_case(text)
        with site.shelf.writing():
            site.desk.promote([(one.item.item, case)], force=fields.get("force") == "1")
    except (InputError, StoreBusyError) as error:
        line = error.line if isinstance(error, EditError) else None
        return _edit_page(site, queue, one, fields, text=text, wrong=error, line=line)
    return _redirect_to_next(queue, following, fields, "promoted")


def _edit_page_after_duplicate(
    site: Site, queue: Queue, one: Entry, fields: Mapping[str, str], case: Case, wrong: DuplicateError
) -> Response:
    """A case that was not added, since one like it is there: to change, or to add all the same."""
    from replaydiff.cases.edit import text_of

    return _edit_page(site, queue, one, fields, text=text_of(case), wrong=wrong)


def _edit_page(
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
        expects=[(name, urlencode(kept | {"expect": name})) for name in _expectation_choices(one)],
        back=urlencode(kept),
        text=text,
        wrong=None if wrong is None else str(wrong).partition("; --force")[0],
        twin=twin,
        line=line,
        golden=str(site.settings.golden_path),
    )
