"""A trace as columns of the store, and as a record of the published trace format.

Both follow the fields of `replay.model.Trace`, `ToolCall` and `Step` and their types: a field that is added
there needs a column in a migration and nothing here.

Rows are packed into columns that DuckDB reads without a copy (`arrow`), where they are made, maybe in another
process: whoever writes them looks at their ids, digests and times alone.

A record is what `replay import jsonl` reads back. Messages are written in OpenAI's shape, which every tool
for chats knows. `tool_path` marks a record as our own: what is null in it was unknown, and is not worked out
anew from the messages.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from replaydiff.replay.model import Message, Step, ToolCall, Trace, TraceState, Usage, Witness
from replaydiff.replay.store import arrow, sql
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
_ARROW_TYPES = {
    "BOOLEAN": arrow.BOOLEAN,
    "INTEGER": arrow.INT32,
    "BIGINT": arrow.INT64,
    "DOUBLE": arrow.DOUBLE,
    "VARCHAR": arrow.TEXT,
    "TIMESTAMP": arrow.TIMESTAMP,
    "VARCHAR[]": arrow.list_of(arrow.TEXT),
}
_APART = ("trace_id", "source", "updated_at", "metadata", "messages", "steps", "tool_calls")
"""Fields of a trace that are not among the short columns."""


def field_types(kind: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass, without the `None` of optional fields."""
    hints = typing.get_type_hints(kind)
    types = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        others = [member for member in typing.get_args(hint) if member is not type(None)]
        optional = type(None) in typing.get_args(hint)
        types[field.name] = others[0] if optional and len(others) == 1 else hint
    return types


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
        self.arrow_types = {
            column.name: arrow.JSON_TEXT if column.convert is encode else _ARROW_TYPES[column.type]
            for column in columns
        }
        fields = [(column.name, Any, None) for column in columns]
        self.object_of = msgspec.defstruct("_Columns", fields, omit_defaults=True)
        """Values → one object; what is None is left out when it is encoded."""

    def values_of(self, value: Any) -> list[Any]:
        """Return the columns of a value."""
        values = list(self._read(value))
        for position, convert in self._converted:
            if values[position] is not None:
                values[position] = convert(values[position])
        return values


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
"""Fields of the published record: `state` repeats `incomplete`, and the token columns repeat `usage`."""
CALL_COLUMNS = _CALL.types
"""What each of `TraceRow.calls` holds: name → SQL type."""
_STATE, _INDEX = list(COLUMNS).index("state"), list(CALL_COLUMNS).index("index")


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
    """Hash of the JSON of the columns, the three texts below them and the calls, and nothing else."""
    columns: list[Any]
    """The values of `COLUMNS`."""
    metadata: str
    messages: str
    steps: str
    calls: list[list[Any]]
    """The values of `CALL_COLUMNS` of each tool call."""
    counts: tuple[int, int, int, int]
    """Tool calls; those of which neither a result nor an error was recorded; those paired with their results
    by name alone; those whose pairing is contradicted."""
    state: TraceState
    updated_at: datetime | None
    characters: int
    """How much text it is."""
    record_hash: str = ""
    """A number of 128 bits that an import knows the trace's record by; empty where it is made of several."""


PACKED: dict[str, arrow.ColumnType] = {
    "source": arrow.TEXT,
    "source_id": arrow.TEXT,
    "content_hash": arrow.TEXT,
    "updated_at": arrow.TIMESTAMP,
    "record_hash": arrow.TEXT,
    "call_counts": arrow.list_of(arrow.INT32),
    "metadata": arrow.JSON_TEXT,
    "messages": arrow.JSON_TEXT,
    "steps": arrow.JSON_TEXT,
    "calls": arrow.list_of(arrow.struct_of(_CALL.arrow_types)),
    **_TRACE.arrow_types,
}
"""What a packed row holds: name → type. `calls` are the rows of its tool calls but for the trace's id."""


@dataclasses.dataclass(frozen=True, slots=True)
class TraceColumns:
    """Rows as columns: sent to another process, or given to DuckDB, as a few large values.

    The lists are what an import decides by; each has one value a row, named as in `TraceRow`.
    """

    source: list[str]
    source_id: list[str]
    digest: list[str]
    counts: list[tuple[int, int, int, int]]
    state: list[TraceState]
    updated_at: list[datetime | None]
    characters: list[int]
    record_hash: list[str]
    parts: list[tuple[arrow.ArrowColumn, ...]]
    """All columns (`PACKED`) of the rows, some rows in each part."""

    @classmethod
    def of(cls, rows: Iterable[TraceRow] = ()) -> TraceColumns:
        """Return rows as columns, in their order.

        Raises:
            ValueError: a value is not of its column's type; names the column.
        """
        columns = cls([], [], [], [], [], [], [], [], [])
        row_list = [*rows]
        if row_list:
            fields = TraceRow(*zip(*row_list, strict=True))
            for target, more in zip(_lists_of(columns), _lists_of(fields), strict=True):
                target.extend(more)
            columns.parts.append(_packed(fields))
        return columns

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.source_id)

    def extend(self, rows: TraceColumns) -> None:
        """Add rows at the end."""
        for target, more in zip(_lists_of(self), _lists_of(rows), strict=True):
            target.extend(more)
        self.parts.extend(rows.parts)


_lists_of: Callable[[object], tuple[list[Any], ...]] = attrgetter(
    *(field.name for field in dataclasses.fields(TraceColumns) if field.name != "parts")
)


def _packed(rows: Any) -> tuple[arrow.ArrowColumn, ...]:
    """Return the columns of some rows.

    Args:
        rows: a `TraceRow` with a list of values, one of each row, in place of each value.
    """
    columns = zip(*rows.columns, strict=True)
    hashes = [record_hash or None for record_hash in rows.record_hash]
    apart = (rows.source, rows.source_id, rows.digest, rows.updated_at, hashes, rows.counts)
    texts = (rows.metadata, rows.messages, rows.steps, rows.calls)
    columns_of_rows = []
    for (name, kind), values in zip(PACKED.items(), (*apart, *texts, *columns), strict=True):
        try:
            columns_of_rows.append(arrow.column(kind, values))
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} of a trace cannot be stored: {error}") from error
    return tuple(columns_of_rows)


def encode_trace(trace: Trace, record_hash: str = "") -> TraceRow:
    """Return the row of a trace.

    Args:
        trace: what is stored.
        record_hash: by which an import knows the record that it was made of.
    """
    columns = _TRACE.values_of(trace)
    calls = _calls(trace.tool_calls)
    metadata = encode(trace.metadata) if trace.metadata else "{}"
    messages = encode(trace.messages) if trace.messages else "[]"
    steps = encode(trace.steps) if trace.steps else "[]"
    objects = [_CALL.object_of(*call) for call in calls]
    texts = (
        encode(_TRACE.object_of(*columns)),
        metadata,
        messages,
        steps,
        encode(objects) if objects else "",
    )
    return TraceRow(
        clean_text(trace.source),
        clean_text(trace.trace_id),
        _digest(texts),
        columns,
        metadata,
        messages,
        steps,
        calls,
        counts=_counts(trace.tool_calls),
        state=columns[_STATE],
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


def _calls(calls: Sequence[ToolCall]) -> list[list[Any]]:
    rows = [_CALL.values_of(call) for call in calls]
    for index, values in enumerate(rows):
        values[_INDEX] = index
    return rows


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
            return _public_fields(value, _STEP_FIELDS)
        case tuple():
            return [_public(member) for member in value]
    return value


def _public_fields(value: Step | ToolCall, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    public_values = {PUBLIC_NAMES.get(name, name): _public(getattr(value, name)) for name in names}
    return {
        name: field_value
        for name, field_value in public_values.items()
        if field_value is not None and field_value != []
    }


def _call(call: ToolCall) -> dict[str, Any]:
    record = _public_fields(call, _CALL_FIELDS)
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
