"""Rows on their way into the store: what was paid for, or decided, while the file cannot take it at once.

A row is one line of `journal/STORE.TABLE.jsonl` beside the store. Appending it takes some microseconds and
survives `kill -9`; whoever opens the store for writing next moves the rows into it. The judge keeps each vote
there before it is used, and a decision waits there while another process holds the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from replaydiff.replay import files
from replaydiff.replay.errors import StoreWriteError, remedy
from replaydiff.replay.files import locked, private_folder
from replaydiff.replay.store import sql
from replaydiff.replay.store.attached import refuse_writing

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLES = ("judge_votes", "decisions")
"""Tables whose rows may wait."""


def append(store: Path, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Keep rows until the store is opened for writing; once this returns no kill of this process loses them.

    Args:
        store: path of the store.
        table: one of `TABLES`.
        rows: values of all columns, in the order of the table.

    Raises:
        StoreWriteError: the file cannot be written.
        StoreError: the store is only read.
    """
    refuse_writing(store)
    path = path_of(store, table)
    lines = b"".join(msgspec.json.encode(list(row)) + b"\n" for row in rows)
    try:
        private_folder(path.parent)
        with locked(path) as file:
            files.append(file, lines)
    except OSError as error:
        raise StoreWriteError(
            f"{path} cannot be written: {error.strerror}; what was saved before is kept",
            hint=f"{remedy(str(error))}, then run the same command again",
        ) from error


def absorb(con: DuckDBPyConnection, store: Path, *, keep: bool = False) -> None:
    """Move the rows that wait into the store; a row that it has already is not written again.

    Args:
        con: a connection that may write.
        store: path of the store whose rows are meant.
        keep: leave the rows where they are as well: `con` is a copy of the store.
    """
    for table in TABLES:
        path = path_of(store, table)
        if not is_waiting(store, table):
            continue
        with locked(path) as file:
            _insert(con, table, list(_rows(path)))
            if not keep:
                os.ftruncate(file, 0)


def is_waiting(store: Path, table: str) -> bool:
    """Return whether rows of a table wait."""
    with suppress(OSError):
        return path_of(store, table).stat().st_size > 0
    return False


def is_any_waiting(store: Path) -> bool:
    """Return whether any rows wait."""
    return any(is_waiting(store, table) for table in TABLES)


def count(store: Path) -> int:
    """Return how many rows wait."""
    return sum(sum(1 for _ in _rows(path_of(store, table))) for table in TABLES if is_waiting(store, table))


def clear(store: Path, table: str) -> None:
    """Forget the rows of a table that wait: they are in the store."""
    path = path_of(store, table)
    if path.exists():
        with locked(path) as file:
            os.ftruncate(file, 0)


def path_of(store: Path, table: str) -> Path:
    """Return the file in which rows of a table wait."""
    store = store.absolute()
    return store.parent / "journal" / f"{store.name}.{table}.jsonl"


def _rows(path: Path) -> Iterator[list[Any]]:
    """Read the rows; one that was being written when its process was killed is left out."""
    with path.open("rb") as file:
        for line in file:
            with suppress(msgspec.DecodeError):
                yield msgspec.json.decode(line, type=list[Any])


def _insert(con: DuckDBPyConnection, table: str, rows: list[list[Any]]) -> None:
    columns = sql.columns_of(con, table)
    whole = [row for row in rows if len(row) == len(columns)]
    con.execute(f"CREATE OR REPLACE TEMP TABLE waiting AS FROM {table} LIMIT 0")
    sql.insert(con, "waiting", columns, whole)
    # Decisions have no key: a row that is there in full is the same one.
    conflict = "ON CONFLICT DO NOTHING" if table == "judge_votes" else ""
    con.execute(f"INSERT INTO {table} (FROM waiting EXCEPT FROM {table}) {conflict}")
    con.execute("DROP TABLE waiting")
