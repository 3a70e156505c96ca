"""Prepare causes for reports: the difference in a sentence, then each cause with an example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replaydiff.diff.result import Cause, CauseExample, CauseState, DiffResult, ItemVerdict
from replaydiff.replay.model import Lane, Status, Trial
from replaydiff.replay.tape import show_call
from replaydiff.replay.terminal.text import single_line
from replaydiff.reports import format as fmt
from replaydiff.reports import phrases

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
    """Return in how many items that changed, and in how many others, causes show; empty without causes."""
    behaviours = [cause for cause in result.causes if cause.part is None]
    if not behaviours:
        return ""
    counted = [cause for cause in behaviours if cause.state is not CauseState.ACCEPTED]
    items = frozenset[str]().union(*(cause.item_ids for cause in counted))
    accepted = len(behaviours) - len(counted)
    intended = f"{fmt.plural(accepted, 'cause')} accepted as intended"
    if not counted:
        return f"All that the new version does differently was accepted ({intended})."
    number = fmt.plural(len(counted), "cause") + (f"; {intended}" if accepted else "")
    changed = {item.item.id for item in result.items if item.verdict in phrases.CHANGED}
    if not changed:
        where = f"In {fmt.count(len(items))} of {fmt.plural(result.counts.compared, 'item')}"
        return f"{where} the new version acts differently; no item by itself changed beyond noise ({number})."
    where = f"{_of_all(len(items & changed), len(changed), 'item')} that changed"
    if left := result.counts.compared - len(changed):
        where += f" and in {_of_all(len(items - changed), left, 'other')}"
    return f"The new version acts differently in {where} ({number})."


def _of_all(number: int, total: int, noun: str) -> str:
    every = fmt.plural(total, noun)
    return f"all {every}" if number == total > 1 else f"{fmt.count(number)} of the {every}"


def shown(result: DiffResult, limit: int | None = None) -> list[ShownCause]:
    """Return the first causes as they are shown."""
    items = {item.item.id: item for item in result.items}
    return [_shown(cause, items) for cause in result.causes[:limit]]


def more(result: DiffResult, limit: int) -> str:
    """Return what comes after the causes that are shown: `2 more causes, 1 slice that is worse`."""
    slices = sum(cause.part is not None for cause in result.causes[limit:])
    causes = max(0, len(result.causes) - limit) - slices
    parts = [fmt.plural(causes, "more cause")] * bool(causes)
    parts += [fmt.plural(slices, "slice that is worse", "slices that are worse")] * bool(slices)
    return ", ".join(parts)


def _shown(cause: Cause, items: dict[str, ItemVerdict]) -> ShownCause:
    example = next((candidate for candidate in cause.examples if candidate.item in items), None)
    item = items[example.item] if example else None
    old, new = _old_and_new(item, cause, example) if item and example else ("", "")
    return ShownCause(
        id=cause.id,
        state=cause.state.value,
        text=single_line(cause.text, _TEXT),
        counts=f"{cause.counts}, in {fmt.plural(cause.items, 'item')}",
        also=single_line("; ".join(cause.also), _TEXT),
        item=single_line(example.item, 100) if example else "",
        input=single_line(item.item.excerpt, _TEXT) if item else "",
        old=old,
        new=new,
    )


def _old_and_new(item: ItemVerdict, cause: Cause, example: CauseExample) -> tuple[str, str]:
    """Return what an old and a new trial did, each in a line, from the first call on that differs."""
    old, new = _trial(item, Lane.OLD, example.old), _trial(item, Lane.NEW, example.new)
    calls = [[] if trial is None or cause.is_answers else _calls(trial) for trial in (old, new)]
    pairs = enumerate(zip(*calls, strict=False))
    shared = next((at for at, (first, second) in pairs if first != second), min(map(len, calls)))
    lines = [_line(trial, done, shared) for trial, done in zip((old, new), calls, strict=True)]
    return single_line(lines[0], _TEXT), single_line(lines[1], _TEXT)


def _trial(item: ItemVerdict, lane: Lane, index: int | None) -> Trial | None:
    return next((graded.trial for graded in item.lanes.get(lane, ()) if graded.trial.index == index), None)


def _calls(trial: Trial) -> list[str]:
    return [show_call(served.call.name, served.call.args) for served in trial.served]


def _line(trial: Trial | None, calls: Sequence[str], shared: int) -> str:
    """Return a trial's calls after those that both versions made, then its answer or how it ended."""
    if trial is None:
        return ""
    end = (
        f": {single_line(trial.final_response or '', 160)}"
        if trial.status is Status.OK
        else f" [{trial.status}]"
    )
    if not trial.served:
        return f"no call{end}" if trial.status is Status.OK else end.strip()
    shown = [*(["…"] if shared or not calls else []), *calls[shared:]]
    return f"{' > '.join(shown)}{end}"
