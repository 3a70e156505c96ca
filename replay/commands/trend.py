"""`replay trend`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.commands.options import App, command, json_option
from replaydiff.replay.terminal.text import Column, show, table, terminal_width

if TYPE_CHECKING:
    from replaydiff.replay.api.inspecting import TrendPoint

_PLOT = 24


@command("trend")
@click.argument("series", required=False)
@click.option("--metric", default="tool_calls", show_default=True, metavar="NAME", help="The metric.")
@click.option(
    "--lane",
    default="new",
    show_default=True,
    metavar="LANE",
    help="Whose scores: new (or new2 …), the version under test, or old, the version in use.",
)
@click.option("--limit", type=click.IntRange(2), default=12, show_default=True, help="How many runs.")
@json_option
def trend(app: App, series: str | None, metric: str, lane: str, limit: int) -> None:
    """Report a metric over runs, and which runs drifted.

    SERIES is the path of a golden set, for its runs, or `samples` for those of monthly samples; by default
    that of the latest run. Runs of the same version differ, too: trials vary, and on some days all cases
    do worse together. Both are estimated from the runs. A ◀ marks drift: a change beyond both, in one run
    or accumulated over several; about one run in two hundred has it by chance. A ◁ marks a change that
    trials do not explain and a bad day may.

    \b
    Examples:
      replay trend
      replay trend samples --metric judge --lane old
    """
    trend_of_metric = app.project.trend(series, metric=metric, lane=lane, last=limit)
    if not app.printed_json(trend_of_metric.to_dict):
        show(_text(metric, lane, trend_of_metric.series, trend_of_metric.points, terminal_width()))


def _text(metric: str, lane: str, of: str, points: Sequence[TrendPoint], width: int) -> str:
    from replaydiff.reports import format as fmt

    low, high = min(point.low for point in points), max(point.high for point in points)
    columns = [
        Column("RUN"),
        Column("VERSION", grows=True, least=8),
        Column("ITEMS", right=True),
        Column("MEAN", right=True),
        Column("CHANGE", right=True),
        Column(f"{fmt.score(low)} … {fmt.score(high)}", least=_PLOT),
    ]
    rows = [
        [
            f"{point.created_at:%Y-%m-%d %H:%M}",
            point.version,
            f"{point.items}×{point.trials}",
            fmt.score(point.mean),
            fmt.change(point.change) + (" ◀" if point.drift else " ◁" if point.beyond_trials else ""),
            _plot(point, low, high),
        ]
        for point in points
    ]
    series = os.path.relpath(of) if Path(of).is_relative_to(Path.cwd()) else of
    lines = [f"{metric} of lane {lane}, {series}", "", table(columns, rows, width), ""]
    drifted = [point for point in points if point.drift]
    for point in drifted:
        against = (
            f"drift {point.drift}: {point.run} is {fmt.change(point.base_change)} against the runs since"
        )
        because = (
            "added up over several runs, more than chance makes"
            if point.slow
            else f"one run varies by up to {fmt.score(point.base_limit)}"
        )
        lines.append(f"{against} {point.base}; {because}")
    if any(point.change is not None and point.limit is None for point in points):
        lines.append("runs with one trial per lane and no A/A lane cannot measure noise; use --trials 3")
    elif len(points) == 1:
        lines.append("one run so far; a trend needs two")
    elif not drifted:
        lines.append("no run drifted: every change is within run-to-run noise")
    if (noise := points[-1].noise) is not None:
        lines.append(f"run-to-run noise, trials and days together: {fmt.score(noise)}")
    return "\n".join(lines)


def _plot(point: TrendPoint, low: float, high: float) -> str:
    """Return the mean within its noise band, on one scale for all rows."""

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (_PLOT - 1)) if high > low else _PLOT // 2

    line = [" "] * _PLOT
    for index in range(column(point.low), column(point.high) + 1):
        line[index] = "─"
    line[column(point.mean)] = "●"
    # A table runs blanks together.
    return "".join(line).replace(" ", "·")
