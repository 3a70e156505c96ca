"""What stays true of traces after their import: states that follow each other, sessions, promoted cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import get_trace
from tests.importers.reading import good_record
from tests.importers.test_redact import run, write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


STORE = Path(".replay", "replay.duckdb")


def test_the_later_state_of_a_trace_counts_whatever_the_order_of_imports(folder: Path) -> None:
    def state(hour: int, text: str) -> dict[str, object]:
        updated = f"2026-11-01T{hour:02d}:00:00Z"
        return good_record("jsonl", 1) | {"final_response": text, "updated_at": updated}

    write(folder / "two.jsonl", state(12, "later"), state(11, "earlier"))
    write(folder / "old.jsonl", state(10, "oldest"))
    write(folder / "new.jsonl", state(13, "newest"))
    assert run("import", "jsonl", "two.jsonl").exit_code == 0
    told = run("import", "jsonl", "old.jsonl").stdout.splitlines()
    assert told == [
        "1 trace from 1 file (jsonl): 0 new, 0 updated, 1 unchanged; 0 tool calls",
        "1 trace left as stored: the import had an earlier state",
    ]
    with open_store(STORE, read_only=True) as con:
        assert get_trace(con, "t1").final_response == "later"
    assert json.loads(run("import", "jsonl", "new.jsonl", "--json").stdout)["traces"]["updated"] == 1
    with open_store(STORE, read_only=True) as con:
        assert get_trace(con, "t1").final_response == "newest"


def test_traces_without_content_or_end_are_told_and_no_sample_takes_them(folder: Path) -> None:
    rows = [good_record("langfuse", number) for number in range(5)]
    for row in rows[:2]:
        row["input"] = row["output"] = None
    rows[2] |= {"output": None, "endTime": None}
    for row in rows[3:]:
        row["endTime"] = "2026-11-01T10:00:05Z"
    write(folder / "f.jsonl", *rows)
    result = run("import", "langfuse", "f.jsonl")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1].startswith("2 traces without content, which samples leave out; content is recorded with ")
    assert "capture_input=True" in lines[1]
    assert lines[2].startswith("1 trace had not ended, and samples leave them out; ")
    document = json.loads(run("import", "langfuse", "f.jsonl", "--json").stdout)
    assert (document["no_content"], document["incomplete"]) == (2, 1)
    drawn = json.loads(run("sample", "--month", "2026-11", "--json").stdout)
    assert sorted(item["trace_id"] for item in drawn["items"]) == ["t3", "t4"]


def test_traces_of_a_session_are_found_together(folder: Path) -> None:
    records = [good_record("jsonl", n) | {"session_id": f"s{n % 2}"} for n in range(6)]
    write(folder / "a.jsonl", *records[:3])
    write(folder / "b.jsonl", *records[3:])
    run("import", "jsonl", "a.jsonl")
    run("import", "jsonl", "b.jsonl")
    found = json.loads(run("traces", "--where", "session_id = 's1'", "--json").stdout)
    assert sorted(trace["trace_id"] for trace in found) == ["t1", "t3", "t5"]


def test_a_promoted_case_keeps_its_tape_where_the_trace_is_gone(folder: Path) -> None:
    call = {"name": "get_order", "args": {"id": 7}, "result": "shipped"}
    write(folder / "f.jsonl", good_record("jsonl", 1) | {"tool_calls": [call], "final_response": "Shipped"})
    run("import", "jsonl", "f.jsonl")
    promoted = run("promote", "t1")
    assert promoted.exit_code == 0, promoted.output
    with open_store(STORE) as con:
        con.execute("DELETE FROM traces")
        con.execute("DELETE FROM tool_calls")
    case = json.loads((folder / "cases" / "golden.jsonl").read_text())
    assert case["tape"] == [{"name": "get_order", "args": {"id": 7}, "result": "shipped"}]
    (folder / "shop.py").write_text(
        "def look(name, args): raise RuntimeError('for real')\n"
        "def agent(text): return look('get_order', {'id': 7})\n"
    )
    write(folder / "replay.toml", '[agent]\nentrypoint = "shop:agent"\ntools = ["shop:look"]\n')
    checked = run("check")
    assert checked.exit_code == 0, checked.output
