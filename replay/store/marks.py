"""Up to when a place was read completely, so that the next import of it reads only what is new."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from replaydiff.replay.clock import utc_now
from replaydiff.replay.model import JsonObject
from replaydiff.replay.store.text import encode

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def mark_read(
    con: DuckDBPyConnection, source: str, origin: str, asked: JsonObject, read_until: datetime
) -> None:
    """Remember that everything `asked` for at `origin` that started before `read_until` is in the store."""
    con.execute(
        "INSERT INTO import_marks VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO UPDATE SET"
        " read_until = greatest(read_until, excluded.read_until), finished_at = excluded.finished_at",
        [source, origin, encode(asked), read_until, utc_now()],
    )


def last_read(con: DuckDBPyConnection, source: str, origin: str, asked: JsonObject) -> datetime | None:
    """Up to when this was read completely; None where it never was."""
    found = con.execute(
        "SELECT read_until FROM import_marks WHERE source = $1 AND origin = $2 AND filter = $3",
        [source, origin, encode(asked)],
    ).fetchone()
    return found[0] if found else None
