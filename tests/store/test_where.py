"""The language of conditions: what it finds, what it says of mistakes, and that it can do no harm."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from replaydiff.replay.errors import InputError, StoreMissingError, UnknownNameError
from replaydiff.replay.months import month_range
from replaydiff.replay.store import where as where_module
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import count_traces, list_traces, write_traces
from replaydiff.replay.store.where import field_text, guarded, matching_ids
from tests.stand_ins.stores import open_for_writing
from tests.store.build import calls, trace

TRACES = [
    trace(
        "a",
        started_at=datetime(2026, 9, 30, 23, 59, 59, 999999),
        release="2.1",
        model="m1",
        tags=("vip", "eu"),
        metadata={
            "plan": "gold",
            "task_id": 7,
            "beta": True,
            "user": {"id": 123456789012345678},
            "service.name": "shop",
            "a/b~c'd": "odd",
            "list": [{"x": 1}],
        },
        scores={"reward": 1.0, "ok": True, "label": "good"},
        tool_calls=calls("search", "cancel"),
        cost_usd=0.5,
    ),
    trace(
        "b",
        started_at=datetime(2026, 10, 1),
        release="a",
        metadata={"plan": "free", "task_id": "7", "beta": False, "user": {"id": 123456789012345679}},
        scores={"reward": 0, "ok": False},
        tool_calls=calls("search"),
        error="boom",
    ),
    trace("c", started_at=datetime(2026, 10, 31, 23), release="b", metadata={"task_id": "abc", "plan": None}),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "s.duckdb"
    with open_for_writing(path) as con:
        write_traces(con, TRACES)
    return path


@pytest.fixture(scope="module")
def con(path: Path) -> Iterator[DuckDBPyConnection]:
    with open_store(path, read_only=True) as opened:
        yield opened


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (None, "abc"),
        ("  ", "abc"),
        ("true", "abc"),
        ("release = '2.1'", "a"),
        ("release IN ('a','b')", "bc"),
        ("traces.release = 'a' OR cost_usd > 0.1", "ab"),
        ("error IS NOT NULL", "b"),
        ("started_at >= '2026-10-01'", "bc"),
        ("month = '2026-10' -- a comment", "bc"),
        ("metadata.plan = 'gold'", "a"),
        ("metadata['plan'] = 'gold'", "a"),
        ("traces.metadata.plan = 'gold'", "a"),
        ("METADATA.plan = 'gold'", "a"),
        ("metadata.plan <> 'gold'", "b"),
        ("metadata.plan IS NULL", "c"),
        ("metadata.plan LIKE 'g%'", "a"),
        ("lower(metadata.plan) = 'gold'", "a"),
        ("metadata.task_id = 7", "ab"),
        ("metadata.task_id = '7'", "ab"),
        ("metadata.task_id = 7.0", "ab"),
        ("7 = metadata.task_id", "ab"),
        ("metadata.task_id IN (6, 7)", "ab"),
        ("metadata.task_id BETWEEN 6 AND 8", "ab"),
        ("metadata.task_id + 1 = 8", "ab"),
        ("metadata.task_id > 6 AND NOT metadata.beta", "b"),
        ("metadata.task_id = 'abc'", "c"),
        ("metadata.beta", "a"),
        ("metadata.beta = false", "b"),
        ("metadata.user.id = 123456789012345678", "a"),
        ("metadata.user.id IN (123456789012345679, 1)", "b"),
        ("metadata.user.id > 5", "ab"),
        ("metadata['user']['id'] = 123456789012345679", "b"),
        ("metadata.list[0].x = 1", "a"),
        ("metadata.service.name = 'shop'", "a"),
        ("metadata.\"service.name\" = 'shop'", "a"),
        ("metadata.\"a/b~c'd\" = 'odd'", "a"),
        ("scores.reward >= 1", "a"),
        ("scores.reward < 1", "b"),
        ("scores.ok >= 1", "a"),
        ("scores.ok = 0", "b"),
        ("scores.ok", "a"),
        ("scores.label = 'good'", "a"),
        ("tags = 'vip'", "a"),
        ("'vip' = tags", "a"),
        ("tags <> 'vip'", "bc"),
        ("tags IN ('eu', 'us')", "a"),
        ("tags NOT IN ('eu')", "bc"),
        ("'vip' IN tags", "a"),
        ("len(tags) = 0", "bc"),
        ("tools = 'search'", "ab"),
        ("tools = 'x''y'", ""),
        ("tool_path = 'search>cancel'", "a"),
        ("trace_id IN (SELECT trace_id FROM tool_calls WHERE name = 'cancel')", "a"),
        ("(release = 'a' OR (metadata.plan = 'gold' AND tags = 'eu'))", "ab"),
    ],
)
def test_conditions(con: DuckDBPyConnection, condition: str | None, found: str) -> None:
    assert "".join(matching_ids(con, condition)) == found


def test_months_are_utc_and_hold_their_first_moment_only(con: DuckDBPyConnection, path: Path) -> None:
    assert matching_ids(con, None, month="2026-09") == ["a"]
    assert matching_ids(path.parent / path.name, "release <> 'b'", month="2026-10") == ["b"]
    assert month_range("2026-12") == (datetime(2026, 12, 1), datetime(2027, 1, 1))


@pytest.mark.parametrize(
    "month", ["2026-13", "2026-00", "2026-1", "oct", "", "2026-10-01", "٢٠٢٦-١٠", "9999-12"]
)
def test_what_is_no_month(con: DuckDBPyConnection, month: str) -> None:
    with pytest.raises(InputError, match="is not a month; write it as YYYY-MM, like 2026-10"):
        matching_ids(con, None, month=month)


def test_order(con: DuckDBPyConnection) -> None:
    assert matching_ids(con, None, order="tool_path") == ["c", "b", "a"]
    with pytest.raises(UnknownNameError):
        matching_ids(con, None, order="1; DROP TABLE traces")


def test_a_missing_store(tmp_path: Path) -> None:
    with pytest.raises(StoreMissingError):
        matching_ids(tmp_path / "none.duckdb", None)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (
            "relase = 'x'",
            "names a column 'relase' that a trace does not have; did you mean 'release'? "
            "(a field of the metadata is metadata.relase)",
        ),
        (
            "traces.relase = 'x'",
            "names a column 'relase' that a trace does not have; did you mean 'release'? "
            "(a field of the metadata is metadata.relase)",
        ),
        (
            'release = "2.1"',
            "names a column '2.1' that a trace does not have; text needs single quotes: '2.1'",
        ),
        (
            "metadata.plan =",
            'cannot be read: syntax error at or near ")"; it is an SQL expression, '
            "like release = '2.1' AND metadata.plan = 'gold'",
        ),
        ("metadata.task_id::INT = 7", "cannot be used: Could not convert string 'abc' to INT32; correct it"),
        ("true) UNION SELECT (true", "is more than one condition; write a single one"),
        ("repeat(input, 999999999) = ''", "calls repeat(), which is not allowed in conditions"),
    ],
)
def test_mistakes_are_named(con: DuckDBPyConnection, condition: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        matching_ids(con, condition)
    assert str(refused.value) == f"the condition `{condition}` {says}"


@pytest.mark.parametrize(
    "attack",
    [
        "true; DROP TABLE traces",
        "true); DROP TABLE traces; SELECT (true",
        "true) FROM traces WHERE (true",
        "true) ORDER BY (1",
        "true) LIMIT (1",
        "true, true",
        "(true, true)",
        "true /*",
        "count(*) > 1",
        "row_number() OVER () = 1",
        "?",
        "$month_from",
        "1 = (DELETE FROM traces)",
        "trace_id IN (WITH d AS (DELETE FROM traces RETURNING *) SELECT trace_id FROM d)",
        "EXISTS (SELECT * FROM read_text('/etc/passwd'))",
        "EXISTS (SELECT * FROM '/etc/passwd')",
        "EXISTS (SELECT * FROM glob('/*'))",
        "EXISTS (SELECT * FROM duckdb_secrets())",
        "EXISTS (SELECT * FROM con)",
        "len(range(1000000000)) > 1",
        "len(list_sort(generate_series(1, 1000000000))) > 1",
        "lpad('', 2000000000, 'x') = ''",
        "release = 'x' AND " * 2000 + "true" + ")" * 3,
        "(" * 3000 + "true" + ")" * 3000,
        "NOT " * 3000 + "true",
        "printf('%2000000000s', 'x') = ''",
        "format('{:>2000000000}', 'x') = ''",
        "bitstring('1', 2000000000) IS NULL",
        "sleep_ms(40000) IS NULL",
        "replace(replace(input, 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa') = ''",
        "EXISTS (SELECT 1 FROM query('SELECT repeat(''a'', 2000000000)'))",
        "EXISTS (SELECT 1 FROM enable_logging('QueryLog', storage='file', storage_path='x'))",
        "EXISTS (SELECT 1 FROM redaction_key)",
        "EXISTS (SELECT 1 FROM duckdb_settings())",
        "current_setting('memory_limit') = ''",
        "len(list_transform(tags, lambda t: repeat(t, 1000000000))) > 0",
        "\x1b[31mred",
        "'\ud800' = release",
        "release = '\x00",
    ],
    ids=lambda attack: ascii(attack[:30]),
)
def test_attacks_are_refused_in_one_line_and_change_nothing(tmp_path: Path, attack: str) -> None:
    with open_store(tmp_path / "s.duckdb") as con:
        write_traces(con, TRACES)
        with pytest.raises(InputError) as refused:
            matching_ids(con, attack)
        assert count_traces(con) == 3
    says = str(refused.value)
    assert says.isprintable()
    assert len(says) < 600


def test_an_endless_condition_is_stopped(con: DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where_module, "TIME_LIMIT_S", 0.2)
    slow = "SELECT count(*) FROM " + ", ".join(f"traces t{n}" for n in range(30))
    with (
        pytest.raises(InputError, match=r"took longer than 0.2 s and was stopped; write a narrower"),
        guarded(con, "slow") as cursor,
    ):
        cursor.execute(slow).fetchall()
    assert matching_ids(con, "true") == ["a", "b", "c"]


def test_a_condition_on_a_store_that_is_being_written_sees_what_is_committed(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.duckdb") as con:
        write_traces(con, TRACES[:1])
        con.begin()
        con.execute("DELETE FROM traces")
        assert matching_ids(con, "metadata.plan = 'gold'") == ["a"]
        con.rollback()


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("release", ["2.1", "a", "b"]),
        ("tags", ["eu,vip", "", ""]),
        ("tools", ["cancel,search", "search", ""]),
        ("month", ["2026-09", "2026-10", "2026-10"]),
        ("cost_usd", ["0.5", None, None]),
        ("metadata.plan", ["gold", "free", None]),
        ("metadata.user.id", ["123456789012345678", "123456789012345679", None]),
        ("metadata.service.name", ["shop", None, None]),
        ('metadata."service.name"', ["shop", None, None]),
        ("metadata.a/b~c'd", ["odd", None, None]),
        ("scores.reward", ["1.0", "0", None]),
    ],
)
def test_fields_as_text(con: DuckDBPyConnection, field: str, values: list[str | None]) -> None:
    rows = con.execute(f"SELECT {field_text(field)} FROM {where_module.SOURCE} ORDER BY trace_id").fetchall()
    assert [value for (value,) in rows] == values


@pytest.mark.parametrize("field", ["plan", "release.x", "", ".", "metadata.", "1); DROP TABLE traces; --"])
def test_unknown_fields(field: str) -> None:
    with pytest.raises(UnknownNameError, match="there is no field"):
        field_text(field)


def test_a_list_has_the_newest_first_and_the_whole_count(con: DuckDBPyConnection) -> None:
    listed, total = list_traces(con, "release <> '2.1'", limit=1)
    assert ([trace.trace_id for trace in listed], total) == (["c"], 2)
    listed, total = list_traces(con, month="2026-09", limit=5)
    assert (listed[0].tags, listed[0].scores, total) == (
        ("vip", "eu"),
        {"reward": 1.0, "ok": True, "label": "good"},
        1,
    )
