"""`replay store`: care for the store file."""

from __future__ import annotations

from pathlib import Path

import click

from replaydiff.replay.commands.options import App, command, common_options, json_option, print_json


@click.group("store")
@common_options
def store() -> None:
    """Maintain the store file: info, merge, prune, compact.

    \b
    Examples:
      replay store info
      replay store merge ../laptop/.replay/replay.duckdb
    """


@command("info")
@json_option
def info(app: App, as_json: bool) -> None:
    """Report how large the store is, what is in it, and what waits beside it.

    Trials of a run in progress or killed, votes of the judge and decisions wait until a command writes.
    """
    # Before the store is opened, which may take it in.
    waiting = app.project.store_file().waiting()
    rows = app.project.store_file().rows()
    size = app.store_path.stat().st_size
    if as_json:
        print_json({"store": str(app.store_path), "bytes": size, "rows": rows, "waiting": waiting})
        return
    click.echo(f"{app.store_path}: {_size(size)}")
    for table, count in rows.items():
        click.echo(f"  {table:<13}{count:>12,}")
    if waiting["bytes"]:
        click.echo(
            f"not in the store yet: {waiting['rows']:,} votes and decisions, "
            f"trials of {waiting['journals']:,} runs ({_size(waiting['bytes'])}); "
            "a copy of the store needs the folder `journal`, too"
        )


@command("merge")
@click.argument("other", type=click.Path(path_type=Path))
@json_option
def merge(app: App, other: Path, as_json: bool) -> None:
    """Copy what another store has and this one has not.

    What both have stays as it is here. The other store is not changed.

    \b
    Example:
      replay store merge ../laptop/.replay/replay.duckdb
    """
    taken = app.project.store_file().merge(other)
    if as_json:
        print_json({"store": str(app.store_path), "taken": taken})
        return
    words = ", ".join(f"{count:,} {table.replace('_', ' ')}" for table, count in taken.items() if count)
    click.echo(f"copied from {other}: {words or 'nothing, this store has it all'}")


@command("prune")
@click.option("--before", required=True, metavar="TIME", help="Delete what is older (YYYY-MM or a time).")
@click.option("--runs", is_flag=True, help="Also delete runs made before it, with their trials and grades.")
@click.option("--yes", is_flag=True, help="Delete; without it, report what would be deleted.")
@json_option
def prune(app: App, before: str, runs: bool, yes: bool, as_json: bool) -> None:
    """Delete old traces, with --runs old runs, and what no run needs.

    No run needs checkouts and virtual environments beside the store that no stored run used, checkouts of
    bisections (made anew when needed), and copies of the store that a killed command left.

    Cases keep their tapes, runs their copies of items. Traces of a sample are kept. The file shrinks
    with `replay store compact`.

    \b
    Example:
      replay store prune --before 2026-06 --yes
    """
    found = app.project.store_file().prune(before, runs=runs, really=yes)
    if as_json:
        print_json({"store": str(app.store_path), "done": yes, **found})
        return
    gone = f"{found['traces']:,} traces" + (f" and {found['runs']:,} runs" if runs else "")
    kept = (
        f"; {found['kept_in_samples']:,} as old are kept: samples hold them"
        if found["kept_in_samples"]
        else ""
    )
    click.echo(f"{gone} {'were deleted' if yes else 'would be deleted'}{kept}")
    unneeded = [(found[name], name) for name in ("checkouts", "environments", "copies") if found[name]]
    if unneeded:
        words = ", ".join(f"{count:,} {name}" for count, name in unneeded)
        click.echo(f"no run needs {words}: {'removed' if yes else 'would be removed'}")
    click.echo("next: replay store compact" if yes else "nothing was changed; --yes deletes them")


@command("compact")
@json_option
def compact(app: App, as_json: bool) -> None:
    """Rewrite the store without the space that deleted rows left."""
    before, after = app.project.store_file().compact()
    if as_json:
        print_json({"store": str(app.store_path), "bytes_before": before, "bytes_after": after})
    else:
        click.echo(f"{app.store_path}: {_size(before)}, now {_size(after)}")


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


for _one in (info, merge, prune, compact):
    store.add_command(_one)
