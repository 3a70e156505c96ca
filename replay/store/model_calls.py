"""What the model gateway recorded: each request of a trial to a model, with its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from replaydiff.replay.model import Lane, ModelCall, Usage
from replaydiff.replay.store import sql
from replaydiff.replay.store.rows import TableRows
from replaydiff.replay.store.sql import clean_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CALLS = TableRows(ModelCall, "model_calls")
_read_usage = sql.reader(Usage)


class Recorded(NamedTuple):
    """A recorded answer of a model, which can be served again."""

    status: int
    content_type: str
    body: bytes
    usage: Usage | None
    """As it was known then: an agent that did not ask for it got none."""


def write_model_calls(con: DuckDBPyConnection, calls: Sequence[ModelCall]) -> None:
    """Store recorded model calls; those that are stored already stay as they are."""
    _CALLS.insert(con, calls, "ON CONFLICT DO NOTHING")


def model_calls_of(con: DuckDBPyConnection, run_id: str, item_id: str) -> list[ModelCall]:
    """Return what was recorded of one item, by lane, trial and place."""
    chosen = "WHERE run_id = ? AND item_id = ? ORDER BY lane, trial, index"
    return _CALLS.select(con, chosen, [run_id, clean_text(item_id)])


def count_model_calls(con: DuckDBPyConnection, run_id: str) -> dict[Lane, int]:
    """Return how many requests each lane of a run made; lanes without one are left out."""
    rows = con.execute("SELECT lane, count(*) FROM model_calls WHERE run_id = ? GROUP BY lane", [run_id])
    return {Lane.parse(lane): count for lane, count in rows.fetchall()}


def latest_recorded(con: DuckDBPyConnection) -> str | None:
    """Return the newest run with recorded requests; None if there is none."""
    row = con.execute(
        "SELECT run_id FROM runs WHERE run_id IN (SELECT run_id FROM model_calls)"
        " ORDER BY created_at DESC, run_id DESC LIMIT 1"
    ).fetchone()
    return row[0] if row else None


def recorded_answers(
    con: DuckDBPyConnection, run_id: str, request_hash: str, trial: int, item_id: str, lane: Lane
) -> list[Recorded]:
    """Return the whole answers that a run got to a request in trials of this index, in order.

    Those of the same item and lane where there are some, else of the same item, else of any one trial.
    Errors of the provider count only where it gave nothing else.
    """
    rows = con.execute(
        "WITH same AS (SELECT *, dense_rank() OVER ("
        "  ORDER BY item_id = $item DESC, lane = $lane DESC, item_id, lane) AS place"
        " FROM model_calls WHERE run_id = $run AND request_hash = $hash AND trial = $trial"
        " AND response IS NOT NULL AND status IS NOT NULL)"
        " SELECT status, content_type, response, usage FROM same WHERE place = 1 ORDER BY index",
        {
            "run": run_id,
            "hash": request_hash,
            "trial": trial,
            "item": clean_text(item_id),
            "lane": str(lane),
        },
    ).fetchall()
    answers = [
        Recorded(status, kind or "application/json", text.encode(), _read_usage(usage) if usage else None)
        for status, kind, text, usage in rows
    ]
    return [answer for answer in answers if answer.status < 400] or answers
