"""Columns of values in the layout of Apache Arrow, which DuckDB reads in place.

A column is built where its values are, maybe in another process, from which it is sent as a few large
buffers. DuckDB reads tables of columns over Arrow's C stream interface, for which no Arrow library is needed:
https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from replaydiff.replay.store.sql import clean_text


@dataclass(frozen=True, slots=True)
class ColumnType:
    """What the values of a column are."""

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
        return _nothing(kind, len(values))
    if kind.format == b"U":
        return _texts(values)
    # Most commands read and write rows without it.
    import numpy as np

    nulls = values.count(None)
    present = _present(values) if nulls else None
    if kind.format == b"b":
        return ArrowColumn(len(values), nulls, (present, _bits(value is True for value in values)))
    if kind.format == b"tsu:":
        given = [0 if time is None else (time - _EPOCH) // _MICROSECOND for time in values]
    else:
        given = [0 if value is None else value for value in values]
    return ArrowColumn(len(values), nulls, (present, np.array(given, _NUMBERS[kind.format]).tobytes()))


_NUMBERS = {b"i": "int32", b"l": "int64", b"g": "float64", b"tsu:": "int64"}
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)


def _present(values: Sequence[Any]) -> bytes:
    return _bits(value is not None for value in values)


def _bits(values: Iterable[bool]) -> bytes:
    import numpy as np

    return np.packbits(np.fromiter(values, bool), bitorder="little").tobytes()


def _nothing(kind: ColumnType, length: int) -> ArrowColumn:
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
    children = [column(of, held) for (_, of), held in zip(kind.children, fields, strict=True)]
    return ArrowColumn(len(values), 0, (None,), tuple(children))


def _offsets(values: Sequence[Sequence[Any]]) -> bytes:
    """Return where each value begins among those of all, and where the last one ends."""
    import numpy as np

    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    return offsets.tobytes()


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))
_LastError = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))

_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_char_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _LastError),
    ("release", _ReleaseStream),
    ("private_data", ctypes.c_void_p),
]
_NULLABLE = 2


def _metadata(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    texts = [len(text).to_bytes(4, "little") + text for pair in pairs for text in pair]
    return (len(texts) // 2).to_bytes(4, "little") + b"".join(texts)


_JSON = _metadata([(b"ARROW:extension:name", b"arrow.json"), (b"ARROW:extension:metadata", b"")])


class Table:
    """A table that DuckDB can `register`; it must be there as long as it is registered.

    All memory belongs to this object, so what DuckDB calls to release a part only marks it as released.
    """

    def __init__(self, kinds: Mapping[str, ColumnType], parts: Sequence[Sequence[ArrowColumn]]) -> None:
        """Take columns of these names and types, some rows in each of the parts."""
        self._kind = struct_of(kinds)
        self._parts = [ArrowColumn(len_of(part), 0, (None,), tuple(part)) for part in parts]
        self._held: list[Any] = []

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a new stream of the table's parts, as a capsule."""
        parts = iter(self._parts)

        def get_schema(_stream: Any, out: Any) -> int:
            out[0] = self._schema(b"", self._kind)
            return 0

        def get_next(_stream: Any, out: Any) -> int:
            part = next(parts, None)
            out[0] = _Array() if part is None else self._array(part)
            return 0

        stream = _Stream(
            _GetSchema(get_schema), _GetNext(get_next), _LastError(lambda _: None), _ReleaseStream(_released)
        )
        self._held.append(stream)
        return _new_capsule(ctypes.addressof(stream), b"arrow_array_stream", None)

    def _schema(self, name: bytes, kind: ColumnType) -> _Schema:
        children = [self._schema(of.encode(), child) for of, child in kind.children]
        return _Schema(
            format=kind.format,
            name=name,
            metadata=_JSON if kind.is_json else None,
            flags=_NULLABLE,
            n_children=len(children),
            children=self._pointers(_Schema, children),
            release=_release_schema,
        )

    def _array(self, held: ArrowColumn) -> _Array:
        buffers = (ctypes.c_char_p * len(held.buffers))(*held.buffers)
        self._held.append(buffers)
        children = [self._array(child) for child in held.children]
        return _Array(
            length=held.length,
            null_count=held.null_count,
            n_buffers=len(buffers),
            n_children=len(children),
            buffers=ctypes.cast(buffers, ctypes.POINTER(ctypes.c_char_p)),
            children=self._pointers(_Array, children),
            release=_release_array,
        )

    def _pointers(self, kind: Any, structures: Sequence[Any]) -> Any:
        pointers = (ctypes.POINTER(kind) * len(structures))(*map(ctypes.pointer, structures))
        self._held.append(pointers)
        return pointers


def len_of(part: Sequence[ArrowColumn]) -> int:
    """Return the number of rows of some columns of a table."""
    return part[0].length if part else 0


def _released(structure: Any) -> None:
    # As Arrow's interface says: who releases something sets this to null.
    structure.contents.release = type(structure.contents.release)()


_release_schema = _ReleaseSchema(_released)
_release_array = _ReleaseArray(_released)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
