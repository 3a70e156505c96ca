"""Queries of rows with large texts: with more memory, and fewer rows at a time, where they need it.

DuckDB reads a column 2,048 rows at a time and sorts whole rows, some three copies of each. With texts of
100 KB, as long tool results are, that is more than a connection has. It gets more only then, since it also
keeps parts of the file in all that it may use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from replaydiff.replay.errors import StoreMemoryError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_MB = 640
"""What a connection has at first."""
_ROWS = 500
"""Rows that are fetched together."""
_MOST_ROWS, _MOST_CHARACTERS = 2_000, 20_000_000
"""Rows that are held together, and their texts."""
_FEWEST = 100
"""Positions that are read together at least: each time, all rows are read that are stored between theirs."""
T = TypeVar("T")


class _Grant:
    """The memory that a connection got beyond its first limit, until the end."""

    def __init__(self, con: DuckDBPyConnection) -> None:
        self._con, self._memory_mb = con, MEMORY_MB
        self._most_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2_000_000

    def more(self) -> bool:
        """Raise the limit by half; return False where it has half of the machine's memory or gets none."""
        if self._memory_mb >= self._most_mb:
            return False
        self._memory_mb = min(self._memory_mb * 3 // 2, self._most_mb)
        try:
            # Each thread reads rows of its own.
            self._con.execute("SET GLOBAL threads = 1")
            self._con.execute(f"SET GLOBAL memory_limit = '{self._memory_mb}MB'")
        except duckdb.Error:
            # Within a transaction, which has ended with the failure.
            return False
        return True

    def end(self) -> None:
        """Restore the first memory limit."""
        if self._memory_mb > MEMORY_MB:
            # Refused as long as another cursor uses it; then it ends with the connection.
            with suppress(duckdb.Error):
                self._con.execute("RESET GLOBAL threads")
                self._con.execute(f"SET GLOBAL memory_limit = '{MEMORY_MB}MB'")


def with_memory(con: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Return the result of some work, which is repeated with more memory where it needs it.

    Args:
        con: the connection that the work uses.
        work: does the same if it is repeated. A transaction is within it, not around it.

    Raises:
        OutOfMemoryException: half of the machine's memory was not enough.
        StoreMemoryError: the same, of a transaction.
    """
    grant = _Grant(con)
    try:
        while True:
            try:
                return work()
            except (duckdb.OutOfMemoryException, StoreMemoryError):
                if not grant.more():
                    raise
    finally:
        grant.end()


def all_rows(
    con: DuckDBPyConnection, query: str, values: Sequence[Any] | Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query, which gets more memory where it needs it.

    Args:
        con: the connection.
        query: does the same if it is repeated.
        values: of its parameters.

    Raises:
        OutOfMemoryException: half of the machine's memory was not enough.
    """
    return with_memory(con, lambda: con.execute(query, values).fetchall())


def in_batches(con: DuckDBPyConnection, query: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query, as many at a time as hold some megabytes of text.

    Args:
        con: a connection that nothing else uses meanwhile.
        query: gives its rows in the same order if it is repeated.

    Raises:
        OutOfMemoryException: half of the machine's memory was not enough.
    """
    grant = _Grant(con)
    count = 0
    try:
        while True:
            try:
                con.execute(query)
                rows = islice(_fetched(con), count, None)
                while batch := _batch(rows):
                    count += len(batch)
                    yield batch
                return
            except duckdb.OutOfMemoryException:
                if not grant.more():
                    raise
    finally:
        grant.end()


def _batch(rows: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    batch, size = [], 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(batch) == _MOST_ROWS or size > _MOST_CHARACTERS:
            break
    return batch


def by_position(
    con: DuckDBPyConnection, query: str, values: Mapping[str, Any], *, end: int, batch: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query in their order, some positions at a time.

    Args:
        con: a cursor that nothing else uses meanwhile.
        query: selects the rows of the positions from `$first` to below `$end`, in a total order: by the
            position, which is their first column, and then by others.
        values: of the query's other parameters.
        end: the position after the last one.
        batch: positions that are read together; fewer where rows are large.

    Raises:
        OutOfMemoryException: half of the machine's memory was not enough.
    """
    grant = _Grant(con)
    # The position of the row that came last, and how many of its rows have come.
    position, count = 0, 0
    first = 0
    try:
        while first < end:
            try:
                con.execute(query, {**values, "first": first, "end": first + batch})
                for row in islice(_fetched(con), count if position == first else 0, None):
                    if row[0] != position:
                        position, count = row[0], 0
                    count += 1
                    yield row
                first += batch
            except duckdb.OutOfMemoryException:
                if not grant.more() and batch == _FEWEST:
                    raise
                batch = max(_FEWEST, batch // 2)
                first = max(first, position)
    finally:
        grant.end()


def _fetched(con: DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := con.fetchmany(_ROWS):
        yield from rows
