"""Prepare causes for reports: the difference in a sentence, then each cause with an example."""

from __future__ import annotations

from dataclasses import dataclass

from replaydiff.diff.result import Cause, CauseState, DiffResult, ItemVerdict
from replaydiff.replay.model import Lane, Status, Trial
from replaydiff.replay.tape import show_call
from replaydiff.replay.terminal.text import single_line
from replaydiff.reports import format as fmt

SHOWN = 3
"""Causes on a report's first screen."""
_TEXT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCause:
    """A cause as every format shows it."""

    id: str
    state: str
    text: str
    """With a capital letter and its number of items."""
    counts: str
    also: str
    """What else the same trials show; empty where nothing does."""
    item: str
    """The id of an item that shows it; empty without one."""
    input: str
    old: str
    """What the old version does there: its calls, then its answer."""
    new: str


def summary(result: DiffResult) -> str:
    """Return one sentence: in how many items the new version does something else; empty without causes."""
    behaviours = [cause for cause in result.causes if cause.part is None]
    if not behaviours:
        return ""
    counted = [cause for cause in behaviours if cause.state is not CauseState.ACCEPTED]
    items = frozenset[str]().union(*(cause.item_ids for cause in counted))
    accepted = len(behaviours) - len(counted)
    intended = f"{fmt.plural(accepted, 'cause')} accepted as intended"
    if not counted:
        return f"All that the new version does differently was accepted ({intended})."
    noun = "conversations" if result.run.golden_path is None else "cases"
    sentence = (
        f"In {fmt.count(len(items))} of {fmt.count(result.counts.compared)} {noun} the new version acts"
    )
    return f"{sentence} differently, by {fmt.plural(len(counted), 'cause')}" + (
        f" ({intended})." if accepted else "."
    )


def shown(result: DiffResult, limit: int | None = None) -> list[ShownCause]:
    """Return the first causes as they are shown."""
    items = {item.item.id: item for item in result.items}
    return [_shown(cause, items) for cause in result.causes[:limit]]


def _shown(cause: Cause, items: dict[str, ItemVerdict]) -> ShownCause:
    example = next((candidate for candidate in cause.examples if candidate.item in items), None)
    item = items[example.item] if example else None
    return ShownCause(
        id=cause.id,
        state=cause.state.value,
        text=single_line(cause.text, _TEXT),
        counts=f"{cause.counts}, in {fmt.plural(cause.items, 'item')}",
        also=single_line("; ".join(cause.also), _TEXT),
        item=single_line(example.item, 100) if example else "",
        input=single_line(item.item.excerpt, _TEXT) if item else "",
        old=_done(item, Lane.OLD, example.old) if item and example else "",
        new=_done(item, Lane.NEW, example.new) if item and example else "",
    )


def _done(item: ItemVerdict, lane: Lane, index: int | None) -> str:
    """Return what a trial did, in a line: its calls, then its answer or how it ended."""
    trial = next((graded.trial for graded in item.lanes.get(lane, ()) if graded.trial.index == index), None)
    return "" if trial is None else single_line(_line(trial), _TEXT)


def _line(trial: Trial) -> str:
    calls = " > ".join(show_call(served.call.name, served.call.args) for served in trial.served)
    if trial.status is Status.OK:
        return f"{calls or 'no call'}: {single_line(trial.final_response or '', 160)}"
    return f"{calls} [{trial.status}]" if calls else f"[{trial.status}]"
