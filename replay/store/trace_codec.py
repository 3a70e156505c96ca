"""A trace as columns of the store, and as a record of the published trace format.

Both follow the fields of `replay.model.Trace`, `ToolCall` and `Step` and their types: a field that is added
there needs a column in a migration and nothing here.

Binding each of some thirty columns as a Python list takes longer than all the rest of a write. So the short
columns of a trace are one JSON object, and those of its tool calls one array, which DuckDB takes apart; what
is JSON in the store already stays apart, since it would be written as JSON twice.

A record is what `replay import jsonl` reads back. Messages are written in OpenAI's shape, which every tool
for chats knows. `tool_path` marks a record as our own: what is null in it was unknown, and is not worked out
anew from the messages.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from itertools import count
from operator import attrgetter, eq
from typing import Any, NamedTuple

import msgspec

from replaydiff.replay.model import Message, Step, ToolCall, Trace, TraceState, Usage, Witness
from replaydiff.replay.store import sql
from replaydiff.replay.store.sql import clean_text, encode

_SQL_TYPES: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "INTEGER",
    float: "DOUBLE",
    str: "VARCHAR",
    datetime: "TIMESTAMP",
    tuple[str, ...]: "VARCHAR[]",
}
"""Type of a field → type of its column; a field of any other type is JSON text."""
_JSON = "VARCHAR"
_APART = ("trace_id", "source", "updated_at", "metadata", "messages", "steps", "tool_calls")
"""Fields of a trace that are not among the short columns."""


def field_types(kind: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass, without the `None` of optional fields."""
    hints = typing.get_type_hints(kind)
    found = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        others = [one for one in typing.get_args(hint) if one is not type(None)]
        optional = type(None) in typing.get_args(hint)
        found[field.name] = others[0] if optional and len(others) == 1 else hint
    return found


class _Column(NamedTuple):
    name: str
    attribute: str
    """What of the dataclass it holds: a field, or a property."""
    type: str
    convert: Callable[[Any], Any] | None = None
    """What makes its value of one that is not None."""


def _of_field(name: str, kind: Any) -> _Column:
    if kind not in _SQL_TYPES:
        return _Column(name, name, _JSON, encode)
    return _Column(name, name, _SQL_TYPES[kind], sql.real if kind is float else None)


def _tokens(name: str) -> _Column:
    read = attrgetter(name)
    return _Column(name, "usage", "BIGINT", lambda usage: sql.whole(read(usage)))


_BESIDE = {
    "ended_at": (_Column("state", "state", "VARCHAR"),),
    "tags": (_Column("tool_path", "tool_path", "VARCHAR"),),
    "usage": (_tokens("input_tokens"), _tokens("output_tokens")),
}
"""Field → columns behind it that are worked out, so that SQL can ask for them."""


class _Table:
    """The columns of a dataclass, and the JSON object of them."""

    def __init__(self, columns: Sequence[_Column]) -> None:
        self.types = {column.name: column.type for column in columns}
        self._read = attrgetter(*(column.attribute for column in columns))
        self._converted = [(n, column.convert) for n, column in enumerate(columns) if column.convert]
        fields = [(column.name, Any, None) for column in columns]
        self._object = msgspec.defstruct("_Columns", fields, omit_defaults=True)

    def object_of(self, value: Any) -> Any:
        """Return the columns of a value as one object; what is None is left out when it is encoded."""
        values = list(self._read(value))
        for place, convert in self._converted:
            if values[place] is not None:
                values[place] = convert(values[place])
        return self._object(*values)


_TRACE = _Table(
    [
        column
        for name, kind in field_types(Trace).items()
        if name not in _APART
        for column in (_of_field(name, kind), *_BESIDE.get(name, ()))
    ]
)
_CALL = _Table([_of_field(name, kind) for name, kind in field_types(ToolCall).items()])

COLUMNS = _TRACE.types
"""What `TraceRow.columns` holds: name → SQL type."""
FACTS = tuple(name for name in COLUMNS if name not in ("incomplete", "usage"))
"""Those that are shown: `state` says the same as `incomplete`, and the tokens stand beside `usage`."""
CALL_COLUMNS = _CALL.types
"""What each object of `TraceRow.calls` holds: name → SQL type."""


def json_readers(kind: type) -> dict[str, Callable[[str | bytes], Any]]:
    """Return what reads the columns of a dataclass that are JSON text: name → reader."""
    return {
        name: sql.reader(hint)
        for name, hint in field_types(kind).items()
        if hint not in _SQL_TYPES and name != "tool_calls"
    }


class TraceRow(NamedTuple):
    """One trace, clean and encoded."""

    source: str
    source_id: str
    digest: str
    """Hash of the columns, the four texts below them, and nothing else."""
    columns: str
    """One JSON object; what is null is left out."""
    metadata: str
    messages: str
    steps: str
    calls: str
    """JSON array of the tool calls; empty where there is none."""
    counts: tuple[int, int, int, int]
    """Tool calls; those of which neither a result nor an error was recorded; those paired with their results
    by name alone; those whose pairing is contradicted."""
    state: TraceState
    updated_at: datetime | None
    characters: int
    """How much text it is."""
    record_hash: str = ""
    """A number of 128 bits that an import knows the trace's record by; empty where it is made of several."""


_columns_of: Callable[[object], tuple[list[Any], ...]] = attrgetter(*TraceRow._fields)


@dataclasses.dataclass(frozen=True, slots=True)
class TraceColumns:
    """Rows as columns: a column is sent to another process, or given to DuckDB, as one value.

    Each field is a column of `TraceRow`; all have the same length.
    """

    source: list[str]
    source_id: list[str]
    digest: list[str]
    columns: list[str]
    metadata: list[str]
    messages: list[str]
    steps: list[str]
    calls: list[str]
    counts: list[tuple[int, int, int, int]]
    state: list[TraceState]
    updated_at: list[datetime | None]
    characters: list[int]
    record_hash: list[str]

    @classmethod
    def of(cls, rows: Iterable[TraceRow] = ()) -> TraceColumns:
        """Return rows as columns, in their order."""
        columns = list(map(list, zip(*rows, strict=True)))
        return cls(*columns or ([] for _ in TraceRow._fields))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.source_id)

    def append(self, row: TraceRow) -> None:
        """Add one row at the end."""
        for column, value in zip(_columns_of(self), row, strict=True):
            column.append(value)

    def extend(self, rows: TraceColumns) -> None:
        """Add rows at the end."""
        for column, more in zip(_columns_of(self), _columns_of(rows), strict=True):
            column.extend(more)

    def each(self) -> Iterator[TraceRow]:
        """Yield the rows one by one."""
        return map(TraceRow._make, zip(*_columns_of(self), strict=True))

    def take(self, places: Sequence[int]) -> TraceColumns:
        """Return the rows at these positions, in this order."""
        if len(places) == len(self) and all(map(eq, places, count())):
            return self
        return TraceColumns(*([column[place] for place in places] for column in _columns_of(self)))


def encode_trace(trace: Trace, record_hash: str = "") -> TraceRow:
    """Return the row of a trace.

    Args:
        trace: what is stored.
        record_hash: by which an import knows the record that it was made of.
    """
    columns = _TRACE.object_of(trace)
    metadata = encode(trace.metadata) if trace.metadata else "{}"
    messages = encode(trace.messages) if trace.messages else "[]"
    steps = encode(trace.steps) if trace.steps else "[]"
    texts = (encode(columns), metadata, messages, steps, _calls(trace.tool_calls))
    return TraceRow(
        clean_text(trace.source),
        clean_text(trace.trace_id),
        _digest(texts),
        *texts,
        counts=_counts(trace.tool_calls),
        state=columns.state,
        updated_at=trace.updated_at,
        characters=sum(map(len, texts)),
        record_hash=record_hash,
    )


def _counts(calls: Sequence[ToolCall]) -> tuple[int, int, int, int]:
    unanswered = by_name = conflicts = 0
    for call in calls:
        unanswered += not call.answered and call.error is None
        by_name += call.witness == Witness.NAME
        conflicts += call.conflict is not None
    return len(calls), unanswered, by_name, conflicts


def _calls(calls: Sequence[ToolCall]) -> str:
    objects = [_CALL.object_of(call) for call in calls]
    for index, one in enumerate(objects):
        one.index = index
    return encode(objects) if objects else ""


def _digest(texts: Sequence[str]) -> str:
    # No JSON text holds a NUL.
    return f"blake2b:{hashlib.blake2b(chr(0).join(texts).encode(), digest_size=16).hexdigest()}"


PUBLIC_NAMES = {"call_id": "id", "source_span_id": "id"}
"""Field → its name in a record, where that is another."""
_TRACE_FIELDS = tuple(field.name for field in dataclasses.fields(Trace))
_CALL_FIELDS = tuple(field.name for field in dataclasses.fields(ToolCall) if field.name != "index")
_STEP_FIELDS = tuple(field.name for field in dataclasses.fields(Step) if field.name != "index")


def trace_record(trace: Trace) -> dict[str, Any]:
    """Return a trace as a record of the published format: plain JSON values."""
    record = {name: _public(getattr(trace, name)) for name in _TRACE_FIELDS}
    for name in ("messages", "steps"):
        if not record[name]:
            del record[name]
    return {**record, "tool_path": trace.tool_path}


def _public(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat() + "Z"
        case Enum():
            return value.value
        case Usage():
            return msgspec.to_builtins(value)
        case Message():
            return _message(value)
        case ToolCall():
            return _call(value)
        case Step():
            return _known(value, _STEP_FIELDS)
        case tuple():
            return [_public(one) for one in value]
    return value


def _known(value: Step | ToolCall, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    found = {PUBLIC_NAMES.get(name, name): _public(getattr(value, name)) for name in names}
    return {name: held for name, held in found.items() if held is not None and held != []}


def _call(call: ToolCall) -> dict[str, Any]:
    record = _known(call, _CALL_FIELDS)
    if record["answered"]:
        # An answer of nothing is an answer, too.
        del record["answered"]
        record["result"] = call.result
    return record


def _message(message: Message) -> dict[str, Any]:
    record: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        record["tool_calls"] = [_request(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        record["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        record["name"] = message.name
    if message.is_error:
        record["is_error"] = True
    return record


def _content(message: Message) -> Any:
    if message.data is not None:
        return message.data
    if message.text.startswith("[{"):
        # A list as bare text may be what another framework writes for a request: in a part it is text.
        return [{"type": "text", "text": message.text}]
    return message.text


def _request(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.args).decode()
    record: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return record if call.call_id is None else {"id": call.call_id, **record}
