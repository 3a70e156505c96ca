"""Parts of the terminal report: the candidates ranked, what trials take, what was never recorded."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from replaydiff.diff.result import DiffResult
from replaydiff.replay.model import Lane
from replaydiff.replay.terminal.plain import one_line
from replaydiff.reports import compared, numbers, pieces, words


def ranking(result: DiffResult) -> RenderableType:
    """All candidates, the best first, with the figures of the metrics that decide."""
    table = pieces.table()
    table.add_column("lane", no_wrap=True)
    table.add_column("version", overflow="fold", min_width=8)
    table.add_column("answer", no_wrap=True)
    for heading in ("delta", f"{numbers.share(result.confidence)} interval", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for candidate in result.ranking:
        lane = Text(candidate.lane.value, style="bold" if candidate.shown else "")
        name = Text(one_line(words.version_name(candidate.summary.version), 60))
        answer = Text(candidate.answer.value, style=pieces.ANSWER[candidate.answer])
        told = compared.told_metrics(candidate)
        if len(told) != 1:
            table.add_row(lane, name, answer)
        for metric, figures in told:
            head = (
                (lane, name, answer) if len(told) == 1 else ("", Text(one_line(metric, 40), style="dim"), "")
            )
            table.add_row(
                *head,
                numbers.change(figures.delta),
                numbers.interval(figures.ci),
                numbers.p_value(figures.p_adjusted),
            )
    notes = [compared.ranking_caption(result), *compared.against_first(result)]
    return Group(Text(""), table, *(pieces.hanging(" ", Text(note, style="dim")) for note in notes))


def usage(result: DiffResult) -> RenderableType:
    """Cost, latency and tokens of a trial in both lanes, with the interval of their change."""
    table = pieces.table()
    table.add_column("a trial takes", style="dim", no_wrap=True)
    for heading in ("old → new", "delta", f"{numbers.share(result.confidence)} interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in compared.usage_rows(result):
        table.add_row(row.label, row.values, row.change, row.interval)
    return Group(Text(""), table)


def misses(result: DiffResult, lanes: list[Lane]) -> Iterable[RenderableType]:
    """Which calls nothing answered, a line a lane."""
    for lane, told in compared.missed(result, lanes):
        yield pieces.hanging(f"never recorded, {lane}:", Text(told), "dim")
