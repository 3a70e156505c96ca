"""Conditions on traces: what `--where`, `[sample] where` and `observed:CONDITION` may contain.

A condition is an SQL expression of DuckDB over the columns of a trace:

    release = '2.1' AND cost_usd > 0.05
    release IN ('a', 'b') AND environment <> 'test'
    started_at >= '2026-11-01' AND latency_ms > 3000 AND error IS NOT NULL
    tags = 'vip'                      one of the tags is `vip` (as is `'vip' IN tags`)
    tools = 'cancel_order'            that tool was called; `tool_path` is the whole path as text
    metadata.plan = 'gold'            a field of the metadata, at any depth: `metadata.user.plan`
    metadata."service.name" = 'shop'  names that are no plain words are put in double quotes
    scores.reward >= 1                a score; true counts as 1 and false as 0
    input ILIKE '%refund%'

Fields of `metadata` and `scores` are text, and are read as a number where they are compared with a number
(`metadata.task_id = 7` and `= '7'` both find 7 and "7"), and as true or false where that is asked for. What
is missing is NULL, and so is what is no number.

A condition never changes anything: it is parsed first, must be one expression that calls nothing but known,
harmless functions and reads nothing but traces and their tool calls, and is then evaluated in a
read-only transaction with a time limit, on a store that reaches no other file (`replay.store.connection`).

It is parsed by DuckDB, checked node by node, and its short forms are written out.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.interruption import interruptible
from replaydiff.replay.months import month_range
from replaydiff.replay.store.trace_codec import FACTS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

JSON_COLUMNS = ("metadata", "scores")
"""Columns whose fields can be named: `metadata.plan`."""
LIST_COLUMNS = ("tags", "tools", "media_missing")
"""Columns that hold several texts: `tags = 'vip'` asks whether one of them is."""
_EXACT_DIGITS = 15
_FUNCTIONS = frozenset(
    """
    + - * / % // ** ^ & | ~ << >> || ! @ ~~ !~~ ~~* !~~* ~~~ ^@ -> ->>
    lower lcase upper ucase length len strlen char_length character_length trim ltrim rtrim left right reverse
    substring substr split_part string_split str_split position instr strpos contains starts_with prefix
    ends_with suffix like_escape ilike_escape not_like_escape not_ilike_escape concat concat_ws strip_accents
    regexp_matches regexp_full_match regexp_extract ascii unicode
    count count_star sum avg min max
    abs sign round floor ceil ceiling trunc sqrt ln log log10 log2 exp power pow mod isnan isinf isfinite
    greatest least nullif ifnull
    now today get_current_timestamp current_localtimestamp date_part datepart date_trunc datetrunc date_diff
    datediff date_add date_sub datesub age strftime strptime try_strptime make_date make_timestamp
    to_timestamp epoch epoch_ms year month day hour minute second quarter week dayofweek isodow dayofmonth
    dayofyear weekday weekofyear yearweek dayname monthname last_day timezone to_years to_months to_weeks
    to_days to_hours to_minutes to_seconds to_milliseconds
    list_value list_contains array_contains list_has array_has list_has_any array_has_any list_has_all
    array_has_all list_position list_extract array_extract list_element array_length list_any_value
    list_distinct list_unique list_sort list_sum list_avg list_min list_max array_to_string struct_extract
    json_extract json_extract_string json_extract_path json_extract_path_text json_exists json_type json_valid
    json_array_length json_keys json_contains
    """.split()  # noqa: SIM905 - a list would take a page
)
"""What a condition may call: functions whose result is no longer than what they are given.

A time limit takes effect between rows, so a function that makes gigabytes of one row could not be stopped.
"""
_REFUSED = {"LAMBDA": "a lambda", "PARAMETER": "a parameter", "TABLE_FUNCTION": "a table function"}
"""Kinds of expressions that no condition may hold, in words."""
_TABLES = ("traces", "tool_calls")
"""What a SELECT within a condition may read."""


def json_text(column: str, keys: list[str]) -> str:
    """Return SQL for a nested JSON field as text; keys that contain dots are found too."""
    paths = ["".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)]
    if len(keys) > 1:
        paths.append("/" + ".".join(keys).replace("~", "~0").replace("/", "~1"))
    extractions = [f"json_extract_string({column}, '{path.replace(chr(39), chr(39) * 2)}')" for path in paths]
    return extractions[0] if len(extractions) == 1 else f"coalesce({', '.join(extractions)})"


def compile_condition(con: DuckDBPyConnection, where: str) -> str:
    """Return the condition as SQL of one expression, with the short forms written out.

    Raises:
        InputError: it is no single expression.
    """
    try:
        return _Compiler(con, where).sql()
    except RecursionError:
        raise InputError(
            f"the condition {shown(where)} is nested too deeply", hint="write a simpler one"
        ) from None


class _Compiler:
    """Rewrites the parsed condition: DuckDB's own syntax tree, as `json_serialize_sql` gives it."""

    def __init__(self, con: DuckDBPyConnection, where: str) -> None:
        self._con = con
        self._where = where

    def sql(self) -> str:
        # The line break ends a comment; whatever closes the bracket early is no bare expression any more.
        statement = self._parse(f"SELECT (\n{self._where}\n)")
        node = statement["node"]
        bare = node["type"] == "SELECT_NODE" and len(node["select_list"]) == 1
        if not bare or {**node, "select_list": []} != self._parse("SELECT (1)")["node"] | {"select_list": []}:
            raise self._error("is more than one condition; write a single one")
        node["select_list"] = [self._rewrite(node["select_list"][0], "boolean")]
        row = self._con.execute(
            "SELECT json_deserialize_sql(?::JSON)", [json.dumps({"error": False, "statements": [statement]})]
        ).fetchone()
        assert row is not None  # noqa: S101 - a SELECT without FROM has one row
        return str(row[0]).removeprefix("SELECT ")

    def _parse(self, sql: str) -> dict[str, Any]:
        row = self._con.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
        assert row is not None  # noqa: S101 - as above
        parsed = json.loads(row[0])
        if parsed["error"]:
            raise self._error(
                f"cannot be read: {' '.join(parsed['error_message'].split())}; "
                "it is an SQL expression, like release = '2.1' AND metadata.plan = 'gold'"
            )
        if len(parsed["statements"]) != 1:
            raise self._error("is more than one statement; write a single one")
        statement: dict[str, Any] = parsed["statements"][0]
        return statement

    def _error(self, problem: str) -> InputError:
        return InputError(f"the condition {shown(self._where)} {problem}")

    def _expression(self, sql: str) -> Any:
        return self._parse(f"SELECT {sql}")["node"]["select_list"][0]

    def _rewrite(self, node: Any, read_as: str) -> Any:
        """Return the node with its short forms written out.

        `read_as` is how a JSON field is to be read there.
        """
        if isinstance(node, list):
            return [self._rewrite(item, read_as) for item in node]
        if not isinstance(node, dict):
            return node
        path = _json_path(node)
        if path:
            return self._expression(_READ[read_as].format(json_text(path[0], path[1:])))
        kind = node.get("type", "")
        parts = _operands(node)
        listed = self._membership(node, parts)
        if listed is not None:
            return listed
        if parts:
            read = _reading(parts, exact=kind in _EQUALITIES)
            operands = {key: self._rewrite(node[key], read) for key in _OPERAND_KEYS & node.keys()}
            return {**node, **operands}
        if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR", "OPERATOR_NOT"):
            return {**node, "children": self._rewrite(node["children"], "boolean")}
        part = _REFUSED.get(str(node.get("class"))) or _REFUSED.get(kind)
        if kind == "BASE_TABLE":
            named = (node.get("catalog_name"), node.get("schema_name"), str(node.get("table_name")).lower())
            part = None if named in [("", "", table) for table in _TABLES] else f"the table {named[2]!r}"
        if part is not None:
            raise self._error(f"holds {part}, which is not allowed in conditions")
        if (name := node.get("function_name")) is not None and name not in _FUNCTIONS:
            raise self._error(f"calls {name}(), which is not allowed in conditions")
        read = "text"
        if node.get("function_name") in _ARITHMETIC:
            read = "number"
        elif "class" not in node:  # an argument's wrapper
            read = read_as
        return {key: self._rewrite(value, read) for key, value in node.items()}

    def _membership(self, node: dict[str, Any], parts: list[Any]) -> Any:
        """Return `tags = 'x'`, `tags <> 'x'` and `tags IN ('x', 'y')` as membership.

        None for anything else.
        """
        if len(parts) < 2:
            return None
        names, others = [p for p in parts if _list_column(p)], [p for p in parts if not _list_column(p)]
        texts = [p["literal"]["text"] for p in others if _literal_kind(p) == "STRING"]
        if len(names) != 1 or len(texts) != len(others) or node["type"] not in _EQUALITIES:
            return None
        quoted = ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
        negated = "NOT " if node["type"] in ("COMPARE_NOTEQUAL", "COMPARE_NOT_IN") else ""
        return self._expression(f"({negated}list_has_any({_list_column(names[0])}, [{quoted}]))")


_EQUALITIES = {"COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_IN", "COMPARE_NOT_IN"}
_OPERAND_KEYS = {"left", "right", "children", "input", "lower", "upper"}
_ARITHMETIC = {"+", "-", "*", "/", "%", "//", "**", "^"}
_READ = {
    "text": "{0}",
    "number": "coalesce(try_cast({0} AS DOUBLE), CASE {0} WHEN 'true' THEN 1 WHEN 'false' THEN 0 END)",
    "boolean": "try_cast({0} AS BOOLEAN)",
}


def _json_path(node: Any) -> list[str] | None:
    """Return column and keys of `metadata.a.b`, `traces.metadata.a` or `metadata['a']`.

    None for anything else.
    """
    if not isinstance(node, dict):
        return None
    if node.get("type") == "COLUMN_REF":
        names = _names(node)
        return names if len(names) > 1 and names[0] in JSON_COLUMNS else None
    if node.get("type") in ("ARRAY_EXTRACT", "STRUCT_EXTRACT"):
        inner, key = node["children"]
        names = _names(inner)
        path = names if len(names) == 1 and names[0] in JSON_COLUMNS else _json_path(inner)
        if path and _literal_kind(key) in ("STRING", "INTEGER"):
            return [*path, key["literal"]["text"]]
    return None


def _operands(node: dict[str, Any]) -> list[Any]:
    """Return what a comparison, IN or BETWEEN compares; empty for any other node."""
    kind = str(node.get("type", ""))
    if kind in ("COMPARE_BETWEEN", "COMPARE_NOT_BETWEEN"):
        return [node["input"], node["lower"], node["upper"]]
    if not kind.startswith("COMPARE_"):
        return []
    return list(node["children"]) if "children" in node else [node["left"], node["right"]]


def _reading(parts: list[Any], *, exact: bool) -> str:
    """Return how JSON fields compared with these are to be read."""
    kinds = {_literal_kind(part) for part in parts if not _json_path(part)}
    if kinds == {"BOOLEAN"}:
        return "boolean"
    if not kinds or not kinds <= {"INTEGER", "NUMERIC"}:
        return "text"
    whole = [part for part in parts if _literal_kind(part) == "INTEGER"]
    if exact and any(len(part["literal"]["text"]) > _EXACT_DIGITS for part in whole):
        # A DOUBLE cannot distinguish such ids; as text they are exact.
        for part in whole:
            part["literal"] = {"kind": "STRING", "text": part["literal"]["text"]}
        return "text"
    return "number"


def _literal_kind(node: Any) -> str | None:
    kind = node["literal"].get("kind") if isinstance(node, dict) and "literal" in node else None
    return str(kind) if kind else None


def _list_column(node: Any) -> str | None:
    names = _names(node)
    return names[0] if len(names) == 1 and names[0] in LIST_COLUMNS else None


def _names(node: Any) -> list[str]:
    """Return the parts of a column's name, without the table's, the column itself in lower case.

    Else empty.
    """
    names: list[str] = node.get("column_names", []) if isinstance(node, dict) else []
    names = names[1:] if len(names) > 1 and names[0].lower() == "traces" else names
    return [names[0].lower(), *names[1:]] if names else []


def shown(where: str) -> str:
    """Return the condition in an error: one line, at most 120 characters, nothing a terminal would obey."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in where).split())
    return f"`{flat if len(flat) <= 120 else flat[:119] + '…'}`"


TIME_LIMIT_S = 30.0
"""How long a condition may take."""
_DERIVED = {
    "month": "strftime(started_at, '%Y-%m')",
    "prompt_name": "json_extract_string(metadata, '$.prompt_name')",
    "prompt_version": "json_extract_string(metadata, '$.prompt_version')",
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
    """Return the ids of the traces that fit the condition (and the month), ordered by a column, then id.

    Raises:
        InputError: the condition or the month cannot be used; the message gives the reason.
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
    """Open a cursor in a read-only transaction with a time limit; DuckDB's errors become sentences on
    `where`."""
    cursor = interruptible(con.cursor())
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
    """Return what follows FROM to select the traces that fit, and the values it needs.

    For use within `guarded`.
    """
    conditions = ["true"]
    values: dict[str, Any] = {}
    if month is not None:
        values["month_from"], values["month_to"] = month_range(month)
        conditions.append("started_at >= $month_from AND started_at < $month_to")
    if where and where.strip():
        conditions.append(f"({compile_condition(con, where)})")
    return f"{SOURCE} WHERE {' AND '.join(conditions)}", values


def field_text(name: str) -> str:
    """Return SQL for a field as text: a column, `metadata.x` or `scores.x`; lists are sorted and joined.

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
    """Return DuckDB's error on a person's condition, as a sentence."""
    if isinstance(error, duckdb.InterruptException):
        return InputError(
            f"the condition {shown(where)} took longer than {TIME_LIMIT_S:g} s and was stopped",
            hint="write a narrower or simpler one",
        )
    reason = str(error).splitlines()[0].partition(": ")[2] or str(error)
    missing = re.search(r'Referenced column "(.*?)" (?:was )?not found', reason) or re.search(
        r'does not have a column named "(.*?)"', reason
    )
    if not missing:
        return InputError(
            f"the condition {shown(where)} cannot be used: {reason.rstrip('.')}", hint="correct it"
        )
    name = missing[1]
    if not name.isidentifier():
        return InputError(
            f"the condition {shown(where)} names a column {name!r} that a trace does not have; "
            f"text needs single quotes: '{name}'"
        )
    near = difflib.get_close_matches(name, COLUMNS, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(COLUMNS)}"
    return InputError(
        f"the condition {shown(where)} names a column {name!r} that a trace does not have; {advice} "
        f"(a field of the metadata is metadata.{name})"
    )
