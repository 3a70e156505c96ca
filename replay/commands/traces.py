"""`replay traces` and `replay show`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaydiff.replay.commands.options import App, command, golden_option, json_option, say
from replaydiff.replay.model import TraceState

if TYPE_CHECKING:
    from replaydiff.replay.api.inspecting import ReplayedItem, TraceSummary
    from replaydiff.replay.model import Case, Trace, Trial
    from replaydiff.replay.terminal.transcript import Transcript

_SHORTEST_ID = 12


@command("traces")
@click.option("--where", metavar="COND", help="Only traces that match, like \"release = '2.1'\".")
@click.option("--month", metavar="YYYY-MM", help="Only traces of this month ([project] timezone).")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many to list.")
@json_option
def traces(app: App, where: str | None, month: str | None, limit: int) -> None:
    """List the traces in the store.

    The newest come first. A condition is an SQL expression over the columns of a trace and over its
    metadata and scores: release, model, environment, user_id, tags, tools, tool_path, cost_usd,
    latency_ms, error, state (complete, incomplete, no_content, media_missing), metadata.NAME, scores.NAME
    and more.

    \b
    Examples:
      replay traces
      replay traces --month 2026-10 --where "metadata.plan = 'gold' AND tools = 'cancel_order'"
    """
    listed, total = app.project.traces(where=where, month=month, limit=limit)
    if app.printed_json([_document(trace) for trace in listed]):
        return
    if listed:
        from replaydiff.replay.terminal.text import show

        show(_table(listed))
        if len(listed) < total:
            say(f"{len(listed)} of {total} traces; --limit {total} lists them all")
    else:
        say(
            "no traces match; `replay traces` without conditions lists them all"
            if where or month
            else "the store has no traces yet; import some with `replay import`"
        )


def _document(trace: TraceSummary) -> dict[str, Any]:
    return {**asdict(trace), "started_at": trace.started_at.isoformat()}


def _table(listed: Sequence[TraceSummary]) -> str:
    from replaydiff.replay.terminal.text import Column, table, terminal_width

    width = terminal_width()
    size = _id_size([trace.trace_id for trace in listed])
    columns = (
        Column("TRACE"),
        Column("STARTED (UTC)"),
        Column("TOOLS", most=width // 4),
        Column("INPUT", grows=True, least=10),
    )
    rows = [
        (trace.trace_id[:size], f"{trace.started_at:%Y-%m-%d %H:%M}", trace.tool_path, _marked(trace))
        for trace in listed
    ]
    return table(columns, rows, width)


def _marked(trace: TraceSummary) -> str:
    """Return the input, after notes about the trace."""
    if trace.state == TraceState.NO_CONTENT:
        return "[no content]"
    mark = "[not ended] " if trace.state == TraceState.INCOMPLETE else "[error] " if trace.error else ""
    return mark + trace.input


def _id_size(ids: Sequence[str]) -> int:
    """Return how many characters distinguish these ids; `replay show` takes the beginning of an id."""
    longest = max(len(trace_id) for trace_id in ids)
    return next(
        (
            size
            for size in range(_SHORTEST_ID, longest)
            if len({trace_id[:size] for trace_id in ids}) == len(ids)
        ),
        longest,
    )


@command("show")
@click.argument("name", metavar="ID")
@click.option("--run", metavar="RUN", help="Show the item of this run, with its trials.")
@click.option("--lane", metavar="LANE", help="Only trials of this lane: old, new, old2, new2 …")
@click.option("--trial", type=click.IntRange(1), metavar="N", help="Only the Nth trial of each lane.")
@golden_option
@click.option("-v", "--verbose", "full", is_flag=True, help="Show long texts to their end.")
@json_option
def show(app: App, /, name: str, path: Path | None, full: bool, **chosen: Any) -> None:
    """Show a trace, trial or case as a readable transcript.

    With --run it is the item of that run: what was recorded, then each trial with the rule that answered its
    tool calls, misses explained, what it asked its model (where that was recorded: `[run] record`),
    and the judge's grades. Else a trace of the store, else a case.

    \b
    Examples:
      replay show 3f9a21
      replay show 3f9a21 --run 20261120-221305-ab12 --lane new
    """
    from replaydiff.replay.api.inspecting import ReplayedItem
    from replaydiff.replay.model.json import to_json_value
    from replaydiff.replay.terminal.text import show as put
    from replaydiff.replay.terminal.text import terminal_width
    from replaydiff.replay.terminal.transcript import Transcript

    shown = app.project.find(name, cases=path, **chosen)
    if not app.printed_json(lambda: to_json_value(shown)):
        put(transcript_text(shown, Transcript(terminal_width(), full=full)))
        if isinstance(shown, ReplayedItem) and shown.origin is not None and shown.trials:
            put(_beside_origin(shown, shown.origin, terminal_width()))


def _beside_origin(forked: ReplayedItem, origin: Trial, width: int) -> str:
    """Return the trial that was forked beside the first trial of its fork."""
    from replaydiff.replay.terminal.lanes import lanes
    from replaydiff.replay.terminal.text import single_line

    name = f"{single_line(origin.item_id, 60)} of run {origin.run_id}, {origin.lane} trial {origin.index + 1}"
    return "\n".join(["", f"forked from {name}; origin and fork:", *lanes(origin, forked.trials[0], width)])


def transcript_text(shown: Trace | Case | ReplayedItem, transcript: Transcript) -> str:
    """Return a trace, a case, or an item with its trials as text."""
    from replaydiff.replay.model import Case, Trace

    if isinstance(shown, Trace):
        return transcript.trace(shown)
    if isinstance(shown, Case):
        return transcript.case(shown)
    grades: dict[tuple[str, int], list[str]] = {}
    for grade in shown.grades:
        score = grade.state.value if grade.score is None else f"{grade.score:.2f}"
        line = f"{grade.grader} {score}: {grade.reason or ''}"
        grades.setdefault((str(grade.lane), grade.trial), []).append(line)
    return transcript.item(shown.item, shown.trials, grades, shown.model_calls)
