"""Rejects: kept, listed, tried again; a strict import that meets one changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers import ingest as module
from replaydiff.importers.base import STORED_CHARACTERS, RecordError
from replaydiff.importers.sources import jsonl
from replaydiff.replay.model import Trace
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.import_records import StoredReject, list_rejects
from replaydiff.replay.store.traces import count_traces, get_trace
from tests.exit_codes import check_exit
from tests.importers.reading import good_record
from tests.importers.test_redact import run, write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store() -> Path:
    return Path(".replay", "replay.duckdb")


def rejects() -> list[StoredReject]:
    with open_store(store(), read_only=True) as con:
        return list_rejects(con)


BAD = {"trace_id": "x", "input": "no time"}


def test_rejects_are_listed_with_place_reason_and_how_they_begin(folder: Path) -> None:
    write(folder / "f.jsonl", good_record("jsonl", 1), BAD, "cut {", "[" * 10_000)
    imported = run("import", "jsonl", "f.jsonl")
    check_exit("rejected records", imported.exit_code, imported.stdout)
    listed = run("import", "--rejects")
    assert listed.exit_code == 0
    assert listed.stdout.splitlines()[:4] == [
        "f.jsonl:2 (jsonl): started_at is missing",
        '  {"trace_id":"x","input":"no time"}',
        "f.jsonl:3 (jsonl): not JSON: Expecting value (column 1)",
        "  cut {",
    ]
    assert listed.stdout.splitlines()[-1] == "`replay import --retry` tries 3 of them again"
    documents = json.loads(run("import", "--rejects", "jsonl", "--json").stdout)
    assert [(d["file"], d["line"], d["alone"]) for d in documents] == [
        ("f.jsonl", n, True) for n in (2, 3, 4)
    ]
    assert json.loads(documents[0]["record"]) == BAD
    assert documents[1]["record"] == "cut {"
    assert json.loads(run("import", "--rejects", "openai", "--json").stdout) == []
    assert run("import", "--rejects", "openai").stderr == "no record was rejected by openai\n"


def test_what_was_rejected_is_tried_again_after_an_upgrade(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = good_record("jsonl", 7)
    write(folder / "f.jsonl", BAD, "", record, "cut {", record | {"trace_id": "t8"})
    real = jsonl._trace

    def too_old(*record: Any) -> Trace:
        trace = real(*record)
        if trace.trace_id.startswith("t"):
            raise RecordError("this version cannot read it")
        return trace

    with monkeypatch.context() as older:
        older.setattr("replaydiff.importers.sources.jsonl._trace", too_old)
        assert run("import", "jsonl", "f.jsonl").exit_code == 3
    assert [(reject.line, reject.reason) for reject in rejects()] == [
        (1, "started_at is missing"),
        (3, "this version cannot read it"),
        (4, "not JSON: Expecting value (column 1)"),
        (5, "this version cannot read it"),
    ]
    (folder / "f.jsonl").unlink()
    tried = run("import", "--retry")
    assert tried.exit_code == 3
    assert tried.stdout == (
        "2 traces from 1 file (jsonl): 2 new, 0 updated, 0 unchanged; 0 tool calls\n"
        "2 records rejected, the first at f.jsonl:1: started_at is missing; see `replay import --rejects`\n"
    )
    assert [(reject.line, reject.record) for reject in rejects()] == [
        (1, '{"trace_id":"x","input":"no time"}'),
        (4, "cut {"),
    ]
    with open_store(store(), read_only=True) as con:
        assert get_trace(con, "t8").input == "Question 7"
    assert json.loads(run("import", "--retry", "openai", "--json").stdout)["rejected"] == 0


def test_a_part_of_a_trace_is_not_tried_alone_since_it_would_replace_the_whole(folder: Path) -> None:
    row = good_record("langfuse", 1)
    write(folder / "f.jsonl", row, {**row, "id": "o2", "type": "TOOL", "startTime": "when?", "name": "late"})
    run("import", "langfuse", "f.jsonl")
    with open_store(store(), read_only=True) as con:
        before = count_traces(con)
    found = rejects()
    assert found
    assert [reject.alone for reject in found] == [False] * len(found)
    listed = run("import", "--rejects").stdout
    assert "import their files again, all together, like `replay import langfuse f.jsonl`" in listed
    tried = run("import", "--retry")
    assert (tried.exit_code, tried.stdout) == (0, "")
    assert tried.stderr.startswith("there is no rejected record that can be tried again")
    assert rejects() == found
    with open_store(store(), read_only=True) as con:
        assert count_traces(con) == before


def test_a_record_that_is_too_long_keeps_its_beginning_alone(folder: Path) -> None:
    write(folder / "f.jsonl", BAD | {"input": "x" * STORED_CHARACTERS}, "{" + "y" * STORED_CHARACTERS)
    run("import", "jsonl", "f.jsonl")
    assert [(r.record, r.alone, len(r.excerpt)) for r in rejects()] == [(None, False, 200)] * 2


@pytest.mark.parametrize(
    "args", [["--retry", "jsonl", "f.jsonl"], ["--rejects", "--retry"], ["--rejects", "--strict"]]
)
def test_listing_and_trying_again_stand_alone(args: list[str]) -> None:
    result = run("import", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: --rejects and --retry take no other arguments than the name of a source\n"
    assert run("import").stderr.startswith("error: which source?")


def snapshot() -> dict[str, Any]:
    with open_store(store(), read_only=True) as con:
        tables = ("traces", "tool_calls", "rejects", "redactions", "redaction_key", "import_marks")
        return {table: con.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in tables}


@pytest.mark.slow
def test_strict_stops_at_the_first_reject_and_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_TRACES", 3)
    write(folder / "replay.toml", "[import.redact]\n")
    write(folder / "old.jsonl", good_record("jsonl", 1), BAD)
    run("import", "jsonl", "old.jsonl")
    before = snapshot()
    changed = good_record("jsonl", 1) | {"release": "2", "input": "I am eve@example.com"}
    many = [good_record("jsonl", n) for n in (*range(20, 30), 21, 22)]
    write(folder / "a.jsonl", *many, changed)
    write(folder / "b.jsonl", good_record("openai", 40))
    write(
        folder / "old.jsonl", good_record("jsonl", 50), {"trace_id": "y"}, good_record("jsonl", 51), "cut {"
    )
    result = run("import", "auto", "a.jsonl", "b.jsonl", "old.jsonl", "--strict")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == (
        "error: old.jsonl:2: started_at is missing; nothing was imported (--strict)"
    )
    assert snapshot() == before
    result = run("import", "auto", "a.jsonl", "b.jsonl", "--strict", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["traces"] == {"new": 11, "updated": 1, "unchanged": 0}
    assert json.loads(result.stdout)["duplicates"] == 2
    assert run("import", "auto", "a.jsonl", "--json").exit_code == 0


@pytest.mark.slow
def test_rejects_of_an_earlier_import_go_once_the_file_is_read_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "f.jsonl", BAD, "cut {")
    run("import", "jsonl", "f.jsonl")
    write(folder / "f.jsonl", good_record("jsonl", 1), "cut {")

    def killed(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(module, "write_rows", killed)
        assert run("import", "jsonl", "f.jsonl").exit_code == 130
    assert [reject.line for reject in rejects()] == [1, 2], "an import that did not end loses none"
    run("import", "jsonl", "f.jsonl")
    assert [reject.line for reject in rejects()] == [2]
