"""`replay triage`."""

from __future__ import annotations

import sys

import click

from replaydiff.replay.options import App, command, json_option, print_json


@command("triage")
@click.argument("run", required=False)
@click.option("--list", "as_list", is_flag=True, help="Print the list; what a pipe gets, too.")
@click.option("--all", "everything", is_flag=True, help="Also the items that nothing speaks for.")
@click.option("--again", is_flag=True, help="Also what was skipped before.")
@json_option
def triage(app: App, run: str | None, as_list: bool, everything: bool, again: bool, as_json: bool) -> None:
    """Go through what changed or looks odd.

    RUN is a run's id or a unique beginning of it; without it, the latest run. Regressed items come first,
    then mixed ones, a judge that disagrees with itself, trials that did not finish, and odd ones: unlike
    every case or the rest of the month, bad scores, errors, loops, high cost. Near-duplicates are one entry.

    In a terminal one entry is shown at a time, with a key for each decision: promote, edit first, dismiss,
    label, skip, undo, quit. What was decided does not come again, so you go on where you stopped. Labels are
    for `replay calibrate`, and given without seeing what the judge said.

    \b
    Examples:
      replay triage
      replay triage 20261120-221305-ab12 --list
    """
    from replaydiff.cases.desk import Desk
    from replaydiff.cases.promote import person
    from replaydiff.cases.queue import document, queue, text
    from replaydiff.cases.session import Session
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import chosen_run
    from replaydiff.replay.terminal.table import show, terminal_width

    with open_store(app.store_path, read_only=True) as con:
        run = chosen_run(con, run).id
        found = queue(con, run, app.settings, everything=everything, again=again)
    if as_json:
        print_json(document(found))
    elif as_list or not found.entries or not (sys.stdin.isatty() and sys.stdout.isatty()):
        show(text(found, terminal_width()))
    else:
        desk = Desk(app.store_path, app.settings.golden_path, person(app.settings.root))
        Session(found, desk, app.settings).run()
