"""Which token stands for which value, without the values.

A token belongs to a hash of the value, keyed with random bytes that are made once in each store. So the same
address gets the same token in every import, and the store does not say whose it is; who has the whole store
can still try out guesses, since the key is in it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from typing import TYPE_CHECKING

from replaydiff.replay.store import bulk

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COLUMNS = {"kind": "VARCHAR", "number": "BIGINT", "digest": "BLOB"}
_DIGEST_BYTES = 16


class Tokens:
    """The tokens of a store: some 200 bytes of memory for each distinct value."""

    def __init__(self, con: DuckDBPyConnection) -> None:
        stored = con.execute("SELECT key FROM redaction_key").fetchone()
        self._key = bytes(stored[0]) if stored else secrets.token_bytes(32)
        self._is_key_stored = stored is not None
        self._known: dict[tuple[str, bytes], int] = {}
        self._last: Counter[str] = Counter()
        self._new: list[tuple[str, int, bytes]] = []
        for kind, number, digest in con.execute("SELECT kind, number, digest FROM redactions").fetchall():
            self._known[kind, digest] = number
            self._last[kind] = max(self._last[kind], number)

    def of(self, kind: str, value: str) -> str:
        """The token of a value, like `[EMAIL_1]`."""
        hashed = hashlib.blake2b(
            f"{kind}:{value}".encode(errors="replace"), key=self._key, digest_size=_DIGEST_BYTES
        )
        digest = hashed.digest()
        number = self._known.get((kind, digest))
        if number is None:
            self._last[kind] += 1
            number = self._known[kind, digest] = self._last[kind]
            self._new.append((kind, number, digest))
        return f"[{kind}_{number}]"

    def save(self, con: DuckDBPyConnection) -> None:
        """Keep the new ones; in one transaction with what they stand in."""
        if self._new and not self._is_key_stored:
            con.execute("INSERT INTO redaction_key VALUES (?)", [self._key])
            self._is_key_stored = True
        bulk.insert(con, "redactions", _COLUMNS, self._new)
        self._new = []
