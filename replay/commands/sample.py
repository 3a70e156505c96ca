"""`replay sample`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

import click

from replaydiff.replay.api.sampling import LATEST, SampleOptions, versions_to_compare
from replaydiff.replay.commands.options import App, Seed, command, json_option, say
from replaydiff.replay.terminal.text import Column, show, single_line, table, terminal_width

if TYPE_CHECKING:
    from replaydiff.replay.api.results import Sample
    from replaydiff.replay.model import SampleItem

_SHOWN_STRATA = 12


@command("sample")
@click.option(
    "--month",
    is_flag=False,
    flag_value=LATEST,
    metavar="[YYYY-MM]",
    help="Traces that started in this month ([project] timezone); "
    "without a value: the latest complete month that has traces.",
)
@click.option("--size", type=int, help="How many traces to draw; default 100, or [sample] size.")
@click.option(
    "--unit",
    type=click.Choice(["conversation", "trace"]),
    help="Draw whole conversations (the traces of a session) or single traces; default conversations where "
    "most sessions have several traces.",
)
@click.option(
    "--by",
    multiple=True,
    metavar="FIELD",
    help="Field whose values make the strata: tool_path (default), model, metadata.plan; repeatable.",
)
@click.option("--seed", type=Seed(), help="Another seed draws other traces.")
@click.option("--where", metavar="COND", help="Only traces that fit, like \"release = '2.1'\".")
@click.option("--name", help="Name of the sample; default the month, or `all`.")
@click.option("--new-only", is_flag=True, help="Leave out what is in the golden set or was triaged already.")
@json_option
def sample(app: App, **options: Unpack[SampleOptions]) -> None:
    """Draw a stratified, reproducible sample of traces.

    Each kind of trace (--by) is drawn as often as its share of the traces asks for; a fifth of the sample is
    kept for the largest kinds that would have no trace otherwise. Kinds too rare for that are pooled, by
    their set of tools, then as {other}. The same seed over the same traces draws the same sample, and a
    larger --size only adds to it. Each drawn trace carries a weight: how many traces it represents. The
    effective size is how many traces of equal weight are worth as much. A comparison needs about a hundred;
    fifty are enough to read each month.

    \b
    Examples:
      replay sample --month
      replay sample --month 2026-10 --size 50 --by tool_path --by metadata.plan --name october
    """
    drawn = app.project.sample(**options)
    if app.printed_json(drawn.to_dict):
        return
    _show(drawn)
    if not drawn.created:
        say(f"sample {drawn.name!r} was there already, and is the same")
    old, new = map(shlex.quote, versions_to_compare(app.project.settings))
    say(f"next: replay run --sample {shlex.quote(drawn.name)} --old {old} --new {new}")


def _show(drawn: Sample) -> None:
    """Print the strata, the biggest first; the rest folded into one line."""
    sample, items = drawn.record, drawn.items
    strata: dict[str, list[SampleItem]] = {}
    for item in items:
        strata.setdefault(item.stratum, []).append(item)
    ordered = sorted(strata.items(), key=lambda entry: (-sum(item.weight for item in entry[1]), entry[0]))
    rows = [(stratum, items_of_stratum) for stratum, items_of_stratum in ordered[:_SHOWN_STRATA]]
    folded = [item for _, items_of_stratum in ordered[_SHOWN_STRATA:] for item in items_of_stratum]
    if folded:
        rows.append((f"{len(ordered) - _SHOWN_STRATA} more strata", folded))
    where = f" where {single_line(sample.where, 60)}" if sample.where else ""
    month = f" of {sample.month}" if sample.month else ""
    show(
        f"{sample.name}: {len(items)} of {sample.population} {drawn.unit}s{month}{where}, "
        f"seed {sample.seed}; effective size {drawn.effective_size:.0f}"
    )
    show(
        table(
            (
                Column(", ".join(sample.by).upper() or "STRATUM", grows=True, least=20),
                Column(f"{drawn.unit}s".upper(), right=True),
                Column("DRAWN", right=True),
                Column("WEIGHT", right=True),
            ),
            [_row(stratum, items_of_stratum) for stratum, items_of_stratum in rows],
            terminal_width(),
        )
    )


def _row(stratum: str, drawn: Sequence[SampleItem]) -> tuple[str, str, str, str]:
    traces = sum(item.weight for item in drawn)
    return stratum, f"{traces:.0f}", str(len(drawn)), f"{traces / len(drawn):.1f}"
