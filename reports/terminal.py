"""The report that a terminal shows: the answer, causes, warnings, figures, and the items that changed.

It is readable without colour, in a pipe and at 80 columns; below `LEAST_WIDTH` it keeps that width. Figures
are never broken or cut: columns of text give way first. Text of traces goes through `replay.terminal.text`. A
cause that several items share is shown once.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from replaydiff.diff.result import (
    CauseState,
    DiffResult,
    ItemVerdict,
    LaneSummary,
    Verdict,
    property_words,
)
from replaydiff.replay.model import Status
from replaydiff.replay.terminal.text import encodable, single_line, visible
from replaydiff.reports import causes, phrases
from replaydiff.reports import format as fmt
from replaydiff.reports.layout import (
    ANSWER_STYLE,
    VERDICT_STYLE,
    add_figures,
    broken_at_joints,
    colored,
    hanging,
    keep_spaces,
    plain_table,
    restore_spaces,
)
from replaydiff.reports.phrases import CauseGroup, by_cause

LEAST_WIDTH = 72
"""Columns that the metrics table needs."""
PIPED_WIDTH = 100
"""Columns where stdout is no terminal."""
_WARNINGS_FIRST = 3
_WARNING_CHARACTERS = 480
"""How much of the first warning the first screen shows: five lines of an 80-column terminal."""
_LABEL = 30
_MANY = 4
"""Metrics, of which each has its notes; of more only those that decide."""
_LEAST_NAME = 10
_FIGURE_COLUMNS = 66
"""Columns of the metrics table beside the name, at the usual widths of figures."""
_LANES_WIDTH = 100
_GROUPS = 20
_STATE_STYLE = {"open": "bold cyan", "accepted": "green", "rejected": "bold red"}


def render(result: DiffResult, *, width: int, color: bool, brief: bool = False) -> str:
    """Return the report as text of at most `width` columns, with ANSI colours where `color` is set.

    `brief` is the first screen alone: answer, causes, the metrics that decide, and the first warning.
    """
    out = io.StringIO()
    console = Console(
        force_jupyter=False,  # a report is text, also where it is made in a notebook
        file=out,
        width=max(width, LEAST_WIDTH),
        color_system="standard" if color else None,
        force_terminal=color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    for block in (_first_screen if brief else _blocks)(result, console.width):
        console.print(block)
    # A line's padding is nothing to look at, and it would end up in files and diffs.
    return "\n".join(line.rstrip() for line in restore_spaces(out.getvalue()).split("\n"))


def columns() -> int:
    """Return the width of a report: `COLUMNS` where that is set, else the terminal's, else 100."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def show(result: DiffResult, *, brief: bool = False) -> None:
    """Write the report to stdout: in the terminal's width and colours, or plain in a pipe or file.

    `COLUMNS`, `NO_COLOR` and a stream that cannot write our signs are respected.
    """
    terminal = sys.stdout.isatty()
    width = columns()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = render(result, width=width, color=color, brief=brief)
    plain = encodable(text, sys.stdout.encoding)
    if plain != text:
        # A sign that is written with two characters must not make a line too long.
        pairs = zip(plain.split("\n"), text.split("\n"), strict=True)
        longer = max(len(shown) - len(line) for shown, line in pairs)
        plain = encodable(render(result, width=width - longer, color=color, brief=brief), sys.stdout.encoding)
    sys.stdout.write(plain)


def _blocks(result: DiffResult, width: int) -> Iterable[RenderableType]:
    yield _answer(result)
    if result.ranking:
        yield _ranking(result)
    if result.causes:
        yield _causes(result, width, len(result.causes))
    if result.warnings:
        yield _warnings(result.warnings[:_WARNINGS_FIRST])
    yield _heading(result)
    if result.lanes:
        yield _lanes(result, width)
    if result.metrics:
        yield _metrics(result, width)
    if result.usage:
        yield _usage(result)
    yield _counts(result)
    yield from _changed_items(result, width)
    if result.slices:
        yield _slices(result)
    if result.groups:
        yield _groups(result)
    if result.gate.conditions:
        yield _gate(result)
    if len(result.warnings) > _WARNINGS_FIRST:
        yield _warnings(result.warnings[_WARNINGS_FIRST:])
    yield Text("")
    yield hanging("next", Text(visible(result.next), style="bold"), "dim")


def _first_screen(result: DiffResult, width: int) -> Iterable[RenderableType]:
    yield _answer(result)
    if result.ranking:
        yield _ranking(result)
    if result.causes:
        yield _causes(result, width, causes.SHOWN)
    if result.metrics:
        yield _metrics(result, width, notes=False)
    yield _counts(result)
    if not result.causes:
        yield from _changed_items(result, width)
    if result.gate.conditions:
        yield _gate(result)
    if result.warnings:
        number = fmt.plural(len(result.warnings), "warning")
        line = Text(f"{number}: {single_line(result.warnings[0], _WARNING_CHARACTERS)}")
        yield Group(Text(""), hanging("!", line, "bold yellow"))
    yield Text("")
    yield Text(f"more: replay diff {single_line(result.run.id, 60)} --verbose", style="dim")


def _causes(result: DiffResult, width: int, limit: int) -> RenderableType:
    """Render what differs, in a sentence, then each cause with its counts and what both versions did."""
    parts: list[RenderableType] = [Text(""), Text(causes.summary(result), style="bold")]
    for cause in causes.shown(result, limit):
        style = _STATE_STYLE[cause.state]
        label = Text(f"{cause.id} " if cause.state == "open" else f"{cause.id} {cause.state}: ", style=style)
        parts.append(hanging(label, Text(f"{cause.text}: {cause.counts}")))
        if cause.item and limit:
            rows = Table.grid(padding=(0, 1))
            rows.add_column(no_wrap=True, style="dim")
            rows.add_column(no_wrap=True, width=width - 7)
            for lane, trials in (("old", cause.old), ("new", cause.new)):
                line = Text(trials)
                line.truncate(width - 7, overflow="ellipsis")
                rows.add_row(f"  {lane}", line)
            parts.append(rows)
    if left := causes.more(result, limit):
        parts.append(Text(f"… and {left}", style="dim"))
    if any(cause.state is CauseState.OPEN for cause in result.causes):
        parts.append(Text("intended: replay accept ID · a regression: replay reject ID", style="dim"))
    return Group(*parts)


def _answer(result: DiffResult) -> RenderableType:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row(
        Text(result.answer.value, style=ANSWER_STYLE[result.answer]), Text(single_line(result.reason))
    )
    rows.add_row(Text("next", style="dim", justify="right"), Text(visible(result.next)))
    return rows


def _warnings(warnings: Sequence[str]) -> RenderableType:
    return Group(Text(""), *(hanging("!", Text(single_line(warning)), "bold yellow") for warning in warnings))


def _heading(result: DiffResult) -> RenderableType:
    parts = [*phrases.run_line(result), phrases.compared(result)]
    if not phrases.is_check(result):
        parts.append(phrases.NOISE_SOURCE[result.noise])
    if result.run.finished_at is None:
        parts.append("not finished")
    return Padding(keep_spaces(Text(" · ".join(map(_words, parts)), style="dim")), (1, 0, 0, 0))


def _words(text: str) -> str:
    """Return a line whose no-break spaces stay."""
    return "\u00a0".join(single_line(part) for part in text.split("\u00a0"))


def _lanes(result: DiffResult, width: int) -> RenderableType:
    lanes = phrases.lanes(result)
    table = plain_table()
    table.add_column("", style="dim", no_wrap=True)
    for lane in lanes:
        table.add_column(str(lane), overflow="fold", ratio=1, header_style="bold")
    facts = [_lane_facts(result.lanes[lane]) for lane in lanes]
    for label in facts[0]:
        cells = [fact[label] for fact in facts]
        if any(cell.plain != fmt.ABSENT for cell in cells):
            table.add_row(label, *cells)
    if len(lanes) > 1:
        table.width = min(width, _LANES_WIDTH)
    calls_by_lane = phrases.unrecorded_calls(result, lanes)
    missed = (hanging(f"not answered, {lane}:", Text(calls), "dim") for lane, calls in calls_by_lane)
    return Group(Text(""), table, *missed)


def _lane_facts(lane: LaneSummary) -> dict[str, Text]:
    latency = fmt.ABSENT
    if lane.latency_p50_ms is not None or lane.latency_p95_ms is not None:
        latency = f"{fmt.duration(lane.latency_p50_ms)} / {fmt.duration(lane.latency_p95_ms)}"
    used = fmt.ABSENT
    if lane.input_tokens is not None or lane.output_tokens is not None:
        used = f"{fmt.tokens(lane.input_tokens)} / {fmt.tokens(lane.output_tokens)}"
    return {
        "version": Text(single_line(phrases.version_name(lane.version), 120)),
        "trials": Text(fmt.count(lane.trials)),
        "ended": _statuses(lane.statuses),
        "fidelity": Text(fmt.share(lane.fidelity)),
        "calls answered by": keep_spaces(Text(phrases.served(lane))),
        "reached the end": Text(fmt.share(lane.reached_end)),
        "as recorded": Text(fmt.share(lane.agreement)),
        "cost": Text(fmt.dollars(lane.cost_usd)),
        "latency p50 / p95": Text(latency),
        "tokens in / out": Text(used),
    }


def _statuses(statuses: dict[str, int]) -> Text:
    text = Text()
    for name, number in statuses.items():
        if not number:
            continue
        style = "" if name == Status.OK else "yellow"
        text.append(", " if text else "")
        text.append(f"{fmt.count(number)}\u00a0{single_line(name, 20)}", style=style)
    return text or Text(fmt.ABSENT)


def _metrics(result: DiffResult, width: int, *, notes: bool = True) -> RenderableType:
    single = phrases.is_check(result)
    table = plain_table()
    table.add_column("metric", overflow="fold", min_width=10)
    sure = f"{fmt.share(result.confidence)} interval"
    add_figures(table, *(("new",) if single else ("old → new", "delta", sure, "p")))
    verdicts = (Verdict.IMPROVED, Verdict.REGRESSED)
    add_figures(table, *(phrases.verdict_name(result, verdict) for verdict in verdicts))
    room = max(_LEAST_NAME, width - _FIGURE_COLUMNS)
    for name, metric in result.metrics.items():
        label = broken_at_joints(single_line(name, 60), room)
        if single:
            figures = [fmt.score(metric.new)]
            better = metric.unchanged + metric.improved
        else:
            figures = [
                f"{fmt.score(metric.old)} → {fmt.score(metric.new)}",
                fmt.change(metric.delta),
                fmt.interval(metric.ci),
                fmt.p_value(metric.p),
            ]
            better = metric.improved
        table.add_row(
            Text(label, style="bold" if metric.gated else ""),
            *figures,
            colored(better, "green"),
            colored(metric.regressed, "red"),
        )
    if notes:
        return Group(Text(""), table, *_metric_notes(result))
    # What the figures cannot say by themselves: what agreement measures, what labels make of a judge.
    first = [(name, phrases.first_note(metric)) for name, metric in result.metrics.items()]
    lines = (hanging(f"  {single_line(name, _LABEL)}:", Text(note), "dim") for name, note in first if note)
    return Group(Text(""), table, *lines)


def _metric_notes(result: DiffResult) -> Iterable[RenderableType]:
    """Yield the notes on each metric; of many metrics, those that decide, and which do not."""
    many = len(result.metrics) > _MANY
    for name, metric in result.metrics.items():
        brief = many and not metric.gated
        if notes := phrases.metric_notes(name, metric, brief=brief, likeness=result.likeness):
            yield hanging(f"  {single_line(name, _LABEL)}:", Text(" · ".join(notes)), "dim")
    if many and (others := [name for name, metric in result.metrics.items() if not metric.gated]):
        listed = ", ".join(single_line(name, 60) for name in others)
        yield hanging("  do not decide the answer:", Text(listed), "dim")


def _counts(result: DiffResult) -> RenderableType:
    parts = [
        Text(f"{fmt.count(number)}\u00a0{name}", style=VERDICT_STYLE[verdict] if number else "dim")
        for verdict, name, number in phrases.verdict_counts(result)
    ]
    return Padding(keep_spaces(Text.assemble("items  ", Text(" · ").join(parts))), (1, 0, 0, 0))


def _slices(result: DiffResult) -> RenderableType:
    table = plain_table()
    several = len({part.metric for part in result.slices}) > 1
    table.add_column(
        "slice" if several else f"slice, on {single_line(result.slices[0].metric, 40)}", overflow="fold"
    )
    if several:
        table.add_column("metric", overflow="fold", min_width=10)
    add_figures(table, "items", "delta", "p", "improved", "regressed")
    for part in result.slices[:12]:
        table.add_row(
            property_words(part.by, part.value),
            *([single_line(part.metric, 40)] if several else []),
            fmt.count(part.items),
            fmt.change(part.delta),
            fmt.p_value(part.p),
            fmt.count(part.improved),
            fmt.count(part.regressed),
        )
    return Group(Text(""), table, hanging(" ", Text(phrases.slices_caption(result), style="dim")))


def _groups(result: DiffResult) -> RenderableType:
    table = plain_table()
    table.add_column("group", overflow="fold")
    add_figures(table, "cases", "passed", "failed", "undecided", "rate")
    for part in result.groups[:_GROUPS]:
        needed = "" if part.threshold is None else f", {fmt.share(part.threshold)} must"
        table.add_row(
            f"{part.by} = {single_line(part.value, 60)}",
            fmt.count(part.items),
            fmt.count(part.passed),
            colored(part.failed, "red"),
            fmt.count(part.undecided + part.not_graded),
            fmt.share(part.rate) + needed,
        )
    return Group(Text(""), table)


def _gate(result: DiffResult) -> RenderableType:
    words = {True: ("held", "green"), False: ("did not hold", "red"), None: ("cannot be decided", "yellow")}
    rows = Table.grid(padding=(0, 2))
    rows.add_column(overflow="fold")
    rows.add_column(no_wrap=True, justify="right")
    rows.add_column(no_wrap=True)
    for condition in result.gate.conditions:
        word, style = words[condition.is_met]
        rows.add_row(
            Text(single_line(condition.expression, 120)),
            fmt.figure(condition.value),
            Text(word, style=style),
        )
    return Group(Text(""), Text("gate", style="bold"), Padding(rows, (0, 0, 0, 2)))


def _ranking(result: DiffResult) -> RenderableType:
    """Return all candidates, the best first, with the figures of the metrics that decide."""
    table = plain_table()
    table.add_column("lane", no_wrap=True)
    table.add_column("version", overflow="fold", min_width=8)
    table.add_column("answer", no_wrap=True)
    add_figures(table, "delta", f"{fmt.share(result.confidence)} interval", "p")
    for candidate in result.ranking:
        lane = Text(str(candidate.lane), style="bold" if candidate.shown else "")
        name = Text(single_line(phrases.version_name(candidate.summary.version), 60))
        answer = Text(candidate.answer.value, style=ANSWER_STYLE[candidate.answer])
        metrics = phrases.main_metrics(candidate)
        if len(metrics) != 1:
            table.add_row(lane, name, answer)
        for metric, figures in metrics:
            head = (
                (lane, name, answer)
                if len(metrics) == 1
                else ("", Text(single_line(metric, 40), style="dim"), "")
            )
            table.add_row(
                *head,
                fmt.change(figures.delta),
                fmt.interval(figures.ci),
                fmt.p_value(figures.p_adjusted),
            )
    notes = [phrases.ranking_caption(result), *phrases.against_first(result)]
    return Group(Text(""), table, *(hanging(" ", Text(note, style="dim")) for note in notes))


def _usage(result: DiffResult) -> RenderableType:
    """Render cost, latency and tokens of a trial in both lanes, with the interval of their change."""
    table = plain_table()
    table.add_column("a trial takes", style="dim", no_wrap=True)
    add_figures(table, "old → new", "delta", f"{fmt.share(result.confidence)} interval")
    for row in phrases.usage_rows(result):
        table.add_row(row.label, row.values, row.change, row.interval)
    return Group(Text(""), table)


_CAUSES_SHOWN = {
    Verdict.REGRESSED: 8,
    Verdict.MIXED: 4,
    Verdict.CHANGED: 8,
    Verdict.IMPROVED: 4,
    Verdict.INCONCLUSIVE: 3,
}
"""How many causes of a verdict are listed; the rest is counted."""
_ITEMS_SHOWN = 3
"""How many items of a cause are listed."""
_ID = 80
_METRIC = 30


def _changed_items(result: DiffResult, width: int) -> Iterable[RenderableType]:
    """Yield what changed most, and what is inconclusive; nothing where neither is."""
    heading = "what failed" if phrases.is_check(result) else "what changed most"
    for title, verdicts in ((heading, phrases.CHANGED), ("inconclusive items", (Verdict.INCONCLUSIVE,))):
        listed = {verdict: [item for item in result.items if item.verdict is verdict] for verdict in verdicts}
        if any(listed.values()):
            yield Padding(Text(title, style="bold"), (1, 0, 0, 0))
        for verdict, items in listed.items():
            groups = by_cause(items)
            for group in groups[: _CAUSES_SHOWN[verdict]]:
                render_group = _cause_block if len(group.items) > 1 else _item_block
                parts = render_group(result, group, width)
                yield Padding(Group(*parts), (0, 0, 0, 2))
            if left := sum(len(group.items) for group in groups[_CAUSES_SHOWN[verdict] :]):
                more = f"… and {fmt.count(left)} more {phrases.verdict_name(result, verdict)}"
                more += f": replay report {single_line(result.run.id, 40)} --format html"
                yield Padding(Text(more, style="dim"), (0, 0, 0, 2))


def _cause_block(result: DiffResult, group: CauseGroup, width: int) -> Iterable[RenderableType]:
    """Yield the cause, and its first items, one line each."""
    verdict = group.items[0].verdict
    name = f"{fmt.count(len(group.items))} {phrases.verdict_name(result, verdict)}"
    why = ": ".join(
        part for part in (single_line(group.metric, _METRIC), single_line(group.cause, 400)) if part
    )
    yield hanging(Text(name, style=VERDICT_STYLE[verdict]), Text(why), gap=2)
    members = group.items[:_ITEMS_SHOWN]
    ids = [Text(single_line(item.item.id, _ID), style="bold") for item in members]
    figures = [_figures(result, item, group.metric) for item in members]
    # What is left goes to the input; an id is never cut, since it is there to be copied.
    of_ids = min(max(text.cell_len for text in ids), width // 2)
    of_figures = max(text.cell_len for text in figures)
    rows = Table.grid(padding=(0, 2))
    rows.add_column(overflow="fold", width=of_ids)
    rows.add_column(no_wrap=True, justify="right", width=of_figures)
    rows.add_column(no_wrap=True, width=width - of_ids - of_figures - 8, style="dim")
    for item, id_, figure in zip(members, ids, figures, strict=True):
        text = Text(single_line(item.item.excerpt, width))
        text.truncate(width - of_ids - of_figures - 8, overflow="ellipsis")
        rows.add_row(id_, figure, text)
    yield Padding(rows, (0, 0, 0, 2))
    if len(group.items) > _ITEMS_SHOWN:
        yield Text(f"  … and {fmt.count(len(group.items) - _ITEMS_SHOWN)} more", style="dim")


def _figures(result: DiffResult, item: ItemVerdict, metric: str) -> Text:
    scores = item.metrics.get(metric)
    if scores is None:
        return Text("")
    sides = (scores.new,) if phrases.is_check(result) else (scores.old, scores.new)
    return Text(" → ".join(map(fmt.score, sides)))


def _item_block(result: DiffResult, group: CauseGroup, width: int) -> Iterable[RenderableType]:
    """Render an item with its own change: each metric's reason, and the input."""
    item = group.items[0]
    head = Text(phrases.verdict_name(result, item.verdict), style=VERDICT_STYLE[item.verdict])
    yield head.append(f"  {single_line(item.item.id, _ID)}", style="bold")
    for name, reason in phrases.metric_reasons(item)[:3]:
        yield hanging(f"  {single_line(name, _METRIC)}:", Text(single_line(reason, 400)))
    if item.verdict is Verdict.INCONCLUSIVE:
        lost: dict[str, list[str]] = {}
        for lane in item.lanes:
            for trial in phrases.failed_trials(item, lane):
                lanes = lost.setdefault(f"{trial.status}: {single_line(trial.reason or '', 300)}", [])
                if str(lane) not in lanes:
                    lanes.append(str(lane))
        for words, lanes in [*lost.items()][:2]:
            yield hanging(f"  {', '.join(lanes)}:", Text(words))
    if item.item.excerpt.strip():
        yield hanging("  input:", Text(single_line(item.item.excerpt, width - 11)), "dim")
