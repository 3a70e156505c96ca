"""Records that the store knows are not converted again, and nobody can tell from what comes of an import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from replaydiff.importers import known
from replaydiff.importers.base import find_importer
from replaydiff.importers.collect import collected
from replaydiff.importers.ingest import Report, ingest
from replaydiff.importers.known import KnownRecords
from replaydiff.importers.sources import jsonl
from replaydiff.replay.redact.redactor import redactor
from replaydiff.replay.settings import RedactSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.import_records import Tokens
from replaydiff.replay.store.seen import SeenIds
from tests.importers.reading import good_record
from tests.stand_ins.full import examples


def _import(store: Path, file: Path, *, redacted: bool = False) -> Report:
    with collected([str(file)]) as files, open_store(store) as con:
        on = redactor(RedactSection(), file.parent, Tokens(con)) if redacted else None
        return ingest(con, find_importer("jsonl"), files, redactor=on)


def _rows(store: Path) -> list[Any]:
    with open_store(store, read_only=True) as con:
        traces = con.execute("SELECT * EXCLUDE imported_at FROM traces ORDER BY trace_id").fetchall()
        return traces + con.execute("SELECT * FROM tool_calls ORDER BY ALL").fetchall()


def _no_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a record was converted")

    monkeypatch.setattr(jsonl, "_trace", fail)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.jsonl"
    calls = [{"name": "look_up", "args": {"n": 1}}, {"name": "look_up", "args": {}, "result": 1}]
    records = [{**good_record("jsonl", number), "tool_calls": calls} for number in range(5)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_known_records_are_counted_and_not_converted(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _import(tmp_path / "s.duckdb", file)
    before = _rows(tmp_path / "s.duckdb")
    _no_conversion(monkeypatch)
    again = _import(tmp_path / "s.duckdb", file)
    assert (first.new, first.tool_calls, first.unanswered) == (5, 10, 5)
    assert (again.new, again.unchanged, again.rejected) == (0, 5, 0)
    assert (again.tool_calls, again.unanswered, again.states) == (10, 5, first.states)
    assert _rows(tmp_path / "s.duckdb") == before


def test_records_with_remarks_are_converted_each_time(tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text(json.dumps({**good_record("jsonl", 1), "odd": 1}))
    first, again = (_import(tmp_path / "s.duckdb", file) for _ in range(2))
    assert first.notes == again.notes != {}


def test_another_code_converts_again_and_then_no_more(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "s.duckdb"
    _import(store, file)
    old = _rows(store)
    monkeypatch.setattr(known, "code_hash", lambda: b"another")
    assert _import(store, file).unchanged == 5
    assert _rows(store) != old, "the hashes are those of the new code"
    _no_conversion(monkeypatch)
    assert _import(store, file).unchanged == 5


def test_redaction_keeps_no_hash_of_what_it_replaced(file: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.duckdb"
    for redacted, hashes in ((False, 5), (True, 0), (False, 5)):
        _import(store, file, redacted=redacted)
        with open_store(store, read_only=True) as con:
            assert con.execute("SELECT count(record_hash) FROM traces").fetchall() == [(hashes,)]


RECORDS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 2)), max_size=8)
"""Of each record its id, which of its contents, and when it was changed last (0: not known)."""


@settings(
    max_examples=examples(25, 400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(files=st.lists(RECORDS, min_size=2, max_size=3), batch=st.integers(1, 3), commit=st.integers(1, 8))
@pytest.mark.slow
def test_any_imports_end_as_if_nothing_had_been_known(
    files: list[list[tuple[int, int, int]]], batch: int, commit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("imports")
    found: list[Any] = []
    for knows in (True, False):
        store = folder / f"{knows}.duckdb"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("replaydiff.importers.ingest.BATCH_TRACES", batch)
            patch.setattr("replaydiff.importers.ingest.COMMIT_TRACES", commit)
            if not knows:
                patch.setattr(KnownRecords, "of", lambda *_: {})
            reports = []
            for records in files:
                path = folder / "f.jsonl"
                lines = [
                    {**good_record("jsonl", number), "tool_calls": [{"name": "a"}] * content}
                    | ({"updated_at": f"2026-11-0{day}"} if day else {})
                    for number, content, day in records
                ]
                path.write_text("".join(json.dumps(line) + "\n" for line in lines) or "\n{}")
                reports.append(_import(store, path))
        found.append((reports, _rows(store)))
    assert found[0] == found[1]


@given(st.lists(st.lists(st.text(max_size=2)), max_size=8), st.integers(1, 5))
def test_seen_ids_are_a_set(added: list[list[str]], recent: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replaydiff.replay.store.seen._RECENT", recent)
        seen, plain = SeenIds(), set[str]()
        for ids in added:
            assert seen.among(set(ids)) == plain & set(ids)
            seen.add(ids)
            plain.update(ids)
        assert seen.among(plain) == plain
