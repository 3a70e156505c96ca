"""`replay diff`: what changed between the lanes of a run, and whether to ship."""

from __future__ import annotations

import click

from replaydiff.replay.errors import ExitCode
from replaydiff.replay.options import (
    App,
    candidate_option,
    command,
    json_option,
    metrics_option,
    print_json,
    width_option,
)

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
    """Say which items improved or regressed, and whether to ship.

    RUN is a run's id or a unique beginning of it; without it, the latest run. The first line is the answer:
    SHIP, HOLD or CAN'T TELL.

    Of a run with several new versions all are ranked; the answer, the gate and all figures below are of the
    one that ranks first, or of --lane.

    Without --gate (or a [gate] in replay.toml) the exit code is 0, or 3 where trials errored. With one it is
    0 where the gate held, 1 where it did not, and 4 where it could not be decided.
    """
    from replaydiff.diff import gate as gates
    from replaydiff.diff.compute import compute
    from replaydiff.diff.document import to_json
    from replaydiff.diff.ranking import new_lane
    from replaydiff.replay.errors import worst_exit
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.runs import chosen_run
    from replaydiff.reports import terminal

    gates.check_form(gate)
    with open_store(app.store_path, read_only=True) as con:
        run = chosen_run(con, run).id
        result = compute(con, run, app.settings, metrics=metrics, gate=gate or None, candidate=new_lane(lane))
    if as_json:
        print_json(to_json(result))
    else:
        terminal.show(result, width=width)
    partial = ExitCode.PARTIAL if result.errors else ExitCode.OK
    return worst_exit([gates.exit_code(result.gate), partial])
