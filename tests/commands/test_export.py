"""`replay export`: what it writes is read by others, and by `replay import` again."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replaydiff.importers.base import InputFile
from replaydiff.importers.sources.jsonl import read as read_record
from replaydiff.replay.model import (
    Grade,
    GradeState,
    Lane,
    Message,
    Rule,
    SampleItem,
    SampleRecord,
    ServedCall,
    Status,
    ToolCall,
    Trace,
    Trial,
    Usage,
)
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import write_grades
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.samples import write_sample
from replaydiff.replay.store.trace_codec import trace_record
from replaydiff.replay.store.traces import get_trace, iter_traces, write_traces
from replaydiff.replay.store.trials import write_trials
from tests.commands.conftest import Replay
from tests.stand_ins.full import examples
from tests.stand_ins.schemas import validator
from tests.stand_ins.stores import open_for_writing
from tests.store.build import WHEN, calls, items, rich_trace, run, trace

STORE = Path(".replay/replay.duckdb")


def _asked(name: str, call_id: str | None, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, call_id=call_id, answered=False)


def _conversation() -> tuple[Message, ...]:
    return (
        Message(role="system", text="be kind"),
        Message(role="user", text='[{"function": "not a call"}]'),
        Message(role="assistant", tool_calls=(_asked("get_order", "c0", id=7), _asked("search", None))),
        Message(role="tool", text='{"ok":true}', data={"ok": True}, tool_call_id="c0", name="get_order"),
        Message(role="tool", text="it broke", is_error=True, name="search"),
        Message(role="assistant", text="done"),
    )


def _traces() -> list[Trace]:
    rich = rich_trace("rich")
    steps = tuple(replace(step, messages=_conversation()) for step in rich.steps)
    return [
        replace(rich, messages=_conversation(), steps=steps),
        # Cut off: the messages end in an answer, but it is known that there was none.
        trace(
            "cut",
            messages=_conversation(),
            final_response=None,
            latency_ms=None,
            ended_at=WHEN,
            incomplete=True,
            updated_at=WHEN,
        ),
        trace(
            "langfuse-one", source="langfuse", tool_calls=calls("b", "a"), usage=Usage(cache_read_tokens=3)
        ),
        trace('it\'s "quoted" <b>🎈</b>', input="two\nlines\u2028and more", metadata={"deep": [{"x": None}]}),
        trace("raw", tool_calls=(ToolCall(name="t", args={"_raw": "no json"}, result=None),)),
    ]


@pytest.fixture
def filled(replay: Replay) -> Replay:
    with open_for_writing(STORE) as con:
        write_traces(con, _traces())
    return replay


@pytest.fixture
def with_run(replay: Replay) -> Replay:
    """A store with traces, a sample of them, and a run of it with trials and a judge's grade."""
    made = items(6)
    with open_for_writing(STORE) as con:
        write_traces(con, [trace(item.id, release="1.0" if n % 2 else "2.0") for n, item in enumerate(made)])
        sample = SampleRecord(
            name="monthly",
            created_at=WHEN,
            month="2026-10",
            where=None,
            by=("tool_path",),
            size=3,
            seed=1,
            population=6,
        )
        drawn = [
            SampleItem(sample="monthly", trace_id=item.id, position=n, stratum="-", weight=2.0)
            for n, item in enumerate(reversed(made[:3]))
        ]
        write_sample(con, sample, drawn)
        for name, of in (("run-000001", made[:3]), ("run-000002", made[3:])):
            replayed = [replace(item, trace_id=item.id) for item in of]
            create_run(con, run(name, sample="monthly" if name == "run-000001" else None), replayed)
            served = tuple(ServedCall(call=call, rule=Rule.TAPE) for call in calls("search"))
            write_trials(
                con,
                [
                    Trial(
                        run_id=name,
                        item_id=item.id,
                        lane=lane,
                        index=0,
                        status=Status.OK,
                        final_response="answer",
                        served=served if lane == Lane.OLD else (),
                        usage=Usage(input_tokens=5, output_tokens=2),
                        started_at=WHEN,
                    )
                    for item in of
                    for lane in (Lane.OLD, Lane.NEW)
                ],
            )
        write_grades(
            con,
            [
                Grade(
                    run_id="run-000001",
                    item_id=made[0].id,
                    lane=Lane.NEW,
                    trial=0,
                    grader="judge",
                    grader_version="1",
                    state=GradeState.SCORED,
                    score=0.5,
                    passed=False,
                    detail={"model": "m"},
                )
            ],
        )
    return replay


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _parquet(path: str) -> list[dict[str, Any]]:
    with duckdb.connect() as con:
        cursor = con.execute("SELECT * FROM read_parquet(?)", [path])
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def test_a_colleagues_store_gets_the_same_traces(filled: Replay) -> None:
    done = filled("export", "traces", "-o", "out.jsonl")
    assert (done.code, done.out) == (0, "")
    assert "5 traces written to out.jsonl" in done.err
    for record in _lines(Path("out.jsonl").read_text(encoding="utf-8")):
        validator("trace").validate(record)
    assert filled("--db", "colleague.duckdb", "import", "jsonl", "out.jsonl").code == 0
    with open_store(Path("colleague.duckdb"), read_only=True) as con:
        found = list(iter_traces(con, [made.trace_id for made in _traces()]))
    assert found == _traces()


def test_an_export_brought_back_changes_nothing(filled: Replay) -> None:
    filled("export", "traces", "-o", "out.jsonl.gz")
    done = filled("import", "jsonl", "out.jsonl.gz")
    assert "0 new, 0 updated, 5 unchanged" in done.out + done.err


_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_made_calls = st.lists(
    st.builds(
        ToolCall,
        name=_texts.filter(bool),
        args=st.dictionaries(_texts, _json, max_size=3),
        call_id=st.none() | _texts.filter(bool),
        result=_json,
        error=st.none() | _texts.filter(bool),
    ),
    max_size=3,
).map(lambda made: tuple(replace(call, index=n) for n, call in enumerate(made)))


@settings(max_examples=examples(40, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.builds(
        Trace,
        trace_id=_texts.filter(bool),
        source=st.sampled_from(["jsonl", "langfuse", "otlp"]),
        started_at=st.datetimes().map(lambda when: when.replace(fold=0)),
        updated_at=st.none() | st.datetimes().map(lambda when: when.replace(fold=0)),
        incomplete=st.booleans(),
        name=st.none() | _texts.filter(bool),
        input=_texts,
        final_response=st.none() | _texts.filter(bool),
        tool_calls=_made_calls,
        tags=st.lists(_texts, max_size=2).map(tuple),
        cost_usd=st.none() | st.floats(0, 1e6),
        latency_ms=st.none() | st.floats(0, 1e9),
        scores=st.dictionaries(_texts, st.booleans() | _texts | st.floats(-1e6, 1e6), max_size=2),
        metadata=st.dictionaries(_texts, _json, max_size=3),
    )
)
def test_any_trace_comes_back_from_its_record(made: Trace) -> None:
    record = msgspec.json.decode(msgspec.json.encode(trace_record(made)))
    file = InputFile(path="x", name="x", size=0, modified=0.0)
    assert list(read_record(record, file)) == [made]


def test_parquet_is_read_by_others_with_every_column(filled: Replay) -> None:
    assert filled("export", "traces", "-o", "we'ird name.parquet").code == 0
    rows = {row["trace_id"]: row for row in _parquet("we'ird name.parquet")}
    assert list(rows) == [made.trace_id for made in _traces()]
    rich = rows["rich"]
    assert rich["started_at"] == WHEN
    assert rich["tags"] == ["vip", "eu"]
    assert json.loads(rich["metadata"]) == {"plan": "gold", "nested": {"z": 1, "a": [1, 2.5, None, "x"]}}
    assert [call["name"] for call in rich["tool_calls"]] == ["get_order", "cancel_order", "lost"]
    assert json.loads(rich["tool_calls"][1]["args"]) == {"n": 1}
    assert rich["tool_calls"][2]["answered"] is False
    assert rows["cut"]["tool_calls"] == []
    assert (rows["cut"]["state"], rich["state"]) == ("incomplete", "complete")


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (("traces", "--sample", "monthly"), 3),
        (("traces", "--run", "run-000002"), 3),
        (("traces", "--where", "release = '2.0'"), 3),
        (("traces", "--where", "release = '2.0'", "--sample", "monthly"), 2),
        (("traces", "--month", "2026-09"), 0),
        (("samples",), 3),
        (("samples", "--run", "run-000001", "--where", "release = '1.0'"), 1),
        (("runs",), 12),
        (("runs", "--sample", "monthly"), 6),
        (("runs", "--run", "run-000002", "--where", "release = '1.0'"), 4),
        (("grades", "--run", "run-000001"), 7),
        (("grades",), 13),
    ],
)
def test_rows_are_chosen_alike_in_both_formats(with_run: Replay, args: tuple[str, ...], count: int) -> None:
    done = with_run("export", *args, "-o", "rows.parquet")
    assert done.code == 0, done.err
    assert len(_parquet("rows.parquet")) == count
    assert with_run("export", *args, "-o", "rows.jsonl").code == 0
    rows = _lines(Path("rows.jsonl").read_text())
    assert len(rows) == count
    if count and args[0] != "traces":
        assert list(rows[0]) == list(_parquet("rows.parquet")[0])


def test_what_the_rows_say(with_run: Replay) -> None:
    assert with_run("export", "samples", "-o", "samples.jsonl").code == 0
    drawn = _lines(Path("samples.jsonl").read_text())
    assert [row["position"] for row in drawn] == [0, 1, 2]
    assert drawn[0]["sample"] == "monthly"
    assert (drawn[0]["weight"], drawn[0]["population"], drawn[0]["by"]) == (2.0, 6, ["tool_path"])
    with_run("export", "traces", "--sample", "monthly", "-o", "traces.jsonl")
    of_sample = [row["trace_id"] for row in _lines(Path("traces.jsonl").read_text())]
    assert of_sample == [row["trace_id"] for row in drawn]

    with_run("export", "runs", "--run", "run-000001", "-o", "runs.jsonl")
    trials = _lines(Path("runs.jsonl").read_text())
    assert [row["lane"] for row in trials] == ["new", "old"] * 3
    new, old = trials[:2]
    assert (new["version"], new["model"], new["tool_path"]) == ("next", "m", "-")
    assert (old["version"], old["model"], old["tool_path"]) == ("prod", None, "search")
    assert (old["input_tokens"], old["output_tokens"], old["status"]) == (5, 2, "ok")
    assert old["served"][0]["rule"] == "tape"
    assert old["started_at"] == WHEN.isoformat() + "Z"
    assert "secret" not in Path("runs.jsonl").read_text()

    with_run("export", "grades", "--run", "run-000001", "-o", "grades.jsonl")
    grades = _lines(Path("grades.jsonl").read_text())
    assert {row["grader"] for row in grades} == {"judge", "tool_calls"}
    assert [row["score"] for row in grades if row["grader"] == "judge"] == [0.5]
    old_scores = {row["score"] for row in grades if row["grader"] == "tool_calls" and row["lane"] == "old"}
    new_scores = {row["score"] for row in grades if row["grader"] == "tool_calls" and row["lane"] == "new"}
    assert old_scores != new_scores


def _run(*args: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "replaydiff", "export", *args],
        capture_output=True,
        check=False,
        env={**os.environ, **env},
    )


def test_stdout_carries_the_data_and_nothing_else(filled: Replay) -> None:
    # An output encoding that cannot say it all: data is UTF-8 all the same.
    lines = _run("traces", PYTHONIOENCODING="ascii")
    assert lines.returncode == 0
    assert [row["trace_id"] for row in _lines(lines.stdout.decode())] == [made.trace_id for made in _traces()]
    assert b"5 traces written to stdout" in lines.stderr
    for output in ("-", "/dev/stdout"):
        packed = _run("traces", "-o", output, "--format", "parquet")
        Path("copy.parquet").write_bytes(packed.stdout)
        assert len(_parquet("copy.parquet")) == 5


def test_a_reader_that_goes_away_is_no_error(replay: Replay) -> None:
    with open_store(STORE) as con:
        write_traces(con, [trace(f"t{n}", input="x" * 1000) for n in range(500)])
    done = subprocess.run(
        f"{sys.executable} -m replaydiff export traces | head -1",
        shell=True,
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout)["trace_id"] == "t0"
    assert b"Traceback" not in done.stderr
    assert b"rror" not in done.stderr


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_file_is_replaced_whole_or_stays_as_it_was(filled: Replay, name: str) -> None:
    Path(name).write_text("older")
    Path(name).chmod(0o640)
    done = filled("export", "traces", "--where", "started_at > no_such_column", "-o", name)
    assert done.code == 2
    assert Path(name).read_text() == "older"
    assert filled("export", "traces", "-o", name).code == 0
    assert Path(name).read_bytes()[:5] != b"older"
    assert stat.S_IMODE(Path(name).stat().st_mode) == 0o640
    assert not [file for file in Path.cwd().iterdir() if file.name.startswith(f".{name}")]


def test_the_store_is_only_read_and_never_overwritten(filled: Replay) -> None:
    before = STORE.read_bytes()
    done = filled("export", "traces", "-o", str(STORE))
    assert done.code == 2
    assert "is the store itself" in done.err
    with open_store(STORE, read_only=True):
        other = _run("traces", "-o", "beside.parquet")
    assert other.returncode == 0, other.stderr
    assert STORE.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("traces", "--sample", "monthly"), "there is no sample 'monthly'"),
        (("runs", "--run", "nothing"), "there is no run 'nothing'"),
        (("traces", "-o", "no/such/folder/x.parquet"), "there is no folder"),
        (("traces", "--where", "1=1; DROP TABLE traces"), "cannot be read"),
        (
            ("traces", "--where", "(SELECT count(*) FROM read_text('/etc/hostname')) > 0", "-o", "x.parquet"),
            "holds a table function, which is not allowed in conditions",
        ),
    ],
)
def test_wrong_input_is_a_sentence(filled: Replay, args: tuple[str, ...], said: str) -> None:
    done = filled("export", *args)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not Path("x.parquet").exists()


def test_an_empty_set_is_an_empty_file(filled: Replay) -> None:
    assert filled("export", "runs", "-o", "none.jsonl").code == 0
    assert Path("none.jsonl").read_bytes() == b""
    assert filled("export", "runs", "-o", "none.parquet").code == 0
    assert _parquet("none.parquet") == []


def test_the_same_traces_give_the_same_compressed_file(filled: Replay) -> None:
    filled("export", "traces", "-o", "a.jsonl.gz")
    filled("export", "traces", "-o", "b.jsonl.gz")
    assert Path("a.jsonl.gz").read_bytes() == Path("b.jsonl.gz").read_bytes()
    with gzip.open("a.jsonl.gz", "rt", encoding="utf-8") as file:
        assert len(file.readlines()) == 5


def test_batches_lose_and_double_nothing(replay: Replay) -> None:
    """More traces than are read at once, some of them imported again with other calls."""
    with open_store(STORE) as con:
        made = [
            trace(f"t{n:04}", started_at=WHEN - timedelta(hours=n), tool_calls=calls("a"))
            for n in range(1300)
        ]
        for start in range(0, 1300, 400):
            write_traces(con, made[start : start + 400])
        write_traces(con, [trace(f"t{n:04}", tool_calls=calls("b", "c")) for n in range(0, 1300, 7)])
    for name in ("out.jsonl", "out.parquet"):
        assert replay("export", "traces", "-o", name).code == 0
    records = {row["trace_id"]: row for row in _lines(Path("out.jsonl").read_text())}
    rows = {row["trace_id"]: row for row in _parquet("out.parquet")}
    assert len(records) == len(rows) == 1300
    assert list(records) == list(rows)
    with open_store(STORE, read_only=True) as con:
        for trace_id in ("t0000", "t0001", "t1299", "t0700"):
            wanted = [call.name for call in get_trace(con, trace_id).tool_calls]
            assert [call["name"] for call in records[trace_id]["tool_calls"]] == wanted
            assert [call["name"] for call in rows[trace_id]["tool_calls"]] == wanted
    assert sum(len(row["tool_calls"]) for row in rows.values()) == sum(
        len(row["tool_calls"]) for row in records.values()
    )
