"""Rows on disk, grouped by trace: an export is sorted by time, and a trace's rows lie far apart.

A temporary SQLite file holds them, so memory is that of one trace. Of two rows with one id the later update
counts, and where that is the same the later arrival: windows of an export overlap, downloads are repeated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import msgspec

from importers.langfuse.rows import Row, Sort
from replay.messages import parse
from replay.model import JsonObject


@dataclass(frozen=True, slots=True)
class Group:
    """All rows of one trace, in the order in which they arrived."""

    trace_id: str
    file: int
    """Index of the file of its first row."""
    line: int
    observations: list[JsonObject]
    traces: list[JsonObject]
    scores: list[JsonObject]


class Spool:
    """The file; `close` it, and remove its folder."""

    def __init__(self, folder: Path) -> None:
        self._con = sqlite3.connect(folder / "rows.sqlite", isolation_level=None)
        for pragma in ("synchronous = OFF", "journal_mode = OFF", "cache_size = -16000"):
            self._con.execute(f"PRAGMA {pragma}")
        self._con.execute(
            "CREATE TABLE rows (seq INTEGER PRIMARY KEY, trace_id TEXT, sort TEXT, id TEXT, updated TEXT,"
            " file INTEGER, line INTEGER, row BLOB, UNIQUE (trace_id, sort, id))"
        )
        self._con.execute("BEGIN")

    def close(self) -> None:
        """Let go of the file."""
        self._con.close()

    def add(self, row: Row, file: int, line: int) -> None:
        """Keep a row, or update the one with its id."""
        self._con.execute(
            "INSERT INTO rows (trace_id, sort, id, updated, file, line, row) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET row = excluded.row, updated = excluded.updated"
            " WHERE excluded.updated >= rows.updated",
            (
                row.trace_id,
                row.sort,
                row.id,
                _moment(row.values),
                file,
                line,
                msgspec.json.encode(row.values),
            ),
        )

    def groups(self) -> Iterator[Group]:
        """The rows by trace, traces in the order in which they first occurred."""
        ordered = self._con.execute(
            "SELECT rows.trace_id, rows.sort, rows.file, rows.line, rows.row FROM rows"
            " JOIN (SELECT trace_id, min(seq) AS first FROM rows GROUP BY trace_id) AS firsts"
            " USING (trace_id)"
            " ORDER BY firsts.first, rows.seq"
        )
        for trace_id, found in groupby(ordered, key=lambda row: row[0]):
            own = list(found)
            by_sort: dict[str, list[JsonObject]] = {sort: [] for sort in Sort}
            for _, sort, _, _, text in own:
                by_sort[sort].append(parse(text))  # type: ignore[arg-type]
            yield Group(
                trace_id,
                own[0][2],
                own[0][3],
                by_sort[Sort.OBSERVATION],
                by_sort[Sort.TRACE],
                by_sort[Sort.SCORE],
            )


def _moment(row: JsonObject) -> str:
    """When a row was last updated, in one form: exports write a space for the T, and no zone."""
    return str(row.get("updatedAt", "")).replace(" ", "T").removesuffix("Z")
