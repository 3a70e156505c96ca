"""`replay plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from replaydiff.replay.commands.options import App, command, json_option, print_json

if TYPE_CHECKING:
    from replaydiff.replay.api.inspecting import Plan


@command("plan")
@click.argument("run", required=False)
@click.option("--metric", default="tool_calls", show_default=True, metavar="NAME", help="The metric.")
@click.option("--effect", type=float, metavar="CHANGE", help="Change to detect; default [gate] tolerance.")
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.99),
    default=0.8,
    show_default=True,
    help="The chance to detect it where it exists.",
)
@click.option(
    "--trials",
    multiple=True,
    type=click.IntRange(1),
    metavar="K",
    help="Trials per lane (repeatable); default 1, 3 and 5.",
)
@click.option(
    "--candidates",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    metavar="N",
    help="New versions in one run: each costs a lane, and their intervals are adjusted together.",
)
@click.option("--aa/--no-aa", default=True, show_default=True, help="Include a second old lane.")
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
    """Report how many items and trials detect a change, at what price.

    It uses the noise and the prices of RUN (a run's id or a unique beginning of it; default: the latest
    comparison):
    a small run with --trials 3 is a good pilot for a large one.

    \b
    Examples:
      replay plan
      replay plan --candidates 3 --trials 3
      replay plan 20261120-221305-ab12 --metric judge --effect 0.03 --power 0.9
    """
    from replaydiff.replay.terminal.text import show, terminal_width

    found = app.project.plan(
        run, metric=metric, effect=effect, power=power, trials=trials, candidates=candidates, aa=aa
    )
    if as_json:
        print_json(found.to_dict())
    else:
        show(_text(found, terminal_width()))


def _text(plan: Plan, width: int) -> str:
    from replaydiff.replay.terminal.text import Column, table
    from replaydiff.reports import format as fmt

    known = plan.noise
    noise = "unknown (no version ran twice)" if known.noise is None else fmt.score(known.noise)
    lines = [
        f"{known.metric} in run {plan.run}, {known.items} items",
        f"  run-to-run noise of one trial        {noise}",
        f"  items differ in their change by      {fmt.score(known.between)}",
        *(
            [f"  sessions inflate the variance by     {known.design:.1f} times"]
            if known.design > 1.05
            else []
        ),
        *(["  a golden set: with several trials an item, only their noise counts"] if known.fixed else []),
        "",
        f"the smallest change detected in {plan.power:.0%} of comparisons"
        + (f", and the price of {plan.lanes} lanes" if known.trial_usd else ""),
    ]
    columns = [Column("ITEMS", right=True), *(Column(_trials(k), right=True) for k in plan.trials)]
    rows = [
        [f"{row[0].items:,}", *(_cell(fmt.score(one.effect), one.cost_usd) for one in row)]
        for row in plan.table
    ]
    lines += [table(columns, rows, width), "", f"to detect a change of {fmt.figure(plan.effect)}"]
    for k, one in zip(plan.trials, plan.needed, strict=True):
        if one is None:
            lines.append(f"  {_trials(k)}: more than a million items")
        else:
            price = "" if not one.cost_usd else f", about {fmt.dollars(one.cost_usd)}"
            lines.append(f"  {_trials(k)}: {one.items:,} items{price}")
            if one.stopping is not None:
                none, twice = one.stopping
                lines.append(
                    f"    with --until-known on average {none:.0%} of the calls if nothing changed, "
                    f"{twice:.0%} at a loss of {fmt.figure(2 * plan.effect)}"
                )
    if not known.trial_usd:
        lines.append("no trial of that run has a price, so none is given here")
    return "\n".join(lines)


def _cell(effect: str, cost_usd: float | None) -> str:
    from replaydiff.reports import format as fmt

    return f"{effect} {fmt.dollars(cost_usd)}" if cost_usd else effect


def _trials(k: int) -> str:
    return "1 trial" if k == 1 else f"{k} trials"
