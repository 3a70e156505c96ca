"""Runs and their items. A run is never rewritten: only its looks and `finished_at` come later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.interruption import interruptible
from replaydiff.replay.masking import masked_version
from replaydiff.replay.model import Item, Lane, Look, RunRecord, Version
from replaydiff.replay.store import sql
from replaydiff.replay.store.connection import transaction
from replaydiff.replay.store.memory import all_rows
from replaydiff.replay.store.rows import TableRows
from replaydiff.replay.store.sql import clean_text, encode, resolve

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_RUNS = TableRows(RunRecord, "runs", columns={"id": "run_id"})
_ITEM = {
    "run_id": "VARCHAR",
    "item_id": "VARCHAR",
    "position": "INTEGER",
    "trace_id": "VARCHAR",
    "case_id": "VARCHAR",
    "stratum": "VARCHAR",
    "weight": "DOUBLE",
    "item": "VARCHAR",
}
_READ_BATCH = 200
"""Items that are read first. Each batch scans the table, so later ones are larger, up to `_READ_BYTES`."""
_READ_BYTES = 4 * 2**20
_WRITE_BATCH = 2000
"""Items that are written at a time, if they have no more than `_WRITE_BYTES` of text."""
_WRITE_BYTES = 4 * 2**20
_CLOCK_WENT_BACK = timedelta(days=1)
EXPERIMENT = "experiment"
"""Key of the settings of a run whose lanes are not to be compared: those of a bisection or a fork."""
_HINT = "start one with `replay run` or `replay compare`"

read_item = sql.reader(Item)


def create_run(con: DuckDBPyConnection, run: RunRecord, items: Iterable[Item]) -> None:
    """Keep a run and a copy of its items, in the order given. Memory stays flat, whatever their number.

    The run itself is written last, so a run that can be seen has all its items. Values of environment
    variables are not stored, only their names.

    Raises:
        InputError: two items have one id, or there is no item at all.
    """
    item_ids: set[str] = set()
    rows: list[tuple[Any, ...]] = []
    length = 0
    for position, item in enumerate(items):
        if item.id in item_ids:
            raise InputError(f"two items of the run have the id {item.id!r}; ids must be unique")
        item_ids.add(item.id)
        text = encode(item)
        length += len(text)
        rows.append(
            (
                run.id,
                clean_text(item.id),
                position,
                item.trace_id,
                item.case_id,
                clean_text(item.stratum),
                item.weight,
                text,
            )
        )
        if len(rows) >= _WRITE_BATCH or length >= _WRITE_BYTES:
            sql.insert(con, "run_items", _ITEM, rows)
            rows, length = [], 0
    sql.insert(con, "run_items", _ITEM, rows)
    if not item_ids:
        raise InputError("there is nothing to replay: the sample or golden set has no items")
    stored = replace(run, lanes=_masked_lanes(run), created_at=_after_others(con, run.created_at))
    _RUNS.insert(con, [stored])


def _after_others(con: DuckDBPyConnection, created_at: datetime) -> datetime:
    """Return when a run was made: after all others, also where the clock went back, by a day at most."""
    row = con.execute("SELECT max(created_at) FROM runs").fetchone()
    newest: datetime | None = row[0] if row else None
    if newest is None or not timedelta() <= newest - created_at < _CLOCK_WENT_BACK:
        return created_at
    return newest + timedelta(microseconds=1)


def get_run(con: DuckDBPyConnection, run_id: str) -> RunRecord:
    """Return a run by its id or a unique prefix of at least six characters.

    Raises:
        UnknownNameError: there is none.
        InputError: several begin with it.
    """
    full = resolve(con, "runs", "run_id", run_id, "run", _HINT)
    return _RUNS.select(con, "WHERE run_id = ?", [full])[0]


def latest_run(
    con: DuckDBPyConnection,
    *,
    finished: bool | None = None,
    compared: bool = False,
    experiment: str | None = None,
) -> RunRecord | None:
    """Return the newest run, of those that have (not) finished, or compare versions; None if there is none.

    The runs of a bisection or a fork are experiments, and only looked at where one is named.
    """
    kind = f"settings->>'$.{EXPERIMENT}.kind'"
    where = f"WHERE {kind} IS NOT DISTINCT FROM ?"
    if finished is not None:
        where += f" AND finished_at IS {'NOT ' if finished else ''}NULL"
    where += " AND json_exists(lanes, '$.old') AND json_exists(lanes, '$.new')" if compared else ""
    runs = _RUNS.select(con, f"{where} ORDER BY created_at DESC, run_id DESC LIMIT 1", [experiment])
    return runs[0] if runs else None


def chosen_run(con: DuckDBPyConnection, run_id: str | None, *, compared: bool = False) -> RunRecord:
    """Return the run that a command is about: by its id or a unique beginning of it, else the newest.

    A run that has finished is preferred: one in progress would change the answer of every command.

    Args:
        con: the store.
        run_id: None for the newest.
        compared: prefer the newest that compares two versions to a check of one.

    Raises:
        UnknownNameError: there is none of that id.
        InputError: several begin with it, or there is no run at all.
    """
    if run_id:
        return get_run(con, run_id)
    latest = (
        (
            latest_run(con, finished=True, compared=True) or latest_run(con, compared=True)
            if compared
            else None
        )
        or latest_run(con, finished=True)
        or latest_run(con)
    )
    if latest is None:
        raise InputError("there is no run in the store", hint=_HINT)
    return latest


def list_runs(con: DuckDBPyConnection, *, experiments: bool = False) -> list[RunRecord]:
    """Return all runs, oldest first; those of bisections and forks only on request."""
    where = "" if experiments else f"WHERE NOT json_exists(settings, '$.{EXPERIMENT}')"
    return _RUNS.select(con, f"{where} ORDER BY created_at, run_id")


def _masked_lanes(run: RunRecord) -> dict[Lane, Version]:
    return {lane: masked_version(version) for lane, version in run.lanes.items()}


def write_lanes(con: DuckDBPyConnection, run: RunRecord) -> None:
    """Store the lanes of a run again, after one was added or its version has changed."""
    con.execute("UPDATE runs SET lanes = ? WHERE run_id = ?", [encode(_masked_lanes(run)), run.id])


def item_counts(con: DuckDBPyConnection) -> dict[str, int]:
    """Return how many items each run has, by the run's id."""
    return dict(con.execute("SELECT run_id, count(*) FROM run_items GROUP BY run_id").fetchall())


def finish_run(con: DuckDBPyConnection, run_id: str, at: datetime) -> None:
    """Mark a run as finished: none of its trials is missing."""
    con.execute("UPDATE runs SET finished_at = ? WHERE run_id = ?", [at, run_id])


def set_run_settings(con: DuckDBPyConnection, run: RunRecord) -> None:
    """Store settings of a run that were determined later."""
    con.execute("UPDATE runs SET settings = ? WHERE run_id = ?", [encode(run.settings), run.id])


def add_look(con: DuckDBPyConnection, run: RunRecord, look: Look) -> RunRecord:
    """Keep a look at a run, and return the run with it."""
    run = replace(run, looks=(*run.looks, look))
    con.execute("UPDATE runs SET looks = ? WHERE run_id = ?", [encode(run.looks), run.id])
    return run


def iter_items(con: DuckDBPyConnection, run_id: str) -> Iterator[Item]:
    """Yield the items of a run by position, read in batches; writes on `con` may go on in between."""
    cursor = interruptible(con.cursor())
    position, size = 0, _READ_BATCH
    query = "SELECT item FROM run_items WHERE run_id = ? AND position >= ? AND position < ? ORDER BY position"
    while True:
        rows = all_rows(cursor, query, [run_id, position, position + size])
        for (text,) in rows:
            yield read_item(text)
        if len(rows) < size:
            return
        position += size
        length = sum(len(text) for (text,) in rows)
        size = min(2 * size, _READ_BYTES * size // length + 1)


def end_of_items(con: DuckDBPyConnection, run_id: str) -> int:
    """Return the position after that of a run's last item; 0 if it has none."""
    row = con.execute("SELECT max(position) + 1 FROM run_items WHERE run_id = ?", [run_id]).fetchone()
    return int(row[0] or 0) if row else 0


HAS_REPEAT = "coalesce(({item}->>'$.has_repeat')::BOOLEAN, true)"
"""SQL: whether the A/A lane replays the `{item}`, a column of `run_items`."""


def count_items(con: DuckDBPyConnection, run_id: str) -> tuple[int, int]:
    """Return how many items a run has, and how many of them its A/A lane replays."""
    [(items, repeated)] = con.execute(
        f"SELECT count(*), count(*) FILTER ({HAS_REPEAT.format(item='item')}) FROM run_items"
        " WHERE run_id = ?",
        [run_id],
    ).fetchall()
    return items, repeated


def repeated_of_items(con: DuckDBPyConnection, run_id: str) -> dict[str, bool]:
    """Return the ids of a run's items by position, each with whether its A/A lane replays it."""
    rows = all_rows(
        con,
        f"SELECT item_id, {HAS_REPEAT.format(item='item')} FROM run_items WHERE run_id = ? ORDER BY position",
        [run_id],
    )
    return dict(rows)


def first_items(
    con: DuckDBPyConnection, run_id: str, number: int, *, recorded_calls_first: bool
) -> list[Item]:
    """Return the first items of a run by position; on request those with recorded tool calls first.

    Items that every lane replays come before those that the A/A lane leaves out.
    """
    has_calls = "json_array_length(item, '$.tape') > 0 DESC NULLS LAST," if recorded_calls_first else ""
    rows = all_rows(
        con,
        f"SELECT item FROM run_items WHERE run_id = ?"
        f" ORDER BY {has_calls} {HAS_REPEAT.format(item='item')} DESC, position LIMIT ?",
        [run_id, number],
    )
    return [read_item(text) for (text,) in rows]


def delete_run(con: DuckDBPyConnection, run_id: str) -> None:
    """Remove a run with its items, trials and recorded model calls."""
    with transaction(con):
        for table in ("model_calls", "trials", "run_items", "runs"):
            con.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])


def get_item(con: DuckDBPyConnection, run_id: str, item_id: str) -> Item:
    """Return one item of a run, by its id or a unique beginning of it of at least six characters.

    Raises:
        UnknownNameError: the run has no such item.
        InputError: several begin with it.
    """
    table = "(SELECT item_id FROM run_items WHERE run_id = $run)"
    matches = con.execute(
        f"SELECT item_id FROM {table} WHERE item_id = $item"
        " OR (length($item) >= 6 AND starts_with(item_id, $item))"
        " ORDER BY item_id = $item DESC, item_id LIMIT 3",
        {"run": run_id, "item": item_id},
    ).fetchall()
    ids = [str(row[0]) for row in matches]
    if not ids:
        rows = con.execute(f"SELECT item_id FROM {table} ORDER BY 1 LIMIT 1000", {"run": run_id}).fetchall()
        raise UnknownNameError("item", item_id, [str(row[0]) for row in rows], where=f"run {run_id}")
    if len(ids) > 1 and ids[0] != item_id:
        raise InputError(
            f"several items begin with {item_id!r}: {', '.join(ids)}", hint="type more of the id"
        )
    query = "SELECT item FROM run_items WHERE run_id = ? AND item_id = ?"
    return read_item(all_rows(con, query, [run_id, ids[0]])[0][0])
