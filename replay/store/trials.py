"""Trials in the store: each once. Only a cancelled one, which never counted, gives way to its repetition."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from replaydiff.replay.model import Blocked, Lane, Rule, Status, Trial
from replaydiff.replay.store import sql
from replaydiff.replay.store.connection import in_transaction
from replaydiff.replay.store.memory import all_rows
from replaydiff.replay.store.rows import TableRows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TRIALS = TableRows(
    Trial,
    "trials",
    key=("run_id", "item_id", "lane", "index"),
    sparse=("turns", "blocked", "files"),
    shared=("scores",),
)
_read_blocked = sql.reader(tuple[Blocked, ...])


def write_trials(con: DuckDBPyConnection, trials: Sequence[Trial]) -> None:
    """Keep trials, all or none; one that is there already stays as it is."""
    import duckdb

    first: dict[tuple[str, str, str, int], Trial] = {}
    for trial in trials:
        key = (trial.run_id, trial.item_id, str(trial.lane), trial.index)
        if key not in first or first[key].status is Status.CANCELLED:
            first[key] = trial
    if not in_transaction(con):
        # Mostly none is there, and looking for each takes DuckDB as long as all the rest of the statement.
        with suppress(duckdb.ConstraintException):
            TRIALS.insert(con, first.values())
            return
    TRIALS.insert(con, first.values(), f"{TRIALS.replace} WHERE trials.status = '{Status.CANCELLED}'")


def trials_of(con: DuckDBPyConnection, run_id: str, item_id: str) -> list[Trial]:
    """Return the trials of one item, by lane and index."""
    return TRIALS.select(con, "WHERE run_id = ? AND item_id = ? ORDER BY lane, index", [run_id, item_id])


def finished_keys(con: DuckDBPyConnection, run_id: str) -> set[tuple[str, str, int]]:
    """Return item id, lane and index of every trial that need not be repeated: all but the cancelled ones."""
    rows = con.execute(
        "SELECT item_id, lane, index FROM trials WHERE run_id = ? AND status <> ?",
        [run_id, Status.CANCELLED.value],
    ).fetchall()
    return {(item_id, lane, index) for item_id, lane, index in rows}


def set_aside(
    con: DuckDBPyConnection, run_id: str, lanes: Collection[Lane], statuses: Collection[Status]
) -> int:
    """Mark the trials that ended so as cancelled, so that they are replayed; return how many there are.

    Their grades and recorded requests to models go: the repetition brings its own. The run counts as
    unfinished again.
    """
    chosen = "run_id = $run AND list_contains($lanes, lane) AND list_contains($statuses, status)"
    values = {"run": run_id, "lanes": [str(lane) for lane in lanes], "statuses": [s.value for s in statuses]}
    [(count,)] = con.execute(f"SELECT count(*) FROM trials WHERE {chosen}", values).fetchall()
    for table in ("grades", "model_calls"):
        con.execute(
            f"DELETE FROM {table} WHERE (run_id, item_id, lane, trial) IN"
            f" (SELECT (run_id, item_id, lane, index) FROM trials WHERE {chosen})",
            values,
        )
    cancelled = {**values, "cancelled": Status.CANCELLED.value}
    con.execute(f"UPDATE trials SET status = $cancelled WHERE {chosen}", cancelled)
    if count:
        con.execute("UPDATE runs SET finished_at = NULL WHERE run_id = ?", [run_id])
    return int(count)


def count_statuses(con: DuckDBPyConnection, run_id: str) -> dict[Lane, dict[Status, int]]:
    """Return how the trials of each lane of a run ended."""
    counts: dict[Lane, dict[Status, int]] = {}
    for lane, status, count in con.execute(
        "SELECT lane, status, count(*) FROM trials WHERE run_id = ? GROUP BY ALL", [run_id]
    ).fetchall():
        counts.setdefault(sql.stored(Lane.parse, lane), {})[sql.stored(Status, status)] = count
    return {
        lane: {status: ended[status] for status in Status if status in ended}
        for lane, ended in counts.items()
    }


class Failure(NamedTuple):
    """What trials of a lane failed with, and how many of them."""

    lane: Lane
    status: Status
    reason: str
    trials: int


def frequent_failures(con: DuckDBPyConnection, run_id: str, most: int) -> list[Failure]:
    """Return the most frequent reasons for which trials of a run have no result, the most frequent first."""
    rows = con.execute(
        "SELECT lane, status, reason, count(*) AS trials FROM trials"
        " WHERE run_id = ? AND reason IS NOT NULL AND status <> ? GROUP BY ALL"
        " ORDER BY trials DESC, lane, status, reason LIMIT ?",
        [run_id, Status.OK.value, most],
    ).fetchall()
    return [
        Failure(sql.stored(Lane.parse, lane), sql.stored(Status, status), reason, trials)
        for lane, status, reason, trials in rows
    ]


def count_blocked(con: DuckDBPyConnection, run_id: str) -> dict[Lane, dict[Blocked, int]]:
    """Return what boundaries kept from happening in a run and in how many trials, the most frequent first."""
    counts: dict[Lane, dict[Blocked, int]] = {}
    events: dict[tuple[str, Blocked], int] = {}
    for lane, text in con.execute(
        "SELECT lane, blocked FROM trials WHERE run_id = ? AND blocked IS NOT NULL", [run_id]
    ).fetchall():
        for event in set(_read_blocked(text)):
            events[lane, event] = events.get((lane, event), 0) + 1
    for (lane, event), count in sorted(events.items(), key=lambda entry: (-entry[1], str(entry[0][1]))):
        counts.setdefault(Lane.parse(lane), {})[event] = count
    return counts


def spent_usd(con: DuckDBPyConnection, run_id: str, lanes: Collection[Lane]) -> float | None:
    """Return the known total cost of these lanes' trials; None if none has a cost."""
    row = con.execute(
        "SELECT sum(cost_usd) FROM trials WHERE run_id = ? AND lane IN (SELECT unnest(?::VARCHAR[]))",
        [run_id, list(lanes)],
    ).fetchone()
    return row[0] if row else None


def spent_tokens(con: DuckDBPyConnection, run_id: str, lanes: Collection[Lane]) -> int:
    """Return what the agents of these lanes read and wrote together, as far as they report it."""
    [(tokens,)] = con.execute(
        "SELECT sum((usage->>'$.input_tokens')::HUGEINT + (usage->>'$.output_tokens')::HUGEINT)"
        " FROM trials WHERE run_id = ? AND lane IN (SELECT unnest(?::VARCHAR[]))",
        [run_id, list(lanes)],
    ).fetchall()
    return int(tokens or 0)


def unpatched_calls(con: DuckDBPyConnection, run_id: str, lane: Lane) -> list[tuple[str, str]]:
    """Return item id and tool name of every call in a lane that ran for real, allowed or not."""
    rows = con.execute(
        "SELECT item_id, made->>'$.call.name'"
        " FROM (SELECT item_id, unnest(served->'$[*]') AS made FROM trials WHERE run_id = ? AND lane = ?)"
        " WHERE made->>'$.rule' = ? ORDER BY ALL",
        [run_id, str(lane), Rule.LIVE.value],
    ).fetchall()
    return [(str(item_id), str(name)) for item_id, name in rows]


def unasked_tools(con: DuckDBPyConnection, run_id: str, lane: Lane, tools: Collection[str]) -> dict[str, int]:
    """Return the tools that a lane never called, with how often its replayed items recorded them."""
    rows = con.execute(
        "WITH replayed AS (SELECT item_id, served FROM trials WHERE run_id = $run AND lane = $lane)"
        " SELECT name, count(*) FROM (SELECT unnest(item->>'$.tape[*].name') AS name FROM run_items"
        " WHERE run_id = $run AND item_id IN (SELECT item_id FROM replayed))"
        " WHERE name IN (SELECT unnest($tools::VARCHAR[])) AND name NOT IN"
        " (SELECT unnest(served->>'$[*].call.name') FROM replayed) GROUP BY ALL ORDER BY ALL",
        {"run": run_id, "lane": str(lane), "tools": list(tools)},
    ).fetchall()
    return {str(name): int(count) for name, count in rows}


def content_hashes(con: DuckDBPyConnection, run_ids: Collection[str]) -> set[str]:
    """Return the SHA-256 of each file that a trial of these runs wrote and whose content is kept."""
    rows = all_rows(
        con,
        "SELECT DISTINCT json_extract_string(file.value, '$.sha256')"
        " FROM trials, json_each(trials.files) AS file"
        " WHERE run_id IN (SELECT unnest($1)) AND json_extract(file.value, '$.has_content')::BOOLEAN",
        [list(run_ids)],
    )
    return {digest for (digest,) in rows}
