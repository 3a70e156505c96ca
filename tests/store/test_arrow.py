"""Columns in Arrow's layout are read by DuckDB as the values that they were made of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import duckdb
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from replaydiff.replay.store import arrow
from tests.stand_ins.full import examples

KINDS = {
    "text": arrow.TEXT,
    "flag": arrow.BOOLEAN,
    "small": arrow.INT32,
    "large": arrow.INT64,
    "real": arrow.DOUBLE,
    "at": arrow.TIMESTAMP,
    "tags": arrow.list_of(arrow.TEXT),
    "calls": arrow.list_of(arrow.struct_of({"name": arrow.TEXT, "at": arrow.TIMESTAMP})),
}
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
TIME = st.none() | st.datetimes()
ROWS = st.lists(
    st.tuples(
        TEXT,
        st.none() | st.booleans(),
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(allow_nan=False),
        TIME,
        st.lists(TEXT, max_size=3),
        st.lists(st.tuples(TEXT, TIME), max_size=3),
    ),
    max_size=12,
)


def _columns(rows: list[tuple[Any, ...]]) -> list[arrow.ArrowColumn]:
    values = zip(*rows, strict=True) if rows else [()] * len(KINDS)
    return [arrow.column(kind, held) for kind, held in zip(KINDS.values(), values, strict=True)]


@settings(max_examples=examples(40, 400), deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=3))
def test_any_rows_come_back_as_they_were(parts: list[list[tuple[Any, ...]]]) -> None:
    with duckdb.connect() as con:
        con.register("given", arrow.table(KINDS, [_columns(part) for part in parts]))
        for _ in range(2):
            found = con.execute("SELECT * FROM given").fetchall()
            calls = [[(call["name"], call["at"]) for call in row[-1]] for row in found]
            assert [(*row[:-1], held) for row, held in zip(found, calls, strict=True)] == [
                row for part in parts for row in part
            ]
        counted = con.execute("SELECT count(*) FROM given WHERE text IS NOT NULL").fetchall()
        assert counted == [(sum(row[0] is not None for part in parts for row in part),)]


def test_texts_are_cleaned_and_json_stays_as_it_is() -> None:
    with duckdb.connect() as con:
        kinds = {"text": arrow.TEXT, "held": arrow.JSON_TEXT}
        texts = ["half \ud83d", "n\x00", "plain"]
        part = [arrow.column(arrow.TEXT, texts), arrow.column(arrow.JSON_TEXT, ['{"a": 1}', None, "[]"])]
        con.register("given", arrow.table(kinds, [part]))
        assert con.execute("SELECT text, held, typeof(held) FROM given").fetchall() == [
            ("half \ufffd", '{"a": 1}', "JSON"),
            ("n\ufffd", None, "JSON"),
            ("plain", "[]", "JSON"),
        ]


def test_many_tables_are_released() -> None:
    part = _columns([("a" * 100, True, 1, 2, 0.5, datetime(2026, 11, 1), ["x"], [("y", None)])] * 100)
    with duckdb.connect() as con:
        for _ in range(50):
            con.register("given", arrow.table(KINDS, [part] * 10))
            assert con.execute("SELECT count(calls), sum(large) FROM given").fetchall() == [(1000, 2000)]
            con.unregister("given")


@pytest.mark.parametrize(
    ("kind", "value"), [(arrow.TEXT, 5), (arrow.INT64, 2**63), (arrow.INT32, "x"), (arrow.TIMESTAMP, "now")]
)
def test_a_value_of_another_type_is_refused(kind: arrow.ColumnType, value: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        arrow.column(kind, [value])
