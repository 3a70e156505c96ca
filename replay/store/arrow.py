"""Columns of values in the layout of Apache Arrow, which DuckDB reads in place.

A column is built where its values are, maybe in another process, from which it is sent as a few large
buffers, laid out as https://arrow.apache.org/docs/format/Columnar.html specifies.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from replaydiff.replay.store.sql import clean_text

if TYPE_CHECKING:
    import nanoarrow


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of the values of a column."""

    format: bytes
    """Arrow's code for the type."""
    children: tuple[tuple[str, ColumnType], ...] = ()
    """Of a list the type of its elements; of a struct names and types of its fields."""
    is_json: bool = False
    """Texts are JSON, which DuckDB takes as such without parsing it again."""


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """Values of one type, equally many in all columns of a table."""

    length: int
    null_count: int
    buffers: tuple[bytes | None, ...]
    """Which values there are (a bit each; None for all), then what the type needs."""
    children: tuple[ArrowColumn, ...] = ()


TEXT = ColumnType(b"U")
JSON_TEXT = ColumnType(b"U", is_json=True)
BOOLEAN = ColumnType(b"b")
INT32 = ColumnType(b"i")
INT64 = ColumnType(b"l")
DOUBLE = ColumnType(b"g")
TIMESTAMP = ColumnType(b"tsu:")


def list_of(element: ColumnType) -> ColumnType:
    """Return the type of lists of one type."""
    return ColumnType(b"+L", (("element", element),))


def struct_of(fields: Mapping[str, ColumnType]) -> ColumnType:
    """Return the type of structs with these fields, none of which is null as a whole."""
    return ColumnType(b"+s", tuple(fields.items()))


def column(kind: ColumnType, values: Sequence[Any]) -> ArrowColumn:
    """Return values as a column.

    Args:
        kind: their type; texts are made storable (see `clean_text`), structs are given as sequences.
        values: texts, numbers, naive times, or sequences; None where there is none.
    """
    if kind.format == b"+L":
        return _lists(kind, values)
    if kind.format == b"+s":
        return _structs(kind, values)
    if values and values[0] is None and values.count(None) == len(values):
        return _null_column(kind, len(values))
    if kind.format == b"U":
        return _texts(values)
    nulls = values.count(None)
    present = _present(values) if nulls else None
    if kind.format == b"b":
        return ArrowColumn(len(values), nulls, (present, _bits([value is True for value in values])))
    if kind.format == b"tsu:":
        numbers = [0 if time is None else (time - _EPOCH) // _MICROSECOND for time in values]
    else:
        numbers = [0 if value is None else value for value in values]
    return ArrowColumn(len(values), nulls, (present, array(_NUMBERS[kind.format], numbers).tobytes()))


_NUMBERS = {b"i": "i", b"l": "q", b"g": "d", b"tsu:": "q"}
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)


def _present(values: Sequence[Any]) -> bytes:
    return _bits([value is not None for value in values])


def _bits(values: Sequence[bool]) -> bytes:
    """Return a bit each, the first one as the lowest."""
    if not values:
        return b""
    number = int("".join(["1" if value else "0" for value in reversed(values)]), 2)
    return number.to_bytes((len(values) + 7) // 8, "little")


def _null_column(kind: ColumnType, length: int) -> ArrowColumn:
    """Return a column without a value."""
    buffers = (bytes((length + 7) // 8), bytes(8 * length + 8))
    return ArrowColumn(length, length, (*buffers, b"") if kind.format == b"U" else buffers)


def _texts(values: Sequence[str | None]) -> ArrowColumn:
    nulls, present = 0, None
    texts: Sequence[Any] = values
    try:
        joined = "".join(texts)
    except TypeError:
        nulls, present = values.count(None), _present(values)
        texts = ["" if value is None else value for value in values]
        joined = "".join(texts)
    if joined.isascii() and "\x00" not in joined:
        data = joined.encode()
    else:
        texts = [clean_text(text).encode() for text in texts]
        data = b"".join(texts)
    return ArrowColumn(len(values), nulls, (present, _offsets(texts), data))


def _lists(kind: ColumnType, values: Sequence[Sequence[Any]]) -> ArrowColumn:
    [(_, element)] = kind.children
    elements = column(element, [*chain.from_iterable(values)])
    return ArrowColumn(len(values), 0, (None, _offsets(values)), (elements,))


def _structs(kind: ColumnType, values: Sequence[Sequence[Any]]) -> ArrowColumn:
    fields = zip(*values, strict=True) if values else ((),) * len(kind.children)
    children = [column(of, field_values) for (_, of), field_values in zip(kind.children, fields, strict=True)]
    return ArrowColumn(len(values), 0, (None,), tuple(children))


def _offsets(values: Sequence[Sequence[Any]]) -> bytes:
    """Return where each value begins among those of all, and where the last one ends."""
    return array("q", accumulate(map(len, values), initial=0)).tobytes()


def table(kinds: Mapping[str, ColumnType], parts: Sequence[Sequence[ArrowColumn]]) -> nanoarrow.Array:
    """Return columns of these names and types as a table that DuckDB can `register`.

    Args:
        kinds: name of each column → its type.
        parts: some rows each, as columns in that order; they are read in place.
    """
    # Most commands write no traces.
    import nanoarrow

    whole = struct_of(kinds)
    arrays = [_array(whole, ArrowColumn(len_of(part), 0, (None,), tuple(part))) for part in parts]
    # The parts have the types of their columns, and no others can be asked for.
    whole_table: nanoarrow.Array = nanoarrow.Array.from_chunks(
        arrays, None if arrays else _schema(whole), validate=False
    )
    return whole_table


def len_of(part: Sequence[ArrowColumn]) -> int:
    """Return the number of rows of some columns of a table."""
    return part[0].length if part else 0


def _schema(kind: ColumnType) -> nanoarrow.Schema:
    import nanoarrow

    if kind.format == b"+L":
        [(_, element)] = kind.children
        return nanoarrow.large_list(_schema(element))
    if kind.format == b"+s":
        return nanoarrow.struct({name: _schema(child) for name, child in kind.children})
    if kind.is_json:
        return nanoarrow.extension_type(nanoarrow.large_string(), "arrow.json")
    return _SCHEMAS[kind.format](nanoarrow)


_SCHEMAS: dict[bytes, Callable[[Any], nanoarrow.Schema]] = {
    b"U": lambda library: library.large_string(),
    b"b": lambda library: library.bool_(),
    b"i": lambda library: library.int32(),
    b"l": lambda library: library.int64(),
    b"g": lambda library: library.float64(),
    b"tsu:": lambda library: library.timestamp("us"),
}


def _array(kind: ColumnType, data: ArrowColumn) -> Any:
    import nanoarrow

    children = [_array(of, child) for (_, of), child in zip(kind.children, data.children, strict=True)]
    return nanoarrow.c_array_from_buffers(
        _schema(kind), data.length, data.buffers, data.null_count, children=children, move=True
    )
