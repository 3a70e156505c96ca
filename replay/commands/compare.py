"""`replay compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from replaydiff.replay.api.options import RunOptions
from replaydiff.replay.api.sampling import LATEST, SampleOptions
from replaydiff.replay.commands.options import App, command, gate_option, json_option, say
from replaydiff.replay.commands.run import cases_option, golden_of, run_options
from replaydiff.replay.errors import ExitCode, worst_exit

_EPILOG = """\b
Examples:
  replay compare --month --old prod --new candidate
  replay compare --month --old prod --new candidate --calls 450
  replay compare --cases --old git:v1.4.0 --new . --gate default -o report.html
  replay compare --cases golden.jsonl --pair-by metadata.task_id --metric tool_calls \\
      --old "observed:release = '2.0'" --new "observed:release = '2.1'"
"""


@command("compare", epilog=_EPILOG)
@click.option("--sample", metavar="NAME", help="Compare on this sample, drawn before.")
@cases_option
@click.option(
    "--month",
    is_flag=False,
    flag_value=LATEST,
    metavar="[YYYY-MM]",
    help="Draw a sample of this month first; without a value (and by default): the latest complete month.",
)
@click.option("--size", type=int, help="How many traces to draw; default 100, or what --calls pays for.")
@click.option("--where", metavar="COND", help="Draw only traces that fit, like \"release = '2.1'\".")
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Show this metric (repeatable): score:NAME …"
)
@gate_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Also write a report here; .html, .md, .json, .csv, .parquet or .xml names the format.",
)
@run_options(
    "old", "new", "trials", "calls", "aa", "until_known", "continues", "budget", "no_boundary", "pair_by",
    "judge",
)  # fmt: skip
@json_option
def compare(
    app: App,
    options: RunOptions,
    sample: str | None,
    cases: str | None,
    metrics: tuple[str, ...],
    gate: tuple[str, ...],
    output: str | None,
    **draw: Unpack[SampleOptions],
) -> ExitCode:
    """Sample, run, diff and report in one.

    The comparison before a release: both versions replay the same items, and the report shows what changed
    and whether to ship; `replay diff --verbose` shows the rest. The run stays in the store for `diff`,
    `report` and `show`. With observed versions on both sides nothing is run: the recordings are compared.
    Every other setting of replay.toml can be set for one comparison: --set run.concurrency=20.
    """
    from replaydiff.replay.files import check_target
    from replaydiff.reports import registry, terminal

    if output is not None:
        registry.format_of(Path(output))
        check_target(Path(output))
    run, diff = app.project.compare(
        sample, cases=golden_of(cases), draw=draw, metrics=metrics, gate=gate, **options
    )
    if output is not None:
        diff.save(output)
        say(f"report of run {run.id} written to {output}")
    if not app.printed_json(diff.to_dict):
        terminal.show(diff.result, brief=True)
    return worst_exit([diff.exit_code, run.exit_code])
