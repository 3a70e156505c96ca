"""`replay traces`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from replay.errors import InputError
from replay.model import TraceState
from replay.options import App, command, json_option, print_json, say

if TYPE_CHECKING:
    from replay.store.listing import Listed
    from replay.store.rejects import StoredReject

_SHORTEST_ID = 12


@command("traces")
@click.option("--where", metavar="COND", help="Only traces that fit, like \"release = '2.1'\".")
@click.option("--month", metavar="YYYY-MM", help="Only traces that started in this month (UTC).")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many to list.")
@click.option("--rejects", is_flag=True, help="List the records that could not be imported, with the reason.")
@json_option
def traces(app: App, where: str | None, month: str | None, limit: int, rejects: bool, as_json: bool) -> None:
    """List the traces in the store.

    The newest come first. A condition is an SQL expression over the columns of a trace and over its
    metadata and scores: release, model, environment, user_id, tags, tools, tool_path, cost_usd,
    latency_ms, error, state (complete, incomplete, no_content), metadata.NAME, scores.NAME and more.

    \b
    Examples:
      replay traces
      replay traces --month 2026-10 --where "metadata.plan = 'gold' AND tools = 'cancel_order'"
      replay traces --rejects
    """
    from replay.store.connection import open_store

    if rejects and (where or month):
        raise InputError("--rejects lists records that are no traces; leave out --where and --month")
    with open_store(app.store_path, read_only=True) as con:
        if rejects:
            from replay.store.rejects import list_rejects

            _show_rejects(list_rejects(con), limit, as_json)
            return
        from replay.store.listing import list_traces

        listed, total = list_traces(con, where, month=month, limit=limit)
    if as_json:
        print_json([_document(trace) for trace in listed])
    elif listed:
        from replay.terminal.table import show

        show(_table(listed))
        _more(len(listed), total, "traces")
    else:
        say(
            "no traces fit; `replay traces` without conditions lists them all"
            if where or month
            else "the store has no traces yet; bring some in with `replay import`"
        )


def _document(trace: Listed) -> dict[str, Any]:
    return {**asdict(trace), "started_at": trace.started_at.isoformat()}


def _table(listed: Sequence[Listed]) -> str:
    from replay.terminal.table import Column, table, terminal_width

    width = terminal_width()
    size = _id_size([trace.trace_id for trace in listed])
    columns = (
        Column("TRACE"),
        Column("STARTED (UTC)"),
        Column("TOOLS", most=width // 4),
        Column("INPUT", grows=True, least=10),
    )
    rows = [
        (
            trace.trace_id[:size],
            f"{trace.started_at:%Y-%m-%d %H:%M}",
            trace.tool_path,
            _marked(trace),
        )
        for trace in listed
    ]
    return table(columns, rows, width)


def _marked(trace: Listed) -> str:
    """The input, after what a person should know of the trace first."""
    if trace.state == TraceState.NO_CONTENT:
        return "[no content]"
    mark = "[not ended] " if trace.state == TraceState.INCOMPLETE else "[error] " if trace.error else ""
    return mark + trace.input


def _id_size(ids: Sequence[str]) -> int:
    """How many characters tell these ids apart; `replay show` takes the beginning of an id."""
    longest = max(len(trace_id) for trace_id in ids)
    return next(
        (
            size
            for size in range(_SHORTEST_ID, longest)
            if len({trace_id[:size] for trace_id in ids}) == len(ids)
        ),
        longest,
    )


def _show_rejects(found: Sequence[StoredReject], limit: int, as_json: bool) -> None:
    if as_json:
        print_json([{**asdict(r), "rejected_at": r.rejected_at.isoformat()} for r in found[:limit]])
        return
    if not found:
        say("no record was rejected")
        return
    from replay.terminal.plain import one_line
    from replay.terminal.table import show

    for reject in found[:limit]:
        show(f"{one_line(reject.file)}:{reject.line}: {one_line(reject.reason)}")
    _more(min(limit, len(found)), len(found), "rejected records")


def _more(shown: int, total: int, what: str) -> None:
    if shown < total:
        say(f"{shown} of {total} {what}; --limit {total} lists them all")
