"""`replay view`."""

from __future__ import annotations

import click

from replaydiff.replay.commands.options import App, command


@command("view")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of 127.0.0.1; default a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def view(app: App, port: int, no_browser: bool) -> None:
    """Show runs, traces and trends in a browser; triage there.

    A page on 127.0.0.1, for the browsers that are given its address: it has a token that nobody else knows.
    The store is read for each page and not held in between, so imports and runs go on; while a run holds the
    store, its page shows how far it is and its trials as they end. Triage promotes, edits and dismisses as
    `replay triage` does, and labels go into a sheet that `replay calibrate --read` reads. Ctrl-C ends it.

    \b
    Examples:
      replay view
      replay view --no-browser --port 8123
    """
    import threading
    import webbrowser

    from replaydiff.replay.errors import StoreMissingError
    from replaydiff.replay.view.server import serve
    from replaydiff.replay.view.site import Site

    store = app.store_path
    if not store.exists():
        raise StoreMissingError(
            f"there is no store at {store.absolute()}",
            hint="import traces with `replay import`, or name another with --db",
        )

    def opened(address: str) -> None:
        click.echo(address)
        if not no_browser:
            # In a thread: a browser in the terminal blocks until it is closed.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    try:
        serve(Site.of(app.project), port=port, opened=opened)
    except KeyboardInterrupt:
        # This is how a person ends it.
        return
