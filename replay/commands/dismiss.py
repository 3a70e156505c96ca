"""`replay dismiss`."""

from __future__ import annotations

import click

from replaydiff.replay.commands.options import App, command


@command("dismiss")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", required=True, metavar="TEXT", help="Why they need no case.")
@click.option("--run", "run_id", metavar="RUN", help="The run the items are from; default the latest.")
def dismiss(app: App, ids: tuple[str, ...], reason: str, run_id: str | None) -> None:
    """Set items aside, with a reason.

    From then on `replay sample --new-only` leaves them out.

    \b
    Example:
      replay dismiss 3f9a21 --reason "the order system was down"
    """
    for item_id in app.project.dismiss(*ids, reason=reason, run=run_id):
        click.echo(f"dismissed {item_id}")
