"""The recordings of all traces, for the tools that may be answered from another trace than an item's own.

The first time a tool is asked for, all its calls are read once and kept as hashes of their arguments with
when and where they were made: about 200 bytes a call. What was answered is read when it is wanted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from replaydiff.replay.agents.base import CorpusRecording
from replaydiff.replay.interruption import interruptible
from replaydiff.replay.messages import canonical_args
from replaydiff.replay.model import Item, JsonObject, ToolCall
from replaydiff.replay.renames import Renames
from replaydiff.replay.store import sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_READ = 10_000
_read_args = sql.reader(JsonObject)
_read_value: Any = sql.reader(Any)


class _Made(NamedTuple):
    """A call that was recorded with its answer."""

    at: datetime
    trace_id: str
    place: int


class StoreCorpus:
    """Fits `replay.agents.base.Corpus`. Finds nothing until the store is open."""

    def __init__(self, renames: Renames | None = None) -> None:
        """Read nothing yet; calls that were recorded under earlier names are found under the present ones."""
        self._renames = renames or Renames()
        self._con: DuckDBPyConnection | None = None
        self._made: dict[tuple[str, tuple[str, ...]], dict[bytes, list[_Made]]] = {}

    def open(self, con: DuckDBPyConnection) -> None:
        """Read from this connection from now on."""
        self._con = interruptible(con.cursor())

    def find(
        self, item: Item, name: str, args: JsonObject, ignore: Collection[str]
    ) -> CorpusRecording | None:
        """The answered recording of this call nearest in time to the item (to the latest, for a case)."""
        if self._con is None:
            return None
        known = (name, tuple(sorted(ignore)))
        if known not in self._made:
            self._made[known] = self._calls_of(name, ignore)
        made = [
            call for call in self._made[known].get(_key(args, ignore), ()) if call.trace_id != item.trace_id
        ]
        if not made:
            return None
        wanted = item.started_at or max(call.at for call in made)
        nearest = min(made, key=lambda call: (abs(call.at - wanted), call))
        return CorpusRecording(recorded=self._recorded(nearest), trace_id=nearest.trace_id)

    def _calls_of(self, name: str, ignore: Collection[str]) -> dict[bytes, list[_Made]]:
        found: dict[bytes, list[_Made]] = {}
        rows = self._cursor().execute(
            "SELECT t.started_at, c.trace_id, c.index, c.args FROM tool_calls c"
            " JOIN traces t USING (trace_id) WHERE list_contains(?, c.name) AND c.answered",
            [self._renames.earlier(name)],
        )
        while batch := rows.fetchmany(_READ):
            for at, trace_id, place, args in batch:
                present = self._renames.arguments(name, _read_args(args))
                found.setdefault(_key(present, ignore), []).append(_Made(at, trace_id, place))
        return found

    def _recorded(self, made: _Made) -> ToolCall:
        [(name, args, result, error)] = (
            self._cursor()
            .execute(
                "SELECT name, args, result, error FROM tool_calls WHERE trace_id = ? AND index = ?",
                [made.trace_id, made.place],
            )
            .fetchall()
        )
        return ToolCall(
            name=name,
            args=_read_args(args),
            result=None if result is None else _read_value(result),
            error=error,
        )

    def _cursor(self) -> DuckDBPyConnection:
        if self._con is None:
            raise RuntimeError("the corpus was not opened")
        return self._con


def _key(args: JsonObject, ignore: Collection[str]) -> bytes:
    return hashlib.blake2b(
        canonical_args(args, ignore).encode(errors="surrogatepass"), digest_size=16
    ).digest()
