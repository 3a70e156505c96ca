"""`replay store`: care for the store file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from replaydiff.replay.errors import InputError
from replaydiff.replay.options import App, command, common_options, json_option, print_json


@click.group("store")
@common_options
def store() -> None:
    """Care for the store file: info, merge, prune, compact.

    \b
    Examples:
      replay store info
      replay store merge ../laptop/.replay/replay.duckdb
    """


@command("info")
@json_option
def info(app: App, as_json: bool) -> None:
    """Say how large the store is, and what is in it."""
    from replaydiff.replay.store.care import contents
    from replaydiff.replay.store.connection import open_store

    with open_store(app.store_path, read_only=True) as con:
        rows = contents(con)
    size = app.store_path.stat().st_size
    if as_json:
        print_json({"store": str(app.store_path), "bytes": size, "rows": rows})
        return
    click.echo(f"{app.store_path}: {_size(size)}")
    for table, count in rows.items():
        click.echo(f"  {table:<13}{count:>12,}")


@command("merge")
@click.argument("other", type=click.Path(path_type=Path))
@json_option
def merge(app: App, other: Path, as_json: bool) -> None:
    """Take in what another store has and this one has not.

    What both have stays as it is here. The other store is not changed.

    \b
    Example:
      replay store merge ../laptop/.replay/replay.duckdb
    """
    from replaydiff.replay.store.care import merge as take_in
    from replaydiff.replay.store.connection import open_store

    if other.absolute() == app.store_path.absolute():
        raise InputError(f"{other} is this store itself; name another")
    with open_store(other, read_only=True) as theirs, open_store(app.store_path) as con:
        taken = take_in(con, theirs)
    if as_json:
        print_json({"store": str(app.store_path), "taken": taken})
        return
    words = ", ".join(f"{count:,} {table.replace('_', ' ')}" for table, count in taken.items() if count)
    click.echo(f"taken from {other}: {words or 'nothing, it is all here'}")


@command("prune")
@click.option("--before", required=True, metavar="TIME", help="What is older goes (YYYY-MM or a time, UTC).")
@click.option("--runs", is_flag=True, help="Runs made before it, too, with their trials and grades.")
@click.option("--yes", is_flag=True, help="Do it; without this it is only said what would go.")
@json_option
def prune(app: App, before: str, runs: bool, yes: bool, as_json: bool) -> None:
    """Leave out old traces, and old runs if they are to go.

    Cases keep their tapes, runs the copies of their items, and traces that a sample holds stay. The file gets
    smaller with `replay store compact`.

    \b
    Example:
      replay store prune --before 2026-06 --yes
    """
    from dataclasses import asdict

    from replaydiff.replay.store.care import prune as leave_out
    from replaydiff.replay.store.connection import open_store

    with open_store(app.store_path) as con:
        found = leave_out(con, _moment(before), runs=runs, really=yes)
    if as_json:
        print_json({"store": str(app.store_path), "done": yes, **asdict(found)})
        return
    gone = f"{found.traces:,} traces" + (f" and {found.runs:,} runs" if runs else "")
    kept = f"; {found.kept_in_samples:,} as old stay in samples" if found.kept_in_samples else ""
    click.echo(f"{gone} {'are gone' if yes else 'would go'}{kept}")
    click.echo("next: replay store compact" if yes else "nothing was changed; --yes does it")


@command("compact")
@json_option
def compact(app: App, as_json: bool) -> None:
    """Write the store anew, without the room that deleted rows left."""
    from replaydiff.replay.errors import StoreMissingError
    from replaydiff.replay.store.care import compact as write_anew

    if not app.store_path.exists():
        raise StoreMissingError(f"there is no store at {app.store_path}")
    before, after = write_anew(app.store_path)
    if as_json:
        print_json({"store": str(app.store_path), "bytes_before": before, "bytes_after": after})
    else:
        click.echo(f"{app.store_path}: {_size(before)}, now {_size(after)}")


def _moment(text: str) -> datetime:
    from replaydiff.replay.store.where import month_range

    if len(text) == len("2026-06"):
        return month_range(text)[0]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--before is no time: {text[:40]!r}; write it as 2026-06 or 2026-06-15") from None
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


for _one in (info, merge, prune, compact):
    store.add_command(_one)
