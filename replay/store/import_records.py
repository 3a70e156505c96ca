"""What imports remember beside traces: rejected records, how far a source was read, and redaction tokens.

A rejected record has its reason; a later import of its file replaces it. A mark is the time up to which a
source was read completely, so that the next import of it reads only what is new.

A redaction token belongs to a hash of the value, keyed with random bytes that are made once in each store.
So the same address gets the same token in every import, and the store does not reveal whose it is; but
whoever has it can still try out guesses, since the key is in it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import JsonObject
from replaydiff.replay.store import sql
from replaydiff.replay.store.rows import TableRows
from replaydiff.replay.store.sql import clean_text, encode

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EXCERPT_CHARACTERS = 200
STORED_CHARACTERS = 1_000_000
"""The longest record that is kept whole when it is rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A record that could not be taken."""

    source: str
    file: str
    line: int
    """1-based; the record's number where the source has no lines."""
    reason: str
    excerpt: str
    """The beginning of the record, at most `EXCERPT_CHARACTERS`."""
    id: str = ""
    """The record's own id, where file and line do not identify it."""
    record: str | None = None
    """The whole record as JSON text, or the line as it is; None where it is longer than
    `STORED_CHARACTERS` or cannot be kept."""
    alone: bool = False
    """The record is a trace by itself, so it can be tried again without the rest of its file. Tried alone, a
    part of a trace would replace the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReject(Reject):
    """A reject with the time it was stored."""

    rejected_at: datetime


_KEY = ("source", "file", "line", "id")
_REJECTS = TableRows(StoredReject, "rejects", key=_KEY)


def write_rejects(con: DuckDBPyConnection, rejects: Sequence[Reject]) -> None:
    """Keep rejects; of two for one source, file, line and id the last one counts."""
    now = utc_now()
    _REJECTS.upsert(con, [StoredReject(**asdict(reject), rejected_at=now) for reject in rejects])


def forget_rejects(con: DuckDBPyConnection, files: Sequence[str], before: datetime) -> None:
    """Delete earlier rejects of these files, because the files were read again."""
    names = [clean_text(file) for file in files]
    con.execute(
        "DELETE FROM rejects WHERE file IN (SELECT unnest(?::VARCHAR[])) AND rejected_at < ?", [names, before]
    )


def take_rejects(con: DuckDBPyConnection, source: str | None = None) -> list[StoredReject]:
    """Remove and return the rejects (of one source) that can be retried by themselves.

    For use within a transaction that writes those that fail again.
    """
    rejects = [reject for reject in list_rejects(con, source) if reject.alone and reject.record is not None]
    con.execute(
        "DELETE FROM rejects WHERE alone AND record IS NOT NULL AND source = coalesce(?, source)", [source]
    )
    return rejects


def list_rejects(con: DuckDBPyConnection, source: str | None = None) -> list[StoredReject]:
    """Return the rejects (of one source) by source, file and line."""
    return _REJECTS.select(con, f"WHERE source = coalesce(?, source) ORDER BY {', '.join(_KEY)}", [source])


def mark_read(
    con: DuckDBPyConnection, source: str, origin: str, filters: JsonObject, read_until: datetime
) -> None:
    """Remember that everything `filters` for at `origin` that started before `read_until` is in the store."""
    con.execute(
        "INSERT INTO import_marks VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO UPDATE SET"
        " read_until = greatest(read_until, excluded.read_until), finished_at = excluded.finished_at",
        [source, origin, encode(filters), read_until, utc_now()],
    )


def last_read(con: DuckDBPyConnection, source: str, origin: str, filters: JsonObject) -> datetime | None:
    """Return the time up to which this was read completely; None if never."""
    mark = con.execute(
        "SELECT read_until FROM import_marks WHERE source = $1 AND origin = $2 AND filter = $3",
        [source, origin, encode(filters)],
    ).fetchone()
    return mark[0] if mark else None


def reported_tools(con: DuckDBPyConnection) -> dict[str, str]:
    """Return tool → the state that an import reported last."""
    return dict(con.execute("SELECT name, state FROM reported_tools").fetchall())


def mark_reported(con: DuckDBPyConnection, states: Mapping[str, str]) -> None:
    """Remember the state of each tool that an import reports."""
    sql.insert(
        con,
        "reported_tools",
        {"name": "VARCHAR", "state": "VARCHAR"},
        [(clean_text(name), state) for name, state in states.items()],
        "ON CONFLICT DO UPDATE SET state = excluded.state",
    )


_TOKEN_COLUMNS = {"kind": "VARCHAR", "number": "BIGINT", "digest": "BLOB"}
_DIGEST_BYTES = 16


class Tokens:
    """The tokens of a store: some 200 bytes of memory for each distinct value."""

    def __init__(self, con: DuckDBPyConnection) -> None:
        stored = con.execute("SELECT key FROM redaction_key").fetchone()
        self._key = bytes(stored[0]) if stored else secrets.token_bytes(32)
        """What the digests of values are keyed with: a secret of the store."""
        self._is_key_stored = stored is not None
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._last: Counter[str] = Counter()
        self._new: list[tuple[str, int, bytes]] = []
        for kind, number, digest in con.execute("SELECT kind, number, digest FROM redactions").fetchall():
            self._numbers[kind, digest] = number
            self._last[kind] = max(self._last[kind], number)

    def of(self, kind: str, value: str) -> str:
        """Return the token of a value, like `[EMAIL_1]`; a new value gets the next number."""
        text = f"{kind}:{value}".encode(errors="replace")
        digest = hashlib.blake2b(text, key=self._key, digest_size=_DIGEST_BYTES).digest()
        number = self._numbers.get((kind, digest))
        if number is None:
            self._last[kind] += 1
            number = self._numbers[kind, digest] = self._last[kind]
            self._new.append((kind, number, digest))
        return f"[{kind}_{number}]"

    @property
    def has_new(self) -> bool:
        """Return whether there are tokens that are not stored yet."""
        return bool(self._new)

    def save(self, con: DuckDBPyConnection) -> None:
        """Store the key and the new tokens, in one transaction with the texts that contain them."""
        if not self._is_key_stored:
            con.execute("INSERT INTO redaction_key VALUES (?)", [self._key])
            self._is_key_stored = True
        sql.insert(con, "redactions", _TOKEN_COLUMNS, self._new)
        self._new = []


def merge_tokens(con: DuckDBPyConnection, source: DuckDBPyConnection) -> None:
    """Take in the tokens of another store, whose redacted traces are taken in.

    Where there are none here, the key is taken, too.

    Raises:
        InputError: a token would mean two values.
    """
    source_tokens, present_tokens = _tokens(source), _tokens(con)
    if not source_tokens:
        return
    if not present_tokens:
        con.execute("DELETE FROM redaction_key")
        sql.insert(con, "redaction_key", {"key": "BLOB"}, [(_key(source),)])
    elif _key(con) != _key(source) or any(
        source_tokens.get(token, digest) != digest for token, digest in present_tokens.items()
    ):
        raise InputError(
            "both stores hold redacted traces, and [EMAIL_1] means different addresses in them",
            hint="import the traces again into one store",
        )
    new = [(*token, digest) for token, digest in source_tokens.items() if token not in present_tokens]
    sql.insert(con, "redactions", _TOKEN_COLUMNS, new)


def _tokens(con: DuckDBPyConnection) -> dict[tuple[str, int], bytes]:
    """Return the tokens of a store: kind and number → digest."""
    rows = con.execute("SELECT kind, number, digest FROM redactions").fetchall()
    return {(kind, number): bytes(digest) for kind, number, digest in rows}


def _key(con: DuckDBPyConnection) -> bytes:
    [(key,)] = con.execute("SELECT key FROM redaction_key").fetchall()
    return bytes(key)
