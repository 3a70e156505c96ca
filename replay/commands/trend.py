"""`replay trend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from replaydiff.replay.options import App, command, json_option, print_json

if TYPE_CHECKING:
    from replaydiff.diff.trend import TrendPoint

_PLOT = 24


@command("trend")
@click.option("--metric", default="tool_calls", show_default=True, metavar="NAME", help="What is followed.")
@click.option(
    "--lane",
    default="new",
    show_default=True,
    metavar="LANE",
    help="Whose scores: new (or new2 …), the version under test, or old, the one it was held against.",
)
@click.option("--cases", metavar="PATH", help="Runs of this golden set.")
@click.option("--samples", is_flag=True, help="Runs of monthly samples.")
@click.option("--last", type=click.IntRange(2), default=12, show_default=True, help="How many runs.")
@json_option
def trend(
    app: App, metric: str, lane: str, cases: str | None, samples: bool, last: int, as_json: bool
) -> None:
    """Follow a metric over runs; name what left the noise.

    The series is the runs of one golden set, or with --samples those of monthly samples; without either, the
    kind that the latest run is of. Each run is held against the one before it, and against the last one that
    drifted: on the cases both have, and against what trials vary by themselves.

    \b
    Examples:
      replay trend
      replay trend --samples --metric judge --lane old
    """
    from dataclasses import asdict

    from replaydiff.diff.trend import series, series_kind
    from replaydiff.diff.trend import trend as follow
    from replaydiff.replay.errors import InputError, UnknownNameError
    from replaydiff.replay.model import Lane
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import list_runs
    from replaydiff.replay.terminal.table import show, terminal_width

    if lane not in {known.value for known in Lane}:
        raise UnknownNameError("lane", lane, [known.value for known in Lane])
    if cases and samples:
        raise InputError("--cases and --samples are two series; give one of them")
    with open_store(app.store_path, read_only=True) as con:
        runs = series(list_runs(con), cases, samples=samples)
        if not runs:
            raise InputError("there is no finished run to follow; `replay check` or `replay run` makes one")
        points = follow(con, runs[-last:], metric, Lane(lane), app.settings)
    if not points:
        raise InputError(f"no run of {series_kind(runs[-1])} has a {metric} score in lane {lane}")
    if as_json:
        print_json(
            {
                "metric": metric,
                "lane": lane,
                "of": series_kind(runs[-1]),
                "runs": [asdict(point) | {"drift": point.drift, "slow": point.slow} for point in points],
            }
        )
    else:
        show(_text(metric, lane, series_kind(runs[-1]), points, terminal_width()))


def _text(metric: str, lane: str, of: str, points: Sequence[TrendPoint], width: int) -> str:
    from replaydiff.replay.terminal.table import Column, table
    from replaydiff.reports import numbers

    low, high = min(point.low for point in points), max(point.high for point in points)
    columns = [
        Column("RUN"),
        Column("VERSION", grows=True, least=8),
        Column("ITEMS", right=True),
        Column("MEAN", right=True),
        Column("CHANGE", right=True),
        Column(f"{numbers.score(low)} … {numbers.score(high)}", least=_PLOT),
    ]
    rows = [
        [
            f"{point.created_at:%Y-%m-%d %H:%M}",
            point.version,
            f"{point.items}×{point.trials}",
            numbers.score(point.mean),
            numbers.change(point.change) + (" ◀" if point.drift else ""),
            _plot(point, low, high),
        ]
        for point in points
    ]
    lines = [f"{metric} of lane {lane}, {of}", "", table(columns, rows, width), ""]
    drifted = [point for point in points if point.drift]
    for point in drifted:
        change, limit = (point.base_change, point.base_limit) if point.slow else (point.change, point.limit)
        before = f"run {point.base}, little by little" if point.slow else "the run before"
        lines.append(
            f"drift {point.drift}: {point.run} is {numbers.change(change)} against {before}, and "
            f"noise alone moves it by up to {numbers.score(limit)}"
        )
    if any(point.change is not None and point.limit is None for point in points):
        lines.append(
            "runs with one trial a lane and no A/A lane do not know their noise; --trials 3 tells it"
        )
    elif len(points) == 1:
        lines.append("one run so far; the next one shows what moves")
    elif not drifted:
        lines.append("no run left the noise of the one before it")
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
