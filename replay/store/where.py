"""Conditions on traces: what `--where`, `[sample] where` and `observed:CONDITION` may say.

A condition is an SQL expression of DuckDB over the columns of a trace:

    release = '2.1' AND cost_usd > 0.05
    release IN ('a', 'b') AND environment <> 'test'
    started_at >= '2026-11-01' AND latency_ms > 3000 AND error IS NOT NULL
    tags = 'vip'                      one of the tags is `vip` (as is `'vip' IN tags`)
    tools = 'cancel_order'            that tool was called; `tool_path` is the whole path as text
    metadata.plan = 'gold'            a field of the metadata, at any depth: `metadata.user.plan`
    metadata."service.name" = 'shop'  names that are no plain words stand in double quotes
    scores.reward >= 1                a score; true counts as 1 and false as 0
    input ILIKE '%refund%'

Fields of `metadata` and `scores` are text, and are read as a number where they are compared with a number
(`metadata.task_id = 7` and `= '7'` both find 7 and "7"), and as true or false where that is asked for. What
is missing is NULL, and so is what is no number.

A condition never changes anything: it is parsed first, must be one expression, and is then evaluated in a
read-only transaction with a time limit, on a store that reaches no other file (`replay.store.connection`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.store.condition import JSON_COLUMNS, LIST_COLUMNS, compile_condition, json_text, shown
from replaydiff.replay.store.trace_codec import FACTS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TIME_LIMIT_S = 30.0
"""How long a condition may take."""
_DERIVED = {
    "month": "strftime(started_at, '%Y-%m')",
    "tools": "CASE WHEN tool_path = '-' THEN [] ELSE string_split(tool_path, '>') END",
}
COLUMNS = ("trace_id", "source", *FACTS, *_DERIVED, "metadata", "messages")
"""What a condition can name."""
_SELECTED = ", ".join(f"{_DERIVED[name]} AS {name}" if name in _DERIVED else name for name in COLUMNS)
SOURCE = f"(SELECT {_SELECTED} FROM traces) AS traces"
"""The traces as a condition sees them."""


def matching_ids(
    store: Path | DuckDBPyConnection,
    where: str | None,
    *,
    month: str | None = None,
    order: str = "started_at",
) -> list[str]:
    """The ids of the traces that fit the condition (and month, `YYYY-MM`), ordered by a column, then id.

    Raises:
        InputError: the condition or the month cannot be used; says why.
    """
    if isinstance(store, Path):
        from replaydiff.replay.store.connection import open_store

        with open_store(store, read_only=True) as con:
            return matching_ids(con, where, month=month, order=order)
    if order not in COLUMNS:
        raise UnknownNameError("field", order, COLUMNS)
    with guarded(store, where) as con:
        chosen, values = selection(con, where, month)
        rows = con.execute(f"SELECT trace_id FROM {chosen} ORDER BY {order}, trace_id", values).fetchall()
    return [trace_id for (trace_id,) in rows]


@contextmanager
def guarded(con: DuckDBPyConnection, where: str | None) -> Iterator[DuckDBPyConnection]:
    """A cursor in a read-only transaction with a time limit; DuckDB's errors become sentences on `where`."""
    cursor = con.cursor()
    try:
        cursor.execute(f"SET SESSION max_execution_time = {int(TIME_LIMIT_S * 1000)}")
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        yield cursor
    except duckdb.Error as error:
        if not where:
            raise
        raise _refusal(where, error) from None
    finally:
        cursor.close()


def selection(con: DuckDBPyConnection, where: str | None, month: str | None) -> tuple[str, dict[str, Any]]:
    """What follows FROM to select the traces that fit, and the values it needs; for use within `guarded`."""
    conditions = ["true"]
    values: dict[str, Any] = {}
    if month is not None:
        values["month_from"], values["month_to"] = month_range(month)
        conditions.append("started_at >= $month_from AND started_at < $month_to")
    if where and where.strip():
        conditions.append(f"({compile_condition(con, where)})")
    return f"{SOURCE} WHERE {' AND '.join(conditions)}", values


def month_range(month: str) -> tuple[datetime, datetime]:
    """The first moment of a month (`YYYY-MM`, UTC) and of the next.

    Raises:
        InputError: it is no month.
    """
    found = re.fullmatch(r"(\d{4})-(\d{2})", month, re.ASCII)
    if not found or not 1 <= int(found[2]) <= 12 or not 1 <= int(found[1]) <= 9998:
        raise InputError(f"{month!r} is no month; write it as YYYY-MM, like 2026-10")
    year, number = int(found[1]), int(found[2])
    return datetime(year, number, 1), datetime(year + number // 12, number % 12 + 1, 1)


def field_text(name: str) -> str:
    """SQL for a field as text: a column, `metadata.x` or `scores.x`; lists are sorted and joined with commas.

    Raises:
        UnknownNameError: there is no such field.
    """
    parts = re.findall(r'"[^"]*"|[^."]+', name)
    column, *keys = [part.strip('"') for part in parts] or [""]
    whole = ".".join(parts) == name
    if column in JSON_COLUMNS and keys and whole:
        return json_text(column, keys)
    if keys or not whole or column not in COLUMNS:
        raise UnknownNameError(
            "field", name, COLUMNS, f"a field of the metadata is metadata.{name}, a score scores.{name}"
        )
    if column in LIST_COLUMNS:
        return f"array_to_string(list_sort({column}), ',')"
    return f"{column}::VARCHAR"


def _refusal(where: str, error: duckdb.Error) -> InputError:
    """DuckDB's error on a person's condition, as a sentence."""
    if isinstance(error, duckdb.InterruptException):
        return InputError(
            f"the condition {shown(where)} took longer than {TIME_LIMIT_S:g} s and was stopped; "
            "write a narrower or simpler one"
        )
    reason = str(error).splitlines()[0].partition(": ")[2] or str(error)
    missing = re.search(r'Referenced column "(.*?)" (?:was )?not found', reason) or re.search(
        r'does not have a column named "(.*?)"', reason
    )
    if not missing:
        return InputError(f"the condition {shown(where)} cannot be used: {reason.rstrip('.')}; mend it")
    name = missing[1]
    if not name.isidentifier():
        return InputError(
            f"the condition {shown(where)} names a column {name!r} that a trace does not have; "
            f"text stands in single quotes: '{name}'"
        )
    near = difflib.get_close_matches(name, COLUMNS, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(COLUMNS)}"
    return InputError(
        f"the condition {shown(where)} names a column {name!r} that a trace does not have; {advice} "
        f"(a field of the metadata is metadata.{name})"
    )
