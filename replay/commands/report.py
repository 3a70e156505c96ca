"""`replay diff`: what changed between the lanes of a run, and whether to ship; `replay report`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from replaydiff.replay.commands.options import (
    App,
    candidate_option,
    command,
    gate_option,
    json_option,
    metrics_option,
    print_json_parts,
    say,
)
from replaydiff.replay.errors import ExitCode

_DIFF_EPILOG = """\b
Examples:
  replay diff
  replay diff --metric tool_calls --json
  replay diff --gate default
  replay diff --lane new2
  replay diff --gate 'regressed<=2' --gate 'tool_calls.delta>=-0.05'
"""


@command("diff", epilog=_DIFF_EPILOG)
@click.argument("run", required=False)
@metrics_option
@gate_option
@candidate_option
@click.option(
    "--verbose",
    is_flag=True,
    help="Show everything: versions, items, slices, all causes and warnings; with --json all cases.",
)
@json_option
def diff(
    app: App,
    run: str | None,
    metrics: tuple[str, ...],
    gate: tuple[str, ...],
    lane: str | None,
    verbose: bool,
) -> ExitCode:
    """Report which items improved or regressed, and whether to ship.

    Shown are the answer, its causes (what the new version does differently, each with an example), and the
    figures that decide. --verbose shows the rest.

    RUN is a run's id or a unique beginning of it; without it, the latest run. The first line is the answer:
    SHIP, HOLD or CAN'T TELL.

    Several new versions of a run are ranked; the answer, the gate and all figures below are for the one that
    ranks first, or for --lane.

    --json lists all cases of up to 10,000; of more, those that changed, and `cases_left_out` counts the
    others. --verbose lists them too.

    Without --gate (or a [gate] in replay.toml) the exit code is 0, or 3 if trials ended in errors. With one
    it is 0 if the gate held, 1 if it did not, and 4 if it could not be decided.
    """
    from replaydiff.reports import terminal

    diff_of_run = app.project.diff(run, metrics=metrics, gate=gate, lane=lane)
    if app.as_json:
        print_json_parts(diff_of_run.json_parts(is_bounded=not verbose))
    else:
        terminal.show(diff_of_run.result, brief=not verbose)
    return diff_of_run.exit_code


_REPORT_EPILOG = """\b
Examples:
  replay report
  replay report --format html -o report.html
  replay report 20261120-2213 --format markdown | gh pr comment 7 --body-file -
  replay report --format parquet -o cases.parquet
"""


@command("report", epilog=_REPORT_EPILOG)
@click.argument("run", required=False)
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    default="terminal",
    show_default=True,
    help="terminal, markdown, json, csv, parquet, junit or html; or a format that a package of yours adds.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write here; `-` is stdout. Without it html, junit and parquet go to replay-report-RUN.html (.xml).",
)
@metrics_option
@candidate_option
def report(
    app: App, run: str | None, format_: str, output: str | None, metrics: tuple[str, ...], lane: str | None
) -> None:
    """Write a run's report: terminal, HTML, Markdown, JSON, JUnit.

    RUN is a run's id or a unique beginning of it; without it, the latest run. The HTML report is one file
    that opens from disk, without a network. Markdown fits a pull request's comment and begins with a marker,
    by which a later run finds and updates it. CSV and Parquet have one row per case.
    """
    from replaydiff.replay.files import check_target
    from replaydiff.replay.terminal.text import encodable
    from replaydiff.reports import registry, terminal

    registry.find_format(format_)
    if output not in (None, "-"):
        check_target(Path(output))
    diff_of_run = app.project.diff(run, metrics=metrics, lane=lane)
    built_in = registry.BUILTIN.get(format_)
    if output is None and built_in and built_in.to_file:
        output = f"replay-report-{diff_of_run.run_id}{built_in.suffix}"
    if output is None and format_ == "terminal":
        terminal.show(diff_of_run.result)
        return
    if output not in (None, "-"):
        diff_of_run.save(output, format_, width=terminal.columns())
        say(f"{diff_of_run.answer}: {format_} report of run {diff_of_run.run_id} written to {output}")
        return
    for part in registry.parts(diff_of_run.result, format_, width=terminal.columns()):
        if isinstance(part, bytes):
            sys.stdout.buffer.write(part)
        else:
            sys.stdout.write(encodable(part, sys.stdout.encoding))
