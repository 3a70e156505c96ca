"""The causes of a run in triage: one at a time, before its items, with the same keys as at the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from replaydiff.replay.errors import InputError
from replaydiff.replay.view.site import Site, address, go_to, item_data
from replaydiff.reports import causes as shown_causes
from replaydiff.reports.html import render


def cause(site: Site, request: Request) -> Response:
    """Show the requested open cause, else the first; without an open cause, go to the items."""
    cached = site.cache.read(
        "queue",
        (request.path_params["run"], False),
        lambda: site.project.cases.triage(request.path_params["run"]),
    )
    result = cached.value.result
    run, decision = result.run.id, request.query_params.get("done")
    by_id = {shown_cause.id: shown_cause for shown_cause in shown_causes.shown(result)}
    names = [shown_cause.id for shown_cause in by_id.values() if shown_cause.state == "open"]
    requested = request.query_params.get("cause", "")
    if not names or requested == "none":
        return go_to(items_address(run, decision))
    position = names.index(requested) if requested in names else 0
    shown_cause = by_id[names[position]]
    examples = next(len(candidate.examples) for candidate in result.causes if candidate.id == shown_cause.id)
    return site.page(
        "causes.html.j2",
        cached,
        area="triage",
        run=run,
        result=result,
        tone=render.TONE[result.answer],
        cause=shown_cause,
        place=position,
        total=len(names),
        examples=examples,
        following=causes_address(run, names[position + 1] if position + 1 < len(names) else "none"),
        items=items_address(run),
        decided=[candidate for candidate in by_id.values() if candidate.state != "open"],
        done=decision_sentence(decision),
        golden=str(site.reviewer.golden),
        data=item_data(result, shown_cause.item),
    )


def decide(site: Site, request: Request, fields: Mapping[str, str]) -> Response:
    """Accept or reject a cause, or open it again; then show the next open one."""
    name, decision = fields.get("cause", ""), fields.get("decision", "")
    act = {"accept": site.project.accept, "reject": site.project.reject, "open": site.project.accept}
    if decision not in act or not name:
        raise InputError("a decision on a cause is accept, reject or open")
    with site.cache.changing():
        review = act[decision](
            name,
            run=request.path_params["run"],
            promote=fields.get("promote") == "1",
            undo=decision == "open",
        )
    stopped = len(review.unfinished) if fields.get("promote") == "1" and decision == "accept" else 0
    counts = f"{len(review.promoted)}-{len(review.not_promoted) - stopped}-{stopped}"
    return go_to(causes_address(review.diff.run_id, None, decision=f"{decision}-{counts}"))


def causes_address(run: str, cause_id: str | None, *, decision: str | None = None) -> str:
    """Return the address of a cause; of `none` that of the items."""
    return address("runs", run, "triage", "causes", cause=cause_id, done=decision)


def items_address(run: str, decision: str | None = None) -> str:
    """Return the address of the first item, though causes are open."""
    return address("runs", run, "triage", items="1", done=decision)


def decision_sentence(word: str | None) -> str | None:
    """Return what a form did as a sentence; None for anything else."""
    decision, _, counts = (word or "").partition("-")
    words = {"accept": "Accepted.", "reject": "Rejected.", "open": "Open again."}
    numbers = counts.split("-")
    if decision not in words or len(numbers) != 3 or not all(map(str.isdecimal, numbers)):
        return None
    promoted, refused, stopped = numbers
    parts = [words[decision]]
    if promoted != "0":
        parts.append(f"Cases added: {promoted}.")
    if refused != "0":
        parts.append(f"Examples without such calls, or cases already: {refused}.")
    if stopped != "0":
        parts.append(
            f"Examples in which the new version was stopped: {stopped}; `replay accept ID --promote --rerun` "
            "at the terminal runs it on."
        )
    return " ".join(parts)
