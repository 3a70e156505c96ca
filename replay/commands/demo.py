"""`replay demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.commands.options import App, command
from replaydiff.replay.errors import ExitCode, InputError

if TYPE_CHECKING:
    from replaydiff.replay.demo.repository import DemoJudge

LIVE_JUDGE, LIVE_VOTES, LIVE_SIZE = "claude-sonnet-5-5", 1, 20


@command("demo")
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.option(
    "--serve",
    is_flag=True,
    help="Run only the model stand-in of an existing demo, until Ctrl-C or until the process that started it "
    "ends.",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(1, 65535),
    help="Of the stand-in in a new demo; default 8764, or a free one.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Call the real API (ANTHROPIC_API_KEY), which costs money, instead of the stand-in.",
)
@click.option("--yes", is_flag=True, help="With --live: spend without asking.")
def demo(_app: App, folder: Path | None, serve: bool, port: int | None, live: bool, yes: bool) -> ExitCode:
    """Do the whole job on bundled traces, with no credentials.

    Makes DIR (default ./replay-demo), a git repository with a support agent in two versions, and compares the
    two on two months of its traces: import, sample, run, diff, and a report for the browser. The model is a
    stand-in on this machine; no key is used, and nothing leaves the machine.

    A demo that is there is used again, with whatever you changed in it.

    \b
    Examples:
      replay demo
      replay demo --serve
    """
    from replaydiff.replay.demo import tour

    chosen = folder or (Path(f"{tour.FOLDER}-live") if live else tour.default_folder())
    if serve and live:
        raise InputError("--serve runs the stand-in and --live calls the real API", hint="give one of them")
    if serve:
        tour.serve(chosen)
        return ExitCode.OK
    if not live:
        return tour.run_with_stand_in(chosen, port)
    return _live(chosen, yes)


def _live(folder: Path, yes: bool) -> ExitCode:
    from replaydiff.replay.demo import tour
    from replaydiff.replay.demo.repository import DemoJudge
    from replaydiff.replay.llm.anthropic import check_credentials

    check_credentials()
    judge = DemoJudge(model=LIVE_JUDGE, votes=LIVE_VOTES)
    guess = _estimate(judge)
    limit = 2 * guess
    click.echo(
        f"The real API is called by both versions ({LIVE_SIZE} traces, 3 lanes, 3 trials) and by the judge "
        f"({LIVE_JUDGE}): about ${guess:.2f}, and no more than ${limit:.2f}."
    )
    if not yes:
        click.confirm("Go on?", abort=True)
    return tour.run_live(folder, judge, LIVE_SIZE, limit)


def _estimate(judge: DemoJudge) -> float:
    """Return the estimated US dollars: a recorded run for every trial, a usual call for every vote."""
    import gzip
    import json

    from replaydiff.replay.demo.repository import TRACES
    from replaydiff.replay.llm import prices
    from replaydiff.replay.model import Usage

    records = [json.loads(line) for line in gzip.decompress(TRACES.read_bytes()).splitlines()]
    trials = LIVE_SIZE * 3 * 3
    spent = [prices.cost(record["model"], Usage(**record["usage"])) or 0.0 for record in records]
    vote = prices.cost(judge.model, Usage(input_tokens=1500, output_tokens=400)) or 0.0
    return trials * (sum(spent) / len(spent) + judge.votes * vote)
