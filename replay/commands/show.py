"""`replay show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replaydiff.replay.errors import StoreMissingError, UnknownNameError
from replaydiff.replay.options import App, command, json_option, print_json


@command("show")
@click.argument("name", metavar="ID")
@click.option("--run", "run_id", metavar="RUN", help="Show the item of this run, with its trials.")
@click.option("--lane", metavar="LANE", help="Only trials of this lane: old, new, old2, new2 …")
@click.option("--trial", type=click.IntRange(1), metavar="N", help="Only the Nth trial of each lane.")
@click.option(
    "--cases", "path", type=click.Path(path_type=Path), help="The golden set; default [cases] path."
)
@click.option("--full", is_flag=True, help="Show long texts to their end.")
@json_option
def show(
    app: App,
    name: str,
    run_id: str | None,
    lane: str | None,
    trial: int | None,
    path: Path | None,
    full: bool,
    as_json: bool,
) -> None:
    """Show a trace, trial or case as a readable transcript.

    With --run it is the item of that run: what was recorded, then each trial with the rule that answered its
    tool calls, misses explained, what it asked its model (where that was recorded: `replay run --record`),
    and the judge's grades. Else a trace of the store, else a case.

    \b
    Examples:
      replay show 3f9a21
      replay show 3f9a21 --run 20261120-221305-ab12 --lane new
    """
    import msgspec

    from replaydiff.replay.model import Lane
    from replaydiff.replay.terminal.table import show as put
    from replaydiff.replay.terminal.table import terminal_width
    from replaydiff.replay.terminal.transcript import Transcript

    if lane is not None and lane not in {known.value for known in Lane}:
        raise UnknownNameError("lane", lane, [known.value for known in Lane])
    transcript = Transcript(terminal_width(), full=full)
    found, text = _find(app, name, run_id or ("" if lane or trial else None), lane, trial, path, transcript)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        put(text)


def _find(
    app: App,
    name: str,
    run_id: str | None,
    lane: str | None,
    trial: int | None,
    path: Path | None,
    transcript: Any,
) -> tuple[Any, str]:
    from replaydiff.replay.golden import read_golden
    from replaydiff.replay.store.connection import open_store
    from replaydiff.replay.store.traces import get_trace

    if run_id is not None:
        with open_store(app.store_path, read_only=True) as con:
            return _item(con, name, run_id, lane, trial, transcript)
    golden = path or app.settings.golden_path
    cases = {case.id: case for case in read_golden(golden)} if golden.exists() else {}
    missing: Exception | None = None
    if path is None:
        try:
            with open_store(app.store_path, read_only=True) as con:
                trace = get_trace(con, name)
            return trace, transcript.trace(trace)
        except (UnknownNameError, StoreMissingError) as error:
            missing = error
    if name in cases:
        return cases[name], transcript.case(cases[name])
    raise missing or UnknownNameError("case", name, cases)


def _item(
    con: Any, name: str, run_id: str, lane: str | None, trial: int | None, transcript: Any
) -> tuple[Any, str]:
    from replaydiff.replay.store.grades import iter_grades
    from replaydiff.replay.store.model_calls import model_calls_of
    from replaydiff.replay.store.runs import chosen_run, get_item
    from replaydiff.replay.store.trials import trials_of

    run = chosen_run(con, run_id)
    item = get_item(con, run.id, name)
    trials = [
        one
        for one in trials_of(con, run.id, item.id)
        if lane in (None, one.lane.value) and trial in (None, one.index + 1)
    ]
    grades: dict[tuple[str, int], list[str]] = {}
    stored = [grade for grade in iter_grades(con, run.id) if grade.item_id == item.id]
    for grade in stored:
        score = grade.state.value if grade.score is None else f"{grade.score:.2f}"
        line = f"{grade.grader} {score}: {grade.reason or ''}"
        grades.setdefault((grade.lane.value, grade.trial), []).append(line)
    kept = {(one.lane, one.index) for one in trials}
    asked = [call for call in model_calls_of(con, run.id, item.id) if (call.lane, call.trial) in kept]
    document = {"run": run.id, "item": item, "trials": trials, "grades": stored, "model_calls": asked}
    return document, transcript.item(item, trials, grades, asked)
