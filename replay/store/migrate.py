"""Numbered migrations: `schema/NNNN_name.sql`, forward only, each in one transaction with its record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOLDER = Path(__file__).parent / "schema"


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    name: str
    file: Path


def known() -> list[Migration]:
    """The migrations of this release, in order; their numbers run from 1 without a gap."""
    found = []
    for file in sorted(FOLDER.glob("*.sql")):
        number, _, name = file.stem.partition("_")
        found.append(Migration(int(number), name, file))
    return found


def applied(con: DuckDBPyConnection) -> int | None:
    """The schema version of an open file: 0 for a blank one, None for a database that is no store of ours."""
    tables = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not tables:
        return 0
    if "schema_migrations" not in tables:
        return None
    newest = con.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    return int(newest[0]) if newest else 0


def migrate(con: DuckDBPyConnection, present: int) -> None:
    """Apply what is newer than `present`."""
    for migration in known():
        if migration.version <= present:
            continue
        con.begin()
        try:
            con.execute(
                "CREATE TABLE IF NOT EXISTS schema_migrations"
                " (version INTEGER PRIMARY KEY, name VARCHAR NOT NULL, applied_at TIMESTAMP NOT NULL)"
            )
            con.execute(migration.file.read_text(encoding="utf-8"))
            con.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, (now() AT TIME ZONE 'UTC')::TIMESTAMP)",
                [migration.version, migration.name],
            )
            con.commit()
        except BaseException:
            con.rollback()
            raise
