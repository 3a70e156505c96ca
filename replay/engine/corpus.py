"""The recordings of all traces, for read tools that another trace than an item's own may answer.

A call is answered from here only with proof. Either the tool is *proven*: the leave-one-out count over its
calls (`replay.proofs`) bounds the share of false answers by `[world] max_false`, and the same call had one
and the same result in at least `[world] proven` sessions. Or the recording is of the same session or user,
no write in the traces between the two concerns the call, and hardly any such answer of the tool would have
been false. Never a call without arguments, and never in
another state: the trial has written nothing that concerns the call, and neither had a proving trace.

The first time a tool is asked for, all its calls are read once and kept as hashes of their arguments and
results with when and where they were made: some 300 bytes a call. The result itself is read when it
answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from replaydiff.replay.agents.base import CorpusRecording, Rules
from replaydiff.replay.interruption import interruptible
from replaydiff.replay.media import MediaFolder
from replaydiff.replay.messages import canonical_args
from replaydiff.replay.model import Item, JsonObject, ToolCall
from replaydiff.replay.proofs import Proof
from replaydiff.replay.store import sql
from replaydiff.replay.store.traces import iter_traces

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS = 10_000
_UNREAD = ("messages", "steps", "metadata", "scores", "usage")
_read_args = sql.reader(JsonObject)
_read_value: Any = sql.reader(Any)
_CALLS = """
WITH first_writes AS (
    SELECT trace_id, min(index) AS first FROM tool_calls WHERE NOT list_contains($reads, name)
    GROUP BY trace_id
)
SELECT t.started_at, c.trace_id, c.index, coalesce(t.session_id, c.trace_id), t.session_id, t.user_id,
    first IS NULL OR c.index < first, hash(c.result::VARCHAR, c.error), c.args
FROM tool_calls c JOIN traces t USING (trace_id) LEFT JOIN first_writes USING (trace_id)
WHERE list_contains($names, c.name) AND c.answered
"""


class _Recorded(NamedTuple):
    """A call that was recorded with its answer."""

    at: datetime
    trace_id: str
    position: int
    session: str
    """The session, or the trace where it has none."""
    session_id: str | None
    user_id: str | None
    is_first: bool
    """Whether no write came before it in its trace."""
    outcome: int
    """A hash of its result and error."""


class StoreCorpus:
    """Fits `replay.agents.base.Corpus`. Answers nothing until the store is open."""

    def __init__(self, rules: Rules) -> None:
        """Read nothing yet; calls recorded under earlier names are matched under the present ones."""
        self._rules = rules
        self._con: DuckDBPyConnection | None = None
        self._calls: dict[str, dict[bytes, list[_Recorded]]] = {}
        self._users: dict[str, str | None] = {}

    def open(self, con: DuckDBPyConnection) -> None:
        """Read from this connection from now on."""
        self._con = interruptible(con.cursor())

    def find(
        self, item: Item, name: str, args: JsonObject, writes: Sequence[ToolCall]
    ) -> CorpusRecording | None:
        """Return a recording of another trace that provably answers a call; see `Corpus.find`."""
        ignored = self._rules.ignored(name)
        if self._con is None or not args.keys() - set(ignored):
            return None
        if name not in self._calls:
            self._calls[name] = self._read_calls(name)
        equal_calls = [
            call
            for call in self._calls[name].get(self._key(name, args), ())
            if call.trace_id != item.trace_id
        ]
        if not equal_calls:
            return None
        return self._proven(item, name, equal_calls, writes) or self._related(item, name, equal_calls, writes)

    def _proven(
        self, item: Item, name: str, equal_calls: Sequence[_Recorded], writes: Sequence[ToolCall]
    ) -> CorpusRecording | None:
        """Return the recording nearest in time, where the tool is proven and all recordings agree."""
        least, proof = self._rules.proven, self._rules.facts.proofs.get(name, Proof())
        unwritten = [call for call in equal_calls if call.is_first]
        sessions = {call.session for call in unwritten}
        if proof.bound > self._rules.max_false or min(len(unwritten), len(sessions)) < least:
            return None
        if len({call.outcome for call in unwritten}) > 1:
            return None
        nearest = _nearest(item, unwritten)
        recorded = self._result(nearest)
        if self._concerned(writes, recorded):
            return None
        return CorpusRecording(
            recorded=recorded,
            trace_id=nearest.trace_id,
            note=f"{len(unwritten)} recordings in {len(sessions)} sessions agree; of the tool's calls, "
            f"{proof.false} of {proof.checked} would have been answered falsely",
        )

    def _related(
        self, item: Item, name: str, equal_calls: Sequence[_Recorded], writes: Sequence[ToolCall]
    ) -> CorpusRecording | None:
        """Return the nearest recording of the same session or user with no write between."""
        if not self._rules.facts.proofs.get(name, Proof()).allows_related(self._rules.max_false):
            return None
        user = self._user_of(item)
        related = [
            call
            for call in equal_calls
            if (item.session_id is not None and call.session_id == item.session_id)
            or (user is not None and call.user_id == user)
        ]
        if not related or len({call.outcome for call in related}) > 1:
            return None
        nearest = _nearest(item, related)
        recorded = self._result(nearest)
        if self._concerned([*writes, *self._between(item, nearest, user)], recorded):
            return None
        relation = "session" if nearest.session_id == item.session_id and item.session_id else "user"
        return CorpusRecording(
            recorded=recorded,
            trace_id=nearest.trace_id,
            note=f"recorded in another trace of the same {relation}",
        )

    def _concerned(self, calls: Sequence[ToolCall], recorded: ToolCall) -> bool:
        """Return whether one of some calls is a write that may change a recorded call."""
        tape = self._rules.tape
        call = tape.recorded(recorded)
        writes = (tape.recorded(write) for write in calls if not tape.reads(write.name))
        return any(tape.concerns(write, call) for write in writes)

    def _between(self, item: Item, call: _Recorded, user: str | None) -> list[ToolCall]:
        """Return the calls of the session's or user's traces between a recorded call and the item."""
        if item.started_at is None:
            return [*item.tape]
        earlier, later = sorted((call.at, item.started_at))
        ids = self._cursor().execute(
            "SELECT trace_id FROM traces WHERE started_at BETWEEN ? AND ? AND trace_id <> ?"
            " AND (session_id = ? OR user_id = ?)",
            [earlier, later, item.trace_id or "", item.session_id, user],
        )
        between = [] if call.at < item.started_at else [*item.tape]
        traces = [trace_id for (trace_id,) in ids.fetchall()]
        for trace in iter_traces(self._cursor(), {*traces, call.trace_id}, without=_UNREAD):
            calls = trace.tool_calls
            if trace.trace_id == call.trace_id:
                after = call.at < item.started_at
                calls = calls[call.position + 1 :] if after else calls[: call.position]
            between += map(self._rules.renames.call, calls)
        return between

    def _user_of(self, item: Item) -> str | None:
        if item.trace_id is None:
            return None
        if item.trace_id not in self._users:
            row = (
                self._cursor()
                .execute("SELECT user_id FROM traces WHERE trace_id = ?", [item.trace_id])
                .fetchone()
            )
            self._users[item.trace_id] = row[0] if row else None
        return self._users[item.trace_id]

    def _read_calls(self, name: str) -> dict[bytes, list[_Recorded]]:
        renames, tape = self._rules.renames, self._rules.tape
        recorded_names = [
            row[0] for row in self._cursor().execute("SELECT DISTINCT name FROM tool_calls").fetchall()
        ]
        reads = [recorded for recorded in recorded_names if tape.reads(renames.name(recorded))]
        rows = self._cursor().execute(_CALLS, {"reads": reads, "names": renames.earlier(name)})
        calls: dict[bytes, list[_Recorded]] = {}
        while batch := rows.fetchmany(_ROWS):
            for *fields, args in batch:
                present = renames.arguments(name, _read_args(args))
                calls.setdefault(self._key(name, present), []).append(_Recorded(*fields))
        return calls

    def _result(self, call: _Recorded) -> ToolCall:
        [(name, args, result, error)] = (
            self._cursor()
            .execute(
                "SELECT name, args, result, error FROM tool_calls WHERE trace_id = ? AND index = ?",
                [call.trace_id, call.position],
            )
            .fetchall()
        )
        return self._rules.renames.call(
            ToolCall(
                name=name,
                args=_read_args(args),
                result=None if result is None else MediaFolder.of(self._cursor()).filled(_read_value(result)),
                error=error,
            )
        )

    def _key(self, name: str, args: JsonObject) -> bytes:
        text = canonical_args(args, self._rules.ignored(name))
        return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()

    def _cursor(self) -> DuckDBPyConnection:
        if self._con is None:
            raise RuntimeError("the corpus was not opened")
        return self._con


def _nearest(item: Item, calls: Sequence[_Recorded]) -> _Recorded:
    """Return the call nearest in time to the item, or the latest where the item has no time."""
    at = item.started_at or max(call.at for call in calls)
    return min(calls, key=lambda call: (abs(call.at - at), call.trace_id, call.position))
