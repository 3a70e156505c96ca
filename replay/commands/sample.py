"""`replay sample`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.errors import InputError
from replaydiff.replay.options import App, command, json_option, print_json, say
from replaydiff.replay.settings import override

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.replay.model import Sample, SampleItem
    from replaydiff.replay.sampling import Draw

LATEST = "latest"
_SHOWN_STRATA = 12
_SHOWN_MONTHS = 12
_INT64 = 2**63


@command("sample")
@click.option(
    "--month",
    is_flag=False,
    flag_value=LATEST,
    metavar="[YYYY-MM]",
    help="Traces that started in this month (UTC); bare: the latest complete month that has traces.",
)
@click.option("--size", type=int, help="How many traces to draw; default 50, or [sample] size.")
@click.option(
    "--by",
    multiple=True,
    metavar="FIELD",
    help="Field whose values make the strata: tool_path (default), model, metadata.plan; repeatable.",
)
@click.option("--seed", type=click.IntRange(-_INT64, _INT64 - 1), help="Another seed draws other traces.")
@click.option("--where", metavar="COND", help="Only traces that fit, like \"release = '2.1'\".")
@click.option("--name", help="Name of the sample; default the month, or `all`.")
@click.option("--new-only", is_flag=True, help="Leave out what is in the golden set or was triaged already.")
@json_option
def sample(
    app: App,
    month: str | None,
    size: int | None,
    by: tuple[str, ...],
    seed: int | None,
    where: str | None,
    name: str | None,
    new_only: bool,
    as_json: bool,
) -> None:
    """Draw a stratified, reproducible sample of traces.

    Every kind of trace (--by) gets a seat before any gets a second one, and further seats go by how many
    traces a kind has. The same seed over the same traces draws the same sample, and a larger --size only
    adds to it. Each drawn trace carries a weight: how many traces it stands for.

    \b
    Examples:
      replay sample --month
      replay sample --month 2026-10 --size 50 --by tool_path --by metadata.plan --name october
    """
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.samples import get_sample, write_sample

    drawn = draw_as_asked(
        app, month=month, size=size, by=by, seed=seed, where=where, name=name, new_only=new_only
    )
    with open_store(app.store_path) as con:
        created = write_sample(con, drawn.sample, drawn.items)
        kept = get_sample(con, drawn.sample.name)
    if as_json:
        print_json(_document(kept, drawn.items, drawn.warnings, created))
        return
    _show(kept, drawn.items)
    if not created:
        say(f"sample {kept.name!r} was there already, and is the same")
    say(f"next: replay run --sample {shlex.quote(kept.name)} --old OLD --new NEW")


def draw_as_asked(
    app: App,
    *,
    month: str | None,
    size: int | None,
    by: tuple[str, ...],
    seed: int | None,
    where: str | None,
    name: str | None,
    new_only: bool,
) -> Draw:
    """What the flags and settings draw; says what a person should know of it. Nothing is stored.

    Raises:
        ReplayError: nothing can be drawn.
    """
    from replaydiff.replay.sampling import draw
    from replaydiff.replay.store.connection import open_store

    section = override(app.settings.sample, size=size, by=_fields(by) or None, seed=seed, where=where)
    with open_store(app.store_path, read_only=True) as con:
        chosen = _month(con, month)
        drawn = draw(
            con,
            name=_name(name, chosen),
            size=section.size,
            seed=section.seed,
            by=section.by,
            month=chosen,
            where=section.where,
            exclude=_handled(con, app) if new_only else (),
        )
    for warning in drawn.warnings:
        say(f"warning: {warning}")
    return drawn


def _fields(by: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of `--by a --by b` and of `--by a,b`."""
    return tuple(field.strip() for given in by for field in given.split(",") if field.strip())


def _name(name: str | None, month: str | None) -> str:
    chosen = name if name is not None else month or "all"
    if not chosen.strip() or not chosen.isprintable():
        raise InputError(f"{chosen!r} is no name for a sample; use letters and digits")
    return chosen


def _month(con: DuckDBPyConnection, month: str | None) -> str | None:
    """The month to draw from; says which where it was left to be found."""
    from replaydiff.replay.store import clock
    from replaydiff.replay.store.traces import trace_months
    from replaydiff.replay.store.where import month_range

    if month is None:
        return None
    months = dict(trace_months(con))
    if not months:
        raise InputError("the store has no traces yet; bring some in with `replay import`")
    if month != LATEST:
        month_range(month)
        if month not in months:
            raise InputError(f"there are no traces of {month}; there are traces of {_listed(months)}")
        return month
    complete = [name for name in months if name < _month_of(clock.utc_now())]
    if not complete:
        raise InputError(
            f"no complete month has traces yet; name one with --month: there are traces of {_listed(months)}"
        )
    say(f"latest complete month with traces: {complete[-1]} ({months[complete[-1]]} traces)")
    return complete[-1]


def _month_of(time: datetime) -> str:
    return f"{time:%Y-%m}"


def _listed(months: dict[str, int]) -> str:
    last = list(months.items())[-_SHOWN_MONTHS:]
    text = ", ".join(f"{month} ({count})" for month, count in last)
    return text if len(last) == len(months) else f"{text} and {len(months) - len(last)} months before"


def _handled(con: DuckDBPyConnection, app: App) -> set[str]:
    """Ids of traces that are in the golden set, or were promoted or dismissed."""
    from replaydiff.replay.model import Action, standing
    from replaydiff.replay.store.decisions import decisions

    handled = {
        item_id
        for item_id, decision in standing(decisions(con)).items()
        if decision.action is not Action.SKIP
    }
    if app.settings.golden_path.exists():
        from replaydiff.replay.golden import read_golden

        cases = read_golden(app.settings.golden_path)
        handled |= {case.provenance.trace_id for case in cases if case.provenance.trace_id}
    return handled


def _document(
    sample: Sample, items: Sequence[SampleItem], warnings: Sequence[str], created: bool
) -> dict[str, Any]:
    return {
        **asdict(sample),
        "created_at": sample.created_at.isoformat(),
        "created": created,
        "warnings": list(warnings),
        "items": [
            {
                "trace_id": item.trace_id,
                "position": item.position,
                "stratum": item.stratum,
                "weight": item.weight,
            }
            for item in items
        ],
    }


def _show(sample: Sample, items: Sequence[SampleItem]) -> None:
    """Strata, the biggest first; the rest folded into one line."""
    from replaydiff.replay.terminal.plain import one_line
    from replaydiff.replay.terminal.table import Column, show, table, terminal_width

    strata: dict[str, list[SampleItem]] = {}
    for item in items:
        strata.setdefault(item.stratum, []).append(item)
    ordered = sorted(strata.items(), key=lambda entry: (-sum(item.weight for item in entry[1]), entry[0]))
    rows = [(stratum, drawn) for stratum, drawn in ordered[:_SHOWN_STRATA]]
    folded = [item for _, drawn in ordered[_SHOWN_STRATA:] for item in drawn]
    if folded:
        rows.append((f"{len(ordered) - _SHOWN_STRATA} more strata", folded))
    where = f" where {one_line(sample.where, 60)}" if sample.where else ""
    month = f" of {sample.month}" if sample.month else ""
    show(f"{sample.name}: {len(items)} of {sample.population} traces{month}{where}, seed {sample.seed}")
    show(
        table(
            (
                Column(", ".join(sample.by).upper() or "STRATUM", grows=True, least=20),
                Column("TRACES", right=True),
                Column("DRAWN", right=True),
                Column("WEIGHT", right=True),
            ),
            [_row(stratum, drawn) for stratum, drawn in rows],
            terminal_width(),
        )
    )


def _row(stratum: str, drawn: Sequence[SampleItem]) -> tuple[str, str, str, str]:
    traces = sum(item.weight for item in drawn)
    return stratum, f"{traces:.0f}", str(len(drawn)), f"{traces / len(drawn):.1f}"
