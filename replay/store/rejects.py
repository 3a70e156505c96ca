"""Records that an importer could not take, each with its reason; a later import of the file replaces them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from replay.store import bulk
from replay.store.clock import utc_now
from replay.store.text import clean_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COLUMNS = {
    "source": "VARCHAR",
    "file": "VARCHAR",
    "line": "BIGINT",
    "reason": "VARCHAR",
    "excerpt": "VARCHAR",
    "rejected_at": "TIMESTAMP",
}


class Reject(Protocol):
    """What an importer says of a record it could not take."""

    @property
    def source(self) -> str:
        """Name of the importer."""

    @property
    def file(self) -> str:
        """Path as it was given."""

    @property
    def line(self) -> int:
        """1-based; the record's number where the source has no lines."""

    @property
    def reason(self) -> str:
        """One sentence."""

    @property
    def excerpt(self) -> str:
        """The beginning of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReject:
    """A reject with the time it was stored."""

    source: str
    file: str
    line: int
    reason: str
    excerpt: str
    rejected_at: datetime


def write_rejects(con: DuckDBPyConnection, rejects: Sequence[Reject]) -> None:
    """Keep rejects; of two for one source, file and line the last one counts."""
    now = utc_now()
    rows = {
        (reject.source, reject.file, reject.line): (
            clean_text(reject.source),
            clean_text(reject.file),
            reject.line,
            clean_text(reject.reason),
            clean_text(reject.excerpt),
            now,
        )
        for reject in rejects
    }
    bulk.insert(
        con,
        "rejects",
        _COLUMNS,
        list(rows.values()),
        "ON CONFLICT DO UPDATE SET reason = excluded.reason, excerpt = excluded.excerpt,"
        " rejected_at = excluded.rejected_at",
    )


def forget_rejects(con: DuckDBPyConnection, files: Sequence[str]) -> None:
    """Drop the rejects of these files: they are about to be read anew."""
    names = [clean_text(file) for file in files]
    con.execute("DELETE FROM rejects WHERE file IN (SELECT unnest(?::VARCHAR[]))", [names])


def list_rejects(con: DuckDBPyConnection) -> list[StoredReject]:
    """All rejects by source, file and line."""
    rows = con.execute(f"SELECT {', '.join(_COLUMNS)} FROM rejects ORDER BY source, file, line").fetchall()
    return [StoredReject(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]
