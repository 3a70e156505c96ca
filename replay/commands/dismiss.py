"""`replay dismiss`."""

from __future__ import annotations

import click

from replaydiff.replay.options import App, command


@command("dismiss")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", required=True, metavar="TEXT", help="Why they need no case.")
@click.option("--run", "run_id", metavar="RUN", help="The run the items are from; default the latest.")
def dismiss(app: App, ids: tuple[str, ...], reason: str, run_id: str | None) -> None:
    """Put items aside, with a reason.

    `replay sample --new-only` leaves them out from then on.

    \b
    Example:
      replay dismiss 3f9a21 --reason "the order system was down"
    """
    from replaydiff.cases.desk import Desk
    from replaydiff.cases.items import find_item
    from replaydiff.cases.promote import person
    from replaydiff.replay.store.connection import open_store

    with open_store(app.store_path, read_only=True) as con:
        found = [find_item(con, name, run_id) for name in dict.fromkeys(ids)]
    desk = Desk(app.store_path, app.settings.golden_path, person(app.settings.root))
    for one in found:
        desk.dismiss([one.item], one.run.id if one.run else None, reason)
    for one in found:
        click.echo(f"dismissed {one.item.id}")
