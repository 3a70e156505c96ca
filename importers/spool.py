"""Rows on disk, grouped by what they belong to: in an export the rows of one trace lie far apart.

An SQLite file holds them, so memory is that of one group. Of two rows with one id the later update counts,
and where that is the same the later arrival: windows of an export overlap, downloads are repeated.

A live import keeps its file between interrupted tries, and notes beside the rows what was answered so far:
rows and marks are written together at `commit`, so a page is there whole or not at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import msgspec

from replaydiff.replay.messages import parse
from replaydiff.replay.model import Json


@dataclass(frozen=True, slots=True)
class SpooledRow:
    """One row: what sort of thing it is, and its values."""

    sort: str
    value: Json


@dataclass(frozen=True, slots=True)
class Group:
    """All rows of one key, in the order in which they arrived."""

    key: str
    file: int
    """Index of the file of its first row."""
    line: int
    rows: list[SpooledRow]

    def of(self, sort: str) -> list[Json]:
        """The values of the rows of one sort."""
        return [row.value for row in self.rows if row.sort == sort]


class Spool:
    """The file; `close` it. With `kept` it is there again after an interruption, as of the last `commit`."""

    def __init__(self, file: Path, *, kept: bool = False) -> None:
        self._con = sqlite3.connect(file, isolation_level=None)
        pragmas = ["cache_size = -16000"]
        if not kept:
            pragmas += ["synchronous = OFF", "journal_mode = OFF"]
        for pragma in pragmas:
            self._con.execute(f"PRAGMA {pragma}")
        self._con.execute(
            "CREATE TABLE IF NOT EXISTS rows (seq INTEGER PRIMARY KEY, key TEXT, sort TEXT, id TEXT,"
            " updated TEXT, file INTEGER, line INTEGER, value BLOB, UNIQUE (key, sort, id))"
        )
        self._con.execute("CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value TEXT)")
        self._con.execute("BEGIN")

    def close(self) -> None:
        """Let go of the file; what was not committed is gone."""
        self._con.close()

    def add(
        self,
        key: str,
        sort: str,
        row_id: str,
        value: Json,
        *,
        updated: str = "",
        file: int = 0,
        line: int = 0,
    ) -> None:
        """Keep a row, or update the one of its sort with this id."""
        self._con.execute(
            "INSERT INTO rows (key, sort, id, updated, file, line, value) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET value = excluded.value, updated = excluded.updated"
            " WHERE excluded.updated >= rows.updated",
            (key, sort, row_id, updated, file, line, msgspec.json.encode(value)),
        )

    def mark(self, name: str, value: str) -> None:
        """Note how far a live import has come."""
        self._con.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))

    def marked(self, name: str) -> str | None:
        """What was noted under this name."""
        found = self._con.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def commit(self) -> None:
        """Write what was added and marked since the last time."""
        self._con.execute("COMMIT")
        self._con.execute("BEGIN")

    def __len__(self) -> int:
        return int(self._con.execute("SELECT count(*) FROM rows").fetchone()[0])

    def of(self, key: str) -> list[SpooledRow]:
        """The rows of one key."""
        found = self._con.execute("SELECT sort, value FROM rows WHERE key = ? ORDER BY seq", (key,))
        return [SpooledRow(sort, parse(value)) for sort, value in found]

    def groups(self) -> Iterator[Group]:
        """The rows by key, keys in the order in which they first occurred."""
        ordered = self._con.execute(
            "SELECT rows.key, rows.sort, rows.file, rows.line, rows.value FROM rows"
            " JOIN (SELECT key, min(seq) AS first FROM rows GROUP BY key) AS firsts USING (key)"
            " ORDER BY firsts.first, rows.seq"
        )
        for key, found in groupby(ordered, key=lambda row: row[0]):
            own = list(found)
            yield Group(key, own[0][2], own[0][3], [SpooledRow(row[1], parse(row[4])) for row in own])
