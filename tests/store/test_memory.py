"""Rows whose texts need more memory than a connection has at first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.errors import StoreMemoryError
from replaydiff.replay.store.connection import open_store, transaction
from replaydiff.replay.store.memory import MEMORY_MB, all_rows, by_position, in_batches, with_memory

ROWS, TEXT = 3000, 20_000
QUERY = (
    "SELECT place // 3 AS position, place % 3, text FROM wide"
    " WHERE position >= $first AND position < $end ORDER BY position, place % 3"
)
LITTLE = "SET GLOBAL memory_limit = '90MB'"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of DuckDB with 60 MB of texts."""
    path = tmp_path_factory.mktemp("memory") / "wide.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE wide AS SELECT i AS place, repeat(md5(i::VARCHAR), $length // 32) AS text"
            " FROM range($rows) numbers(i) ORDER BY hash(i)",
            {"length": TEXT, "rows": ROWS},
        )
    return path


@pytest.fixture
def con(wide: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(wide), read_only=True) as opened:
        opened.execute(LITTLE)
        yield opened


def setting(con: duckdb.DuckDBPyConnection, name: str) -> Any:
    return con.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]


def test_large_rows_come_in_order_and_the_memory_is_taken_back(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.OutOfMemoryException):
        con.execute(QUERY, {"first": 0, "end": ROWS}).fetchall()
    threads = setting(con, "threads")
    found = list(by_position(con, QUERY, {}, end=ROWS // 3, batch=ROWS))
    assert [(row[0], row[1]) for row in found] == [(i // 3, i % 3) for i in range(ROWS)]
    assert {len(row[2]) for row in found} == {TEXT}
    con.execute(f"SET GLOBAL memory_limit = '{MEMORY_MB}MB'")
    assert setting(con, "threads") == threads


def test_all_rows_at_once_get_more_memory(con: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT place, text FROM wide ORDER BY place"
    assert [place for place, _ in all_rows(con, query, ())] == list(range(ROWS))


def test_half_of_the_machine_is_the_most(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 1)
    with pytest.raises(duckdb.OutOfMemoryException):
        all_rows(con, "SELECT place, text FROM wide ORDER BY place", ())
    assert len(list(by_position(con, QUERY, {}, end=ROWS // 3, batch=ROWS))) == ROWS, (
        "fewer rows at a time do"
    )
    con.execute("SET GLOBAL memory_limit = '3MB'")
    with pytest.raises(duckdb.OutOfMemoryException):
        list(by_position(con, QUERY, {}, end=ROWS // 3, batch=ROWS))


def test_a_transaction_is_repeated_whole(tmp_path: Path, wide: Path) -> None:
    with open_store(tmp_path / "store.duckdb", export_to=wide.parent) as con:
        parquet = wide.with_suffix(".parquet")
        with duckdb.connect(str(wide), read_only=True) as source:
            source.execute(f"COPY wide TO '{parquet}' (FORMAT parquet)")
        con.execute("CREATE TABLE taken (place BIGINT, text VARCHAR)")
        con.execute("SET GLOBAL memory_limit = '30MB'")

        def take() -> None:
            with transaction(con):
                con.execute(f"INSERT INTO taken SELECT * FROM read_parquet('{parquet}') ORDER BY place")

        with pytest.raises(StoreMemoryError):
            take()
        with_memory(con, take)
        assert con.execute("SELECT count(*), count(DISTINCT place) FROM taken").fetchall() == [(ROWS, ROWS)]


class RunsOut:
    """A cursor that runs out of memory after some fetched rows, each time."""

    def __init__(self, con: duckdb.DuckDBPyConnection, after: list[int]) -> None:
        self._con, self._after, self._left = con, after, 0

    def execute(self, query: str, values: Any = ()) -> RunsOut:
        if query.startswith("SELECT"):
            self._left = self._after.pop(0) if self._after else 10**9
        self._con.execute(query, values)
        return self

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        if self._left <= 0:
            raise duckdb.OutOfMemoryException("no more")
        rows = self._con.fetchmany(min(size, self._left))
        self._left -= len(rows) if self._left < size else size
        return rows


@given(
    rows=st.lists(st.integers(0, 6), max_size=40),
    after=st.lists(st.integers(0, 12), max_size=6),
    batch=st.integers(1, 8),
)
def test_rows_come_once_wherever_memory_runs_out(rows: list[int], after: list[int], batch: int) -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE own AS SELECT unnest($rows::INTEGER[]) AS position", {"rows": rows})
        query = (
            "SELECT position, rowid FROM own WHERE position >= $first AND position < $end"
            " ORDER BY position, rowid"
        )
        cursor: Any = RunsOut(con, list(after))
        found = list(by_position(cursor, query, {}, end=7, batch=batch))
        assert found == con.execute("SELECT position, rowid FROM own ORDER BY ALL").fetchall()


@given(rows=st.lists(st.integers(0, 6), max_size=40), after=st.lists(st.integers(0, 12), max_size=6))
def test_rows_in_batches_come_once_wherever_memory_runs_out(rows: list[int], after: list[int]) -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE own AS SELECT unnest($rows::INTEGER[]) AS position", {"rows": rows})
        cursor: Any = RunsOut(con, list(after))
        found = [row for batch in in_batches(cursor, "SELECT position, rowid FROM own") for row in batch]
        assert found == list(zip(rows, range(len(rows)), strict=True))


def test_batches_of_large_rows_are_small(con: duckdb.DuckDBPyConnection) -> None:
    sizes = [len(batch) for batch in in_batches(con, "SELECT * FROM wide")]
    assert (sum(sizes), len(sizes)) == (ROWS, 3)
    assert [len(batch) for batch in in_batches(con, "SELECT place FROM wide")] == [2000, 1000]
