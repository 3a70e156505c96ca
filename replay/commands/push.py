"""`replay push langfuse`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.errors import ExitCode, InputError
from replaydiff.replay.options import App, command, json_option, print_json, say

if TYPE_CHECKING:
    from replaydiff.cases.push import Pushed
    from replaydiff.cases.push_records import DatasetItem
    from replaydiff.diff.result import DiffResult

_EPILOG = """\b
Examples:
  replay push langfuse
  replay push langfuse 20261120-2213
  replay push langfuse 20261120-2213 --dataset refunds
"""
_SHOWN = 20


@command("push", epilog=_EPILOG)
@click.argument("target", type=click.Choice(["langfuse"]))
@click.argument("run", required=False)
@click.option(
    "--dataset",
    metavar="NAME",
    help="The Langfuse dataset; default replay-SAMPLE, or replay- and the name of the golden set.",
)
@click.option(
    "--cases",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The golden set; default the one the run replayed, else [cases] path.",
)
@json_option
def push(
    app: App, target: str, run: str | None, dataset: str | None, path: Path | None, as_json: bool
) -> ExitCode:
    """Send the golden set or a run's result to Langfuse.

    Without RUN, the cases become the items of a dataset, linked to the traces they were promoted from. With
    RUN, what it replayed is the dataset, each lane an experiment over it, each trial a trace with its tool
    calls, and grades, verdicts and the answer are scores.

    Sending the same again changes nothing. What is sent holds inputs and answers; nothing is ever sent but
    by this command. The keys are LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL.

    Exit code 3 says that a part was not taken; sending again goes on with it.
    """
    from replaydiff.cases.push import push as send
    from replaydiff.cases.push_channel import address, open_channel
    from replaydiff.replay.langfuse_keys import LangfuseKeys

    keys = LangfuseKeys.from_environment()
    shown = address(keys)
    result = _result(app, run) if run else None
    name, rows = _rows(app, result, dataset, path)
    with open_channel(keys) as channel:
        pushed = send(channel, name, rows, result)
    if as_json:
        print_json(_document(target, shown, name, result, pushed))
    else:
        _tell(shown, name, pushed)
    if pushed.complete:
        return ExitCode.OK
    return ExitCode.PARTIAL if pushed.sent or pushed.unchanged else ExitCode.WRONG_INPUT


def _result(app: App, run: str) -> DiffResult:
    from replaydiff.diff.compute import compute
    from replaydiff.replay.store.connection import open_store

    with open_store(app.store_path, read_only=True) as con:
        return compute(con, run, app.settings)


def _rows(
    app: App, result: DiffResult | None, dataset: str | None, path: Path | None
) -> tuple[str, list[DatasetItem]]:
    """The dataset's name and items: the golden set as it is now, and what a run replayed beside it."""
    from replaydiff.cases.push_records import of_case, of_item
    from replaydiff.replay.golden import read_golden

    if result is None:
        golden = path or app.settings.golden_path
        cases = read_golden(golden)
        if not cases:
            raise InputError(f"{golden} has no cases; make some with `replay promote`")
        name = dataset or f"replay-{golden.stem}"
        return name, [of_case(name, case) for case in cases]
    if not result.items:
        raise InputError(f"run {result.run.id} has no finished item to send; `replay run --resume` goes on")
    replayed = Path(result.run.golden_path) if result.run.golden_path else None
    name = dataset or f"replay-{replayed.stem if replayed else result.run.sample or result.run.id}"
    held_against = path or replayed
    cases = read_golden(held_against) if held_against and held_against.exists() else []
    known = {case.id: of_case(name, case) for case in cases}
    return name, [
        (known.get(verdict.item.case_id) if verdict.item.case_id else None) or of_item(name, verdict.item)
        for verdict in result.items
    ]


def _tell(shown: str, dataset: str, pushed: Pushed) -> None:
    from replaydiff.replay.terminal.plain import one_line

    sent = ", ".join(f"{count:,} {what}" for what, count in pushed.sent.items())
    there = ", ".join(f"{count:,} {what}" for what, count in pushed.unchanged.items())
    if sent:
        click.echo(
            f"sent to dataset {dataset!r} at {shown}: {sent}" + (f"; there already: {there}" if there else "")
        )
    elif pushed.complete:
        click.echo(f"nothing changed in dataset {dataset!r} at {shown}: {there} are there already")
    for name in pushed.experiments:
        click.echo(f"experiment: {one_line(name)}")
    for what, why in pushed.refused[:_SHOWN]:
        say(f"not taken: {one_line(what)}: {one_line(why)}")
    if len(pushed.refused) > _SHOWN:
        say(f"not taken: {len(pushed.refused) - _SHOWN} more; --json lists them all")
    if pushed.stopped:
        say(f"stopped: {one_line(pushed.stopped)}; what went before stays, run it again to go on")


def _document(
    target: str, shown: str, dataset: str, result: DiffResult | None, pushed: Pushed
) -> dict[str, object]:
    return {
        "target": target,
        "address": shown,
        "dataset": dataset,
        "run": result.run.id if result else None,
        "experiments": pushed.experiments,
        "sent": {what.replace(" ", "_"): count for what, count in pushed.sent.items()},
        "unchanged": {what.replace(" ", "_"): count for what, count in pushed.unchanged.items()},
        "not_taken": [{"what": what, "why": why} for what, why in pushed.refused],
        "stopped": pushed.stopped,
    }
