"""Write and read rows: many in one statement, JSON columns, ids, and text that any database takes.

A statement a row costs a millisecond a row, so each column is bound as one list. A person types an id whole,
or a beginning that only one id has. Real traces hold lone surrogates (half an emoji, cut by a length limit),
NULs and NaN. DuckDB refuses the first, other tools stumble over the rest, so all of them are replaced before
anything is stored: surrogates and NULs by U+FFFD, NaN and infinities by null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from replaydiff.replay.errors import InputError, StoreDamagedError, UnknownNameError
from replaydiff.replay.model import Json
from replaydiff.replay.model.json import decode_hook, encode_hook, to_json_value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BAD = re.compile("[\ud800-\udfff\x00]")
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


def clean(value: Json) -> Json:
    """Return the value with every string and key made storable, and NaN and infinities turned to null.

    Two keys that become equal by it keep the last value.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean_text(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


def clean_text(text: str) -> str:
    """Return the text with lone surrogates and NULs replaced by U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return _BAD.sub("\ufffd", text)


def encode(value: Any) -> str:
    """Clean JSON text of a domain type or JSON value (the encoder writes NaN and infinities as null)."""
    try:
        text = _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return encode(clean(to_json_value(value)))
    # A NUL is always written as this escape (it may also be a backslash before `u0000`: that stays).
    if "\\u0000" in text:
        return _encoder.encode(clean(msgspec.json.decode(text))).decode()
    return text


def clean_json_text(value: Any) -> str:
    """Return the same text, a line for each value."""
    return str(msgspec.json.format(encode(value), indent=1))


T = TypeVar("T")
_INT64 = 2**63


def insert(
    con: DuckDBPyConnection,
    table: str,
    columns: Mapping[str, str],
    rows: Sequence[Sequence[Any]],
    conflict: str = "",
) -> None:
    """Insert rows; `columns` is name → SQL type, `conflict` an `ON CONFLICT …` clause."""
    if not rows:
        return
    lists = [list(column) for column in zip(*rows, strict=True)]
    constant = [_is_constant(column) for column in lists]
    if all(constant):
        # One column gives the statement its number of rows.
        constant[0] = False
    values: list[str] = []
    unnested: list[str] = []
    parameters: list[Any] = []
    for kind, column, is_constant in zip(columns.values(), lists, constant, strict=True):
        # A list takes DuckDB twice as long as all the rest of the statement.
        parameters.append(column[0] if is_constant else column)
        placeholder = f"${len(parameters)}"
        if is_constant:
            values.append(f"{placeholder}::{kind}")
        else:
            values.append(f"c{len(unnested)}")
            unnested.append(f"unnest({placeholder}::{kind}[]) AS {values[-1]}")
    # Beside the lists, DuckDB would copy the constants for each row, which takes as long as the lists.
    con.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
        f" FROM (SELECT {', '.join(unnested)}) {conflict}",
        parameters,
    )


def columns_of(con: DuckDBPyConnection, table: str) -> dict[str, str]:
    """Return name → SQL type of a table's columns, in their order."""
    query = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
    return dict(con.execute(query, [table]).fetchall())


def _is_constant(column: list[Any]) -> bool:
    """Return whether a column holds one value only: the same object, or equal texts."""
    first = column[0]
    # Equal values of another type may differ: `1 == True`, `0.0 == -0.0`.
    if isinstance(first, str):
        return column.count(first) == len(column)
    return all(value is first for value in column)


def reader(type_: type[T]) -> Callable[[str], T]:
    """Return a function that reads stored JSON text as that type; it raises StoreDamagedError."""
    decode = decoder(type_)
    return lambda text: stored(decode, text)


def decoder(type_: type[T]) -> Callable[[str | bytes], T]:
    """Return a function that reads JSON text as that type; it raises ValueError."""
    return msgspec.json.Decoder(type_, dec_hook=decode_hook).decode


RESTORE = "restore it from a copy, or move it away and import again (golden sets are files of their own)"
"""What to do about a damaged store."""


def stored(read: Callable[[str], T], text: str) -> T:
    """Return what `read` makes of a stored text.

    Raises:
        StoreDamagedError: no release writes such a text.
    """
    try:
        return read(text)
    except (ValueError, UnknownNameError) as error:
        raise StoreDamagedError(
            f"the store is damaged: it holds {text[:60]!r}, which cannot be read ({error})", hint=RESTORE
        ) from None


def whole(number: int | None) -> int | None:
    """Return a number for a BIGINT column; None if it does not fit (the JSON column keeps it)."""
    return number if number is not None and -_INT64 <= number < _INT64 else None


def real(number: float | None) -> float | None:
    """Return a number for a DOUBLE column; None if it does not fit, is NaN or infinite."""
    if number is None:
        return None
    try:
        return float(number) if math.isfinite(number) else None
    except OverflowError:
        return None


def resolve(con: DuckDBPyConnection, table: str, column: str, name: str, kind: str, hint: str) -> str:
    """Return the full id for an id or its unique beginning of at least six characters.

    Raises:
        UnknownNameError: nothing is called that.
        InputError: several begin with it.
    """
    exact = con.execute(f"SELECT {column} FROM {table} WHERE {column} = ?", [name]).fetchone()
    if exact:
        return str(exact[0])
    if len(name) >= 6:
        matching = f"SELECT {column} FROM {table} WHERE starts_with({column}, ?) ORDER BY 1 LIMIT 4"
        matching_ids = [str(row[0]) for row in con.execute(matching, [name]).fetchall()]
        if len(matching_ids) == 1:
            return matching_ids[0]
        if matching_ids:
            examples = ", ".join(matching_ids[:3]) + (", …" if len(matching_ids) > 3 else "")
            raise InputError(f"several {kind}s begin with {name!r}: {examples}", hint="type more of the id")
    near = f"SELECT {column} FROM {table} ORDER BY jaro_winkler_similarity({column}, ?) DESC, 1 LIMIT 3"
    nearest_ids = [str(row[0]) for row in con.execute(near, [name]).fetchall()]
    raise UnknownNameError(kind, name, nearest_ids, "" if nearest_ids else hint)
