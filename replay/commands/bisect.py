"""`replay bisect`."""

from __future__ import annotations

from typing import Any

import click

from replaydiff.replay.api.options import RunOptions
from replaydiff.replay.commands.options import App, command, json_option, say
from replaydiff.replay.commands.run import LATEST, cases_option, golden_of, resume_option, run_options
from replaydiff.replay.errors import ExitCode
from replaydiff.replay.terminal.text import show, terminal_width


@command("bisect")
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@click.option("--good", metavar="REF", help="A revision where the items still pass, or a name of [versions].")
@click.option("--bad", metavar="REF", help="A later revision where they fail, or a name of [versions].")
@click.option(
    "--run",
    "run_id",
    is_flag=False,
    flag_value=LATEST,
    metavar="[RUN]",
    help="The items of this run that regressed; bare or by default: of the latest run.",
)
@cases_option
@click.option("--cause", metavar="CAUSE", help="The items of this cause of the run; showing it is a failure.")
@click.option("--metric", metavar="NAME", help="What an item must pass; default all that cost nothing.")
@click.option("--hunks", is_flag=True, help="Then find which hunks of the commit reproduce the change.")
@click.option(
    "--settings",
    is_flag=True,
    help="Find which of the settings that differ between the versions make items worse.",
)
@click.option(
    "--calls",
    "max_trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="The most replays of the agent; default 600.",
)
@run_options("concurrency", "budget", "no_boundary")
@resume_option
@click.option("-o", "--output", metavar="FILE", help="Also write the report: .json, .md or .txt.")
@json_option
def bisect(
    app: App,
    /,
    options: RunOptions,
    run_id: str | None,
    cases: str | None,
    resume: str | None,
    output: str | None,
    **search: Any,
) -> ExitCode:
    """Find the commit that made items worse, then its hunks.

    Items are replayed with recorded tools at commits between two revisions, each in a private checkout. An
    agent may also fail by chance: more trials run where they are most informative, until one commit has
    a probability of 95 %. A commit that does not start is skipped. Ends with 4 where that cannot be reached.
    ITEMs are the only ones that are replayed; by default those that regressed.

    \b
    Examples:
      replay bisect --good v1.4.0 --bad main
      replay bisect --good v1 --bad v2 --cases cases/golden.jsonl --hunks
      replay bisect --good v1 --bad v2 --cause c1a2b3c4d
      replay bisect --good prod --bad candidate --settings
      replay bisect --resume
    """
    bisection = app.project.bisect(
        run=run_id or None,
        cases=golden_of(cases),
        resume=resume if resume is None else resume or True,
        **search,
        **options,
    )
    if output is not None:
        bisection.save(output)
        say(f"report written to {output}")
    if not app.printed_json(bisection.to_dict):
        show(bisection.to_text(terminal_width()))
    if not bisection.finished:
        say(f"next: replay bisect --resume {bisection.run} with a larger --budget")
    return bisection.exit_code
