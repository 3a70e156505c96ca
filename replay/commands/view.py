"""`replay view`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from replaydiff.replay.commands.options import App, command

if TYPE_CHECKING:
    from replaydiff.replay.api.inspecting import ReplayedItem


@command("view")
@click.argument("item", required=False)
@click.option("--run", "run_id", metavar="RUN", help="Open this run; with ITEM, default the latest.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of 127.0.0.1; default a free one.")
@click.option("--plain-host", is_flag=True, help="Use the host 127.0.0.1 instead of a random *.localhost.")
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def view(
    app: App, item: str | None, run_id: str | None, port: int, plain_host: bool, no_browser: bool
) -> None:
    """Show runs, traces and trends in a browser; triage there.

    Opens the list of runs; with --run that run, and with ITEM that item of the run. The same command opens
    the same item for everyone who has the store; in a report that was saved, `#item=ID` after its address
    does.

    Serves a page on 127.0.0.1 until Ctrl-C. Its address contains a secret token that works once: only the
    browser that opens it has access. The host is a random name below localhost, so that no other port gets
    its cookie; --plain-host is for browsers that do not resolve such names.

    The store is read for each page and not locked in between, so imports and runs continue. The page of a run
    in progress shows its trials as they end. Triage promotes, edits and dismisses as `replay triage` does.
    Labels go into a sheet that `replay calibrate --labels` reads.

    \b
    Examples:
      replay view
      replay view 3f9a21 --run 20261120-221305-ab12
      replay view --no-browser --port 8123
    """
    import threading
    import webbrowser

    from replaydiff.replay.api.diff import require_graders
    from replaydiff.replay.errors import StoreMissingError
    from replaydiff.replay.view.server import serve
    from replaydiff.replay.view.site import Site

    store = app.store_path
    if not store.exists():
        raise StoreMissingError(
            f"there is no store at {store.absolute()}",
            hint="import traces with `replay import`, or name another with --db",
        )
    require_graders(app.settings)

    def opened(address: str) -> None:
        click.echo(address)
        if not no_browser:
            # In a thread: a browser in the terminal blocks until it is closed.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    try:
        serve(
            Site.of(app.project),
            port=port,
            plain_host=plain_host,
            first=_first_page(app, item, run_id),
            opened=opened,
        )
    except KeyboardInterrupt:
        # This is how a person ends it.
        return


def _first_page(app: App, item: str | None, run: str | None) -> str:
    """Return the path of the page to open.

    Raises:
        UnknownNameError: there is no such run, or no such item in it.
    """
    from urllib.parse import quote, urlencode

    if item is None:
        return "/" if run is None else f"/runs/{quote(run, safe='')}"
    replayed = cast("ReplayedItem", app.project.find(item, run=run or ""))
    return f"/runs/{quote(replayed.run, safe='')}?{urlencode({'item': replayed.item.id})}"
