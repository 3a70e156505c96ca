"""A light view of traces: what a list shows, without messages and steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from replaydiff.replay.model import Score
from replaydiff.replay.store import bulk
from replaydiff.replay.store.where import guarded, selection

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SEARCHED = ("trace_id", "session_id", "user_id", "input", "final_response", "tool_path", "error")
_read_scores = bulk.reader(dict[str, Score])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line of a list; field names are those of a trace."""

    trace_id: str
    started_at: datetime
    state: str
    name: str | None
    session_id: str | None
    user_id: str | None
    environment: str | None
    release: str | None
    model: str | None
    tags: tuple[str, ...]
    tool_path: str
    input: str
    final_response: str | None
    cost_usd: float | None
    latency_ms: float | None
    error: str | None
    scores: dict[str, Score]


def list_traces(
    con: DuckDBPyConnection,
    where: str | None = None,
    *,
    month: str | None = None,
    text: str | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[Listed], int]:
    """The newest `limit` traces that fit, newest first, and how many fit altogether.

    With `text` only those that hold it, in any case of its letters: in their id, session, user, input,
    response, tool path or error. `offset` leaves out so many of the newest.

    Raises:
        InputError: the condition or the month cannot be used.
    """
    names = list(Listed.__dataclass_fields__)
    with guarded(con, where) as cursor:
        chosen, values = selection(cursor, where, month)
        if text:
            values["text"] = text.lower()
            held = " OR ".join(f"contains(lower({name}), $text)" for name in _SEARCHED)
            chosen = f"(SELECT * FROM {chosen}) AS traces WHERE {held}"
        rows = cursor.execute(
            f"SELECT {', '.join(names)} FROM {chosen} ORDER BY started_at DESC, trace_id"
            f" LIMIT {int(limit)} OFFSET {int(offset)}",
            values,
        ).fetchall()
        counted = cursor.execute(f"SELECT count(*) FROM {chosen}", values).fetchone()
    listed = []
    for row in rows:
        fields = dict(zip(names, row, strict=True))
        fields["tags"] = tuple(fields["tags"])
        fields["scores"] = _read_scores(fields["scores"])
        listed.append(Listed(**fields))
    return listed, int(counted[0]) if counted else 0
