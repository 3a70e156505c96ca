"""`replay plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.options import App, command, json_option, print_json

if TYPE_CHECKING:
    from replaydiff.diff.plan import NoiseEstimate, PlannedSize

_ITEMS = (20, 50, 100, 200, 500)


@command("plan")
@click.argument("run", required=False)
@click.option("--metric", default="tool_calls", show_default=True, metavar="NAME", help="What is to be seen.")
@click.option("--effect", type=float, metavar="CHANGE", help="The change to see; default [gate] tolerance.")
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.99),
    default=0.8,
    show_default=True,
    help="The chance to see it where it is there.",
)
@click.option(
    "--trials",
    multiple=True,
    type=click.IntRange(1),
    metavar="K",
    help="Trials a lane (repeatable); default 1, 3 and 5.",
)
@click.option(
    "--candidates",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    metavar="N",
    help="New versions in one run: each pays for a lane, and their intervals hold together.",
)
@click.option("--aa/--no-aa", default=True, show_default=True, help="Pay for the old version once more.")
@json_option
def plan(
    app: App,
    run: str | None,
    metric: str,
    effect: float | None,
    power: float,
    trials: tuple[int, ...],
    candidates: int,
    aa: bool,
    as_json: bool,
) -> None:
    """Say how many items and trials show a change, at what price.

    It stands on the noise and the prices of RUN (a run's id or a unique beginning of it; without it, the
    latest run): a small run with --trials 3 is a good pilot for a large one.

    \b
    Examples:
      replay plan
      replay plan --candidates 3 --trials 3
      replay plan 20261120-221305-ab12 --metric judge --effect 0.03 --power 0.9
    """
    from replaydiff.diff.compute import compute
    from replaydiff.diff.plan import estimate_noise, items_needed, planned_size
    from replaydiff.diff.statistics.paired import simultaneous
    from replaydiff.replay.errors import InputError
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import chosen_run
    from replaydiff.replay.terminal.table import show, terminal_width

    wanted = app.settings.gate.tolerance if effect is None else effect
    if wanted <= 0:
        raise InputError(f"--effect must be above 0, not {wanted:g}")
    with open_store(app.store_path, read_only=True) as con:
        run = chosen_run(con, run).id
        known = estimate_noise(compute(con, run, app.settings, metrics=(metric,)), metric)
    lanes, confidence = 1 + aa + candidates, simultaneous(app.settings.gate.confidence, candidates)
    given = sorted(set(trials)) or [1, 3, 5]
    sizes = [
        [planned_size(known, items, k, lanes, confidence=confidence, power=power) for k in given]
        for items in _ITEMS
    ]
    needed = []
    for k in given:
        items = items_needed(known, wanted, k, confidence=confidence, power=power)
        needed.append(
            None
            if items is None
            else planned_size(known, items, k, lanes, confidence=confidence, power=power)
        )
    if as_json:
        print_json(_document(run, known, wanted, power, lanes, sizes, needed))
    else:
        show(_text(run, known, wanted, power, lanes, given, sizes, needed, terminal_width()))


def _document(
    run: str,
    known: NoiseEstimate,
    wanted: float,
    power: float,
    lanes: int,
    sizes: Sequence[Sequence[PlannedSize]],
    needed: Sequence[PlannedSize | None],
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "run": run,
        "seen": asdict(known),
        "effect": wanted,
        "power": power,
        "lanes": lanes,
        "needed": [None if one is None else asdict(one) for one in needed],
        "table": [asdict(one) for row in sizes for one in row],
    }


def _text(
    run: str,
    known: NoiseEstimate,
    wanted: float,
    power: float,
    lanes: int,
    given: Sequence[int],
    sizes: Sequence[Sequence[PlannedSize]],
    needed: Sequence[PlannedSize | None],
    width: int,
) -> str:
    from replaydiff.replay.terminal.table import Column, table
    from replaydiff.reports import numbers

    noise = "unknown (no version was tried twice)" if known.noise is None else numbers.score(known.noise)
    lines = [
        f"{known.metric} in run {run}, {known.items} items",
        f"  noise of one trial                   {noise}",
        f"  items differ in their change by      {numbers.score(known.between)}",
        *(
            [f"  sessions inflate the variance by     {known.design:.1f} times"]
            if known.design > 1.05
            else []
        ),
        "",
        f"the smallest change seen in {power:.0%} of comparisons"
        + (f", and the price of {lanes} lanes" if known.trial_usd else ""),
    ]
    columns = [Column("ITEMS", right=True), *(Column(_trials(k), right=True) for k in given)]
    rows = [
        [f"{row[0].items:,}", *(_cell(numbers.score(one.effect), one.cost_usd) for one in row)]
        for row in sizes
    ]
    lines += [table(columns, rows, width), "", f"to see a change of {numbers.figure(wanted)}"]
    for k, one in zip(given, needed, strict=True):
        if one is None:
            lines.append(f"  {_trials(k)}: more than a million items")
        else:
            price = "" if not one.cost_usd else f", about {numbers.dollars(one.cost_usd)}"
            lines.append(f"  {_trials(k)}: {one.items:,} items{price}")
    if not known.trial_usd:
        lines.append("no trial of that run has a price, so none is given here")
    return "\n".join(lines)


def _cell(effect: str, cost_usd: float | None) -> str:
    from replaydiff.reports import numbers

    return f"{effect} {numbers.dollars(cost_usd)}" if cost_usd else effect


def _trials(k: int) -> str:
    return "1 trial" if k == 1 else f"{k} trials"
