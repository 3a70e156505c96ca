"""The report that a terminal shows: the answer first, then why, what tempers it, the figures, what changed.

It is readable without colour, in a pipe and at 80 columns; below `LEAST_WIDTH` it keeps that width. Figures
are never broken or cut: columns of text give way first. Text of traces goes through `replay.terminal.plain`.
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

from replaydiff.diff.result import DiffResult, LaneSummary, Verdict
from replaydiff.replay.model import Status
from replaydiff.replay.terminal.plain import encodable, one_line, visible
from replaydiff.reports import compared, numbers, pieces, terminal_compared, terminal_items, words

LEAST_WIDTH = 72
"""Columns that the metrics table needs."""
PIPED_WIDTH = 100
"""Columns where stdout is no terminal."""
_WARNINGS_FIRST = 3
_LABEL = 30
_MANY = 4
"""Metrics, of which each has its notes; of more only those that decide."""
_LEAST_NAME = 10
_OTHER_COLUMNS = 66
"""Columns of the metrics table beside the name, at the usual widths of figures."""
_LANES_WIDTH = 100
_GROUPS = 20


def render(result: DiffResult, *, width: int, color: bool) -> str:
    """The report as text of at most `width` columns, with ANSI colours where `color` is set."""
    out = io.StringIO()
    console = Console(
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
    for block in _blocks(result, console.width):
        console.print(block)
    # A line's padding is nothing to look at, and it would end up in files and diffs.
    return "\n".join(line.rstrip() for line in pieces.released(out.getvalue()).split("\n"))


def show(result: DiffResult, *, width: int | None = None) -> None:
    """Write the report to stdout: in the terminal's width and colours, or plain in a pipe or file.

    `NO_COLOR` and a stream that cannot write our signs are respected.
    """
    terminal = sys.stdout.isatty()
    columns = width or (shutil.get_terminal_size().columns if terminal else PIPED_WIDTH)
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    sys.stdout.write(encodable(render(result, width=columns, color=color), sys.stdout.encoding))


def _blocks(result: DiffResult, width: int) -> Iterable[RenderableType]:
    yield _answer(result)
    if result.ranking:
        yield terminal_compared.ranking(result)
    if result.warnings:
        yield _warnings(result.warnings[:_WARNINGS_FIRST])
    yield _heading(result)
    if result.lanes:
        yield _lanes(result, width)
    if result.metrics:
        yield _metrics(result, width)
    if result.usage:
        yield terminal_compared.usage(result)
    yield _counts(result)
    yield from terminal_items.changed(result, width)
    if result.slices:
        yield _slices(result)
    if result.groups:
        yield _groups(result)
    if result.gate.conditions:
        yield _gate(result)
    if len(result.warnings) > _WARNINGS_FIRST:
        yield _warnings(result.warnings[_WARNINGS_FIRST:])
    yield Text("")
    yield pieces.hanging("next", Text(visible(result.next), style="bold"), "dim")


def _answer(result: DiffResult) -> RenderableType:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row(Text(result.answer.value, style=pieces.ANSWER[result.answer]), Text(one_line(result.reason)))
    rows.add_row(Text("next", style="dim", justify="right"), Text(visible(result.next)))
    return rows


def _warnings(warnings: Sequence[str]) -> RenderableType:
    return Group(
        Text(""), *(pieces.hanging("!", Text(one_line(warning)), "bold yellow") for warning in warnings)
    )


def _heading(result: DiffResult) -> RenderableType:
    parts = [*words.run_line(result.run), words.compared(result)]
    if not words.is_check(result):
        parts.append(words.NOISE[result.noise])
    if result.run.finished_at is None:
        parts.append("not finished")
    return Padding(pieces.held(Text(" · ".join(map(_words, parts)), style="dim")), (1, 0, 0, 0))


def _words(text: str) -> str:
    """One line in which our no-break spaces stay."""
    return "\u00a0".join(one_line(part) for part in text.split("\u00a0"))


def _lanes(result: DiffResult, width: int) -> RenderableType:
    lanes = words.lanes(result)
    table = pieces.table()
    table.add_column("", style="dim", no_wrap=True)
    for lane in lanes:
        table.add_column(lane.value, overflow="fold", ratio=1, header_style="bold")
    facts = [_lane_facts(result.lanes[lane]) for lane in lanes]
    for label in facts[0]:
        cells = [fact[label] for fact in facts]
        if any(cell.plain != numbers.NONE for cell in cells):
            table.add_row(label, *cells)
    if len(lanes) > 1:
        table.width = min(width, _LANES_WIDTH)
    return Group(Text(""), table, *terminal_compared.misses(result, lanes))


def _lane_facts(lane: LaneSummary) -> dict[str, Text]:
    latency = numbers.NONE
    if lane.latency_p50_ms is not None or lane.latency_p95_ms is not None:
        latency = f"{numbers.duration(lane.latency_p50_ms)} / {numbers.duration(lane.latency_p95_ms)}"
    used = numbers.NONE
    if lane.input_tokens is not None or lane.output_tokens is not None:
        used = f"{numbers.tokens(lane.input_tokens)} / {numbers.tokens(lane.output_tokens)}"
    return {
        "version": Text(one_line(words.version_name(lane.version), 120)),
        "trials": Text(numbers.count(lane.trials)),
        "ended": _statuses(lane.statuses),
        "fidelity": Text(numbers.share(lane.fidelity)),
        "as recorded": Text(numbers.share(lane.agreement)),
        "cost": Text(numbers.dollars(lane.cost_usd)),
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
        text.append(f"{numbers.count(number)}\u00a0{one_line(name, 20)}", style=style)
    return text or Text(numbers.NONE)


def _metrics(result: DiffResult, width: int) -> RenderableType:
    alone = words.is_check(result)
    table = pieces.table()
    table.add_column("metric", overflow="fold", min_width=10)
    sure = f"{numbers.share(result.confidence)} interval"
    for heading in ("new",) if alone else ("old → new", "delta", sure, "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for verdict in (Verdict.IMPROVED, Verdict.REGRESSED):
        name = words.verdict(result, verdict) if alone else f"{verdict}"
        table.add_column(name, justify="right", no_wrap=True)
    room = max(_LEAST_NAME, width - _OTHER_COLUMNS)
    for name, metric in result.metrics.items():
        label = pieces.in_lines(one_line(name, 60), room)
        if alone:
            figures = [numbers.score(metric.new)]
            better = metric.unchanged + metric.improved
        else:
            figures = [
                f"{numbers.score(metric.old)} → {numbers.score(metric.new)}",
                numbers.change(metric.delta),
                numbers.interval(metric.ci),
                numbers.p_value(metric.p),
            ]
            better = metric.improved
        table.add_row(
            Text(label, style="bold" if metric.gated else ""),
            *figures,
            pieces.colored(better, "green"),
            pieces.colored(metric.regressed, "red"),
        )
    return Group(Text(""), table, *_metric_notes(result))


def _metric_notes(result: DiffResult) -> Iterable[RenderableType]:
    """What tempers each metric; of many metrics, those that decide, and which do not."""
    many = len(result.metrics) > _MANY
    for name, metric in result.metrics.items():
        if notes := words.metric_notes(name, metric, brief=many and not metric.gated):
            yield pieces.hanging(f"  {one_line(name, _LABEL)}:", Text(" · ".join(notes)), "dim")
    if many and (others := [name for name, metric in result.metrics.items() if not metric.gated]):
        told = ", ".join(one_line(name, 60) for name in others)
        yield pieces.hanging("  do not decide the answer:", Text(told), "dim")


def _counts(result: DiffResult) -> RenderableType:
    parts = [
        Text(f"{numbers.count(number)}\u00a0{name}", style=pieces.STYLE[verdict] if number else "dim")
        for verdict, name, number in words.verdict_counts(result)
    ]
    return Padding(pieces.held(Text.assemble("items  ", Text(" · ").join(parts))), (1, 0, 0, 0))


def _slices(result: DiffResult) -> RenderableType:
    table = pieces.table()
    several = len({part.metric for part in result.slices}) > 1
    table.add_column(
        "slice" if several else f"slice, on {one_line(result.slices[0].metric, 40)}", overflow="fold"
    )
    if several:
        table.add_column("metric", overflow="fold", min_width=10)
    for heading in ("items", "delta", "p", "improved", "regressed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in result.slices[:12]:
        table.add_row(
            f"{one_line(part.by, 30)} = {one_line(part.value, 60)}",
            *([one_line(part.metric, 40)] if several else []),
            numbers.count(part.items),
            numbers.change(part.delta),
            numbers.p_value(part.p),
            numbers.count(part.improved),
            numbers.count(part.regressed),
        )
    return Group(Text(""), table, pieces.hanging(" ", Text(compared.slices_caption(result), style="dim")))


def _groups(result: DiffResult) -> RenderableType:
    table = pieces.table()
    table.add_column("group", overflow="fold")
    for heading in ("cases", "passed", "failed", "undecided", "rate"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part in result.groups[:_GROUPS]:
        needed = "" if part.threshold is None else f", {numbers.share(part.threshold)} must"
        table.add_row(
            f"{part.by} = {one_line(part.value, 60)}",
            numbers.count(part.items),
            numbers.count(part.passed),
            pieces.colored(part.failed, "red"),
            numbers.count(part.undecided + part.not_graded),
            numbers.share(part.rate) + needed,
        )
    return Group(Text(""), table)


def _gate(result: DiffResult) -> RenderableType:
    said = {True: ("held", "green"), False: ("did not hold", "red"), None: ("cannot be decided", "yellow")}
    rows = Table.grid(padding=(0, 2))
    rows.add_column(overflow="fold")
    rows.add_column(no_wrap=True, justify="right")
    rows.add_column(no_wrap=True)
    for condition in result.gate.conditions:
        word, style = said[condition.held]
        rows.add_row(
            Text(one_line(condition.expression, 120)),
            numbers.figure(condition.value),
            Text(word, style=style),
        )
    return Group(Text(""), Text("gate", style="bold"), Padding(rows, (0, 0, 0, 2)))
