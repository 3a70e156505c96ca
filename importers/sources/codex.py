"""Codex CLI sessions: the rollout files under `~/.codex/sessions`, one or a folder of them.

A line is `{timestamp, type, payload}`; `response_item` lines hold the items of the Responses API, which make
the conversation. Events repeat them, but for token counts. A session has many turns of its user, and each
turn is a trace: `SESSION:NUMBER`, which names the one that it continues. The release is the version of Codex.
What Codex itself puts into the user's mouth (the environment, instructions) is no turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.call_notes import ORPHANS, UNKNOWN_CALLS, has_orphan, has_unread_calls
from replaydiff.importers.convert import guarded, refused, reject
from replaydiff.importers.reading import Broken, Record, records
from replaydiff.replay.messages import final_response, join_results, read_messages
from replaydiff.replay.model import Json, JsonObject, Message, Trace, Usage, as_object, total_usage

NAME = "codex"
RECOGNISED_BY = "records are lines of a Codex rollout"

_TYPES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_NOT_TYPED = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md", "<turn_aborted>")
"""How a text begins that stands in a user's message and that no user typed."""
_WITHOUT_WORDS = ("message", "reasoning", "compaction", "compaction_summary", "ghost_snapshot", "other")
"""Items that hold no tool call: an empty message, and what Codex keeps for itself."""


def recognises(record: Json) -> float:
    """Recognise a record by the envelope of a line, and the types that Codex writes."""
    if not isinstance(record, dict) or not isinstance(record.get("payload"), dict):
        return 0.0
    if "timestamp" not in record or not isinstance(record.get("type"), str):
        return 0.0
    return 0.95 if record["type"] in _TYPES else 0.5


@dataclass(slots=True)
class _RolloutTurn:
    """What the user typed, and all that came of it."""

    prompt: Message
    number: int
    continues: str | None
    """The id of the trace before it."""
    first: Record
    produced: list[Message] = field(default_factory=list)
    counts: list[Json] = field(default_factory=list)
    """Tokens of each call of the model, as reported."""
    last: JsonObject = field(default_factory=dict)
    mcp_calls: set[str] = field(default_factory=set)
    """Ids of the calls that events report of MCP servers; each is an item of its own, too."""
    error: str | None = None
    is_aborted: bool = False


class _Session:
    """The state of reading a rollout file: only the current turn."""

    def __init__(self, file: InputFile) -> None:
        self.meta: JsonObject = {}
        self._file = file
        self._context: JsonObject = {}
        self._turn: _RolloutTurn | None = None
        self._last: str | None = None
        """The id of the latest trace."""
        self._number = 0
        self._items: list[Json] = []
        """What the current turn was recorded as."""

    def take(self, record: Record) -> Iterator[Imported]:
        """Read a line; a user's message ends the turn before it."""
        line = as_object(record.value)
        payload = line.get("payload")
        if not isinstance(payload, dict) or not isinstance(line.get("type"), str):
            yield refused(
                NAME, self._file, record, "a line of a session must be an object with type and payload"
            )
            return
        kind = line["type"]
        if kind == "session_meta":
            self.meta = payload
        elif kind == "turn_context":
            self._context = payload
        elif kind == "response_item":
            messages = read_messages([payload]) or ()
            self._items.append(payload)
            for message in messages:
                yield from self._message(message, record, line)
            if not messages:
                yield from self._unread(payload, record)
        elif kind == "event_msg" and self._turn is not None:
            self._event(payload)

    def _unread(self, payload: JsonObject, record: Record) -> Iterator[Imported]:
        """Report an item that holds nothing of a conversation, unless its type never does."""
        kind = payload.get("type")
        if not isinstance(kind, str) or not kind:
            yield refused(NAME, self._file, record, "a response_item must have a payload with a type")
        elif kind not in _WITHOUT_WORDS:
            yield Note("items of a type that is not known were left out")

    def end(self) -> Iterator[Imported]:
        """Yield the trace of the turn that is under way."""
        turn, self._turn = self._turn, None
        items, self._items = self._items, []
        if turn is None:
            return
        if not turn.produced and turn.error is None:
            yield Skipped("prompts that were not answered")
            return
        for item in guarded(NAME, self._file, turn.first, lambda _value, _file: [self._trace(turn)]):
            if isinstance(item, Trace):
                others = turn.mcp_calls - {call.call_id for call in item.tool_calls}
                if others or has_unread_calls(items, item):
                    yield Note(UNKNOWN_CALLS)
                if has_orphan(item):
                    yield Note(ORPHANS)
                self._last = item.trace_id
            yield item

    def _message(self, message: Message, record: Record, line: JsonObject) -> Iterator[Imported]:
        if message.role == "user":
            if message.text.lstrip().startswith(_NOT_TYPED):
                return
            yield from self.end()
            self._turn = _RolloutTurn(message, self._number, self._last, record)
            self._number += 1
        elif message.role in ("assistant", "tool") and self._turn is not None:
            self._turn.produced.append(message)
        elif message.tool_calls or message.role == "tool":
            yield refused(NAME, self._file, record, "a tool call or result before the first prompt")
        if self._turn is not None:
            self._turn.last = line

    def _event(self, payload: JsonObject) -> None:
        turn, kind = self._turn, payload.get("type")
        if turn is None:
            return
        if kind == "token_count":
            turn.counts.append(as_object(payload.get("info")).get("last_token_usage"))
        elif kind in ("mcp_tool_call_begin", "mcp_tool_call_end"):
            turn.mcp_calls.add(str(payload.get("call_id")))
        elif kind == "error":
            message = payload.get("message")
            turn.error = message if isinstance(message, str) else "the turn failed"
        elif kind == "turn_aborted":
            turn.is_aborted = True

    def _trace(self, turn: _RolloutTurn) -> Trace:
        session = self.meta.get("id")
        if not isinstance(session, str) or not session:
            raise RecordError("the session has no session_meta line with an id before it")
        first = as_object(turn.first.value)
        started_at = fields.time(first, "timestamp") or self._file.modified_at
        ended_at = fields.time(turn.last, "timestamp")
        response = final_response(turn.produced)
        metadata: JsonObject = {
            key: self.meta[key]
            for key in ("cwd", "originator", "source")
            if isinstance(self.meta.get(key), str)
        }
        if turn.is_aborted:
            metadata["interrupted"] = True
        return Trace(
            trace_id=f"{session}:{turn.number}",
            source=NAME,
            started_at=started_at,
            ended_at=ended_at,
            session_id=session,
            release=_text(self.meta.get("cli_version")),
            model=_text(self._context.get("model")),
            input=turn.prompt.text,
            messages=(turn.prompt, *turn.produced),
            continues=turn.continues,
            final_response=response,
            tool_calls=join_results(turn.produced),
            usage=total_usage(map(_usage, turn.counts)),
            latency_ms=fields.elapsed_ms(started_at, ended_at),
            error=turn.error if response is None else None,
            metadata=metadata,
        )


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Yield one trace for each turn; each file is a session."""
    return chain.from_iterable(map(_session, files))


def _session(file: InputFile) -> Iterator[Imported]:
    session = _Session(file)
    for record in records(file):
        if isinstance(record, Broken):
            yield reject(NAME, file, record)
        else:
            yield from session.take(record)
    yield from session.end()


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _usage(value: Json) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(
        input_tokens=fields.count(value, "input_tokens"),
        output_tokens=fields.count(value, "output_tokens"),
        cache_read_tokens=fields.count(value, "cached_input_tokens"),
    )
