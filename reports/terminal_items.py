"""The items that changed, for the terminal: a cause that several items share is told once."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from replaydiff.diff.result import DiffResult, ItemVerdict, Verdict
from replaydiff.replay.terminal.plain import one_line
from replaydiff.reports import numbers, pieces, words
from replaydiff.reports.alike import Alike, alike

SHOWN = {Verdict.REGRESSED: 8, Verdict.MIXED: 4, Verdict.IMPROVED: 4, Verdict.INCONCLUSIVE: 3}
"""How many causes of a verdict are listed; the rest is counted."""
MEMBERS = 3
"""How many items of a cause are listed."""
_ID = 80
_METRIC = 30


def changed(result: DiffResult, width: int) -> Iterable[RenderableType]:
    """What changed most, and what cannot be told; nothing where neither is."""
    heading = "what failed" if words.is_check(result) else "what changed most"
    for title, verdicts in ((heading, words.CHANGED), ("what cannot be told", (Verdict.INCONCLUSIVE,))):
        listed = {verdict: [item for item in result.items if item.verdict is verdict] for verdict in verdicts}
        if any(listed.values()):
            yield Padding(Text(title, style="bold"), (1, 0, 0, 0))
        for verdict, items in listed.items():
            groups = alike(items)
            for group in groups[: SHOWN[verdict]]:
                tell = _several if len(group.items) > 1 else _one
                parts = tell(result, group, width)
                yield Padding(Group(*parts), (0, 0, 0, 2))
            if left := sum(len(group.items) for group in groups[SHOWN[verdict] :]):
                more = f"… and {numbers.count(left)} more {words.verdict(result, verdict)}"
                more += f": replay report {one_line(result.run.id, 40)} --format html"
                yield Padding(Text(more, style="dim"), (0, 0, 0, 2))


def _several(result: DiffResult, group: Alike, width: int) -> Iterable[RenderableType]:
    """The cause, and its first items, one line each."""
    verdict = group.items[0].verdict
    name = f"{numbers.count(len(group.items))} {words.verdict(result, verdict)}"
    why = ": ".join(part for part in (one_line(group.metric, _METRIC), one_line(group.cause, 400)) if part)
    yield pieces.hanging(Text(name, style=pieces.STYLE[verdict]), Text(why), gap=2)
    members = group.items[:MEMBERS]
    ids = [Text(one_line(item.item.id, _ID), style="bold") for item in members]
    figures = [_figures(result, item, group.metric) for item in members]
    # What is left goes to the input; an id is never cut, since it is there to be copied.
    of_ids = min(max(text.cell_len for text in ids), width // 2)
    of_figures = max(text.cell_len for text in figures)
    rows = Table.grid(padding=(0, 2))
    rows.add_column(overflow="fold", width=of_ids)
    rows.add_column(no_wrap=True, justify="right", width=of_figures)
    rows.add_column(no_wrap=True, width=width - of_ids - of_figures - 8, style="dim")
    for item, id_, figure in zip(members, ids, figures, strict=True):
        text = Text(one_line(item.item.input, width))
        text.truncate(width - of_ids - of_figures - 8, overflow="ellipsis")
        rows.add_row(id_, figure, text)
    yield Padding(rows, (0, 0, 0, 2))
    if len(group.items) > MEMBERS:
        yield Text(f"  … and {numbers.count(len(group.items) - MEMBERS)} more", style="dim")


def _figures(result: DiffResult, item: ItemVerdict, metric: str) -> Text:
    found = item.metrics.get(metric)
    if found is None:
        return Text("")
    sides = (found.new,) if words.is_check(result) else (found.old, found.new)
    return Text(" → ".join(map(numbers.score, sides)))


def _one(result: DiffResult, group: Alike, width: int) -> Iterable[RenderableType]:
    """An item that changed in its own way: each metric's reason, and what was asked."""
    item = group.items[0]
    head = Text(words.verdict(result, item.verdict), style=pieces.STYLE[item.verdict])
    yield head.append(f"  {one_line(item.item.id, _ID)}", style="bold")
    for name, reason in words.reasons(item)[:3]:
        yield pieces.hanging(f"  {one_line(name, _METRIC)}:", Text(one_line(reason, 400)))
    if item.verdict is Verdict.INCONCLUSIVE:
        lost = [trial for lane in item.lanes for trial in words.failed_trials(item, lane)]
        for trial in lost[:2]:
            said = f"{trial.status}: {one_line(trial.reason or '', 300)}"
            yield pieces.hanging(f"  {trial.lane}:", Text(said))
    if item.item.input.strip():
        yield pieces.hanging("  input:", Text(one_line(item.item.input, width - 11)), "dim")
