"""`replay trend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from replaydiff.replay.commands.options import App, command, json_option, print_json

if TYPE_CHECKING:
    from replaydiff.replay.api.inspecting import TrendPoint

_PLOT = 24


@command("trend")
@click.option("--metric", default="tool_calls", show_default=True, metavar="NAME", help="The metric.")
@click.option(
    "--lane",
    default="new",
    show_default=True,
    metavar="LANE",
    help="Whose scores: new (or new2 …), the version under test, or old, the version in use.",
)
@click.option("--cases", metavar="PATH", help="Runs of this golden set.")
@click.option("--samples", is_flag=True, help="Runs of monthly samples.")
@click.option("--last", type=click.IntRange(2), default=12, show_default=True, help="How many runs.")
@json_option
def trend(
    app: App, metric: str, lane: str, cases: str | None, samples: bool, last: int, as_json: bool
) -> None:
    """Report a metric over runs, and which runs drifted.

    The series is the runs of one golden set, or with --samples those of monthly samples; by default whichever
    the latest run belongs to. Each run is compared with the one before it and with the last one that drifted:
    on the cases both have, and allowing for run-to-run noise.

    \b
    Examples:
      replay trend
      replay trend --samples --metric judge --lane old
    """
    from replaydiff.replay.terminal.table import show, terminal_width

    found = app.project.trend(metric=metric, lane=lane, cases=cases, samples=samples, last=last)
    if as_json:
        print_json(found.to_dict())
    else:
        show(_text(metric, lane, found.series, found.points, terminal_width()))


def _text(metric: str, lane: str, of: str, points: Sequence[TrendPoint], width: int) -> str:
    from replaydiff.replay.terminal.table import Column, table
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
            fmt.change(point.change) + (" ◀" if point.drift else ""),
            _plot(point, low, high),
        ]
        for point in points
    ]
    lines = [f"{metric} of lane {lane}, {of}", "", table(columns, rows, width), ""]
    drifted = [point for point in points if point.drift]
    for point in drifted:
        change, limit = (point.base_change, point.base_limit) if point.slow else (point.change, point.limit)
        before = f"run {point.base}, gradually" if point.slow else "the run before"
        lines.append(
            f"drift {point.drift}: {point.run} is {fmt.change(change)} against {before}, and "
            f"noise alone moves it by up to {fmt.score(limit)}"
        )
    if any(point.change is not None and point.limit is None for point in points):
        lines.append("runs with one trial per lane and no A/A lane cannot measure noise; use --trials 3")
    elif len(points) == 1:
        lines.append("one run so far; a trend needs two")
    elif not drifted:
        lines.append("no run drifted: every change is within run-to-run noise")
    return "\n".join(lines)


def _plot(point: TrendPoint, low: float, high: float) -> str:
    """The mean within its noise band, on one scale for all rows."""

    def place(value: float) -> int:
        return round((value - low) / (high - low) * (_PLOT - 1)) if high > low else _PLOT // 2

    line = [" "] * _PLOT
    for index in range(place(point.low), place(point.high) + 1):
        line[index] = "─"
    line[place(point.mean)] = "●"
    # A table runs blanks together.
    return "".join(line).replace(" ", "·")
