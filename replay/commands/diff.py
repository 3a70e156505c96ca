"""`replay diff`: what changed between the lanes of a run, and whether to ship."""

from __future__ import annotations

import click

from replaydiff.replay.commands.options import (
    App,
    candidate_option,
    command,
    json_option,
    metrics_option,
    print_json,
    width_option,
)
from replaydiff.replay.errors import ExitCode

_EPILOG = """\b
Examples:
  replay diff
  replay diff --metric tool_calls --json
  replay diff --gate default
  replay diff --lane new2
  replay diff --gate 'regressed<=2' --gate 'tool_calls.delta>=-0.05'
"""


@command("diff", epilog=_EPILOG)
@click.argument("run", required=False)
@metrics_option
@click.option(
    "--gate",
    metavar="EXPR",
    multiple=True,
    help="'default', or a condition such as 'regressed<=2' (repeatable): decides the exit code.",
)
@candidate_option
@width_option
@json_option
def diff(
    app: App,
    run: str | None,
    metrics: tuple[str, ...],
    gate: tuple[str, ...],
    lane: str | None,
    width: int | None,
    as_json: bool,
) -> ExitCode:
    """Report which items improved or regressed, and whether to ship.

    RUN is a run's id or a unique beginning of it; without it, the latest run. The first line is the answer:
    SHIP, HOLD or CAN'T TELL.

    Several new versions of a run are ranked; the answer, the gate and all figures below are for the one that
    ranks first, or for --lane.

    Without --gate (or a [gate] in replay.toml) the exit code is 0, or 3 if trials ended in errors. With one
    it is 0 if the gate held, 1 if it did not, and 4 if it could not be decided.
    """
    from replaydiff.reports import terminal

    found = app.project.diff(run, metrics=metrics, gate=gate, lane=lane)
    if as_json:
        print_json(found.to_dict())
    else:
        terminal.show(found.result, width=width)
    return found.exit_code
