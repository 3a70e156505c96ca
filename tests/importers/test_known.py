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
from replaydiff.importers.redacting import Redaction
from replaydiff.importers.sources import jsonl
from replaydiff.replay.settings import RedactSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.seen import SeenIds
from tests.importers.reading import good_record
from tests.stand_ins.full import examples


def _import(store: Path, file: Path, *, redacted: bool = False) -> Report:
    with collected([str(file)]) as files, open_store(store) as con:
        on = Redaction(RedactSection(), file.parent, con) if redacted else None
        return ingest(con, find_importer("jsonl"), files, redaction=on)


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


def _import_redacted(store: Path, file: Path, rules: RedactSection, root: Path = Path()) -> Report:
    with collected([str(file)]) as files, open_store(store) as con:
        return ingest(con, find_importer("jsonl"), files, redaction=Redaction(rules, root, con))


def _hashes(store: Path) -> list[Any]:
    with open_store(store, read_only=True) as con:
        return con.execute("SELECT record_hash FROM traces ORDER BY trace_id").fetchall()


def test_redacted_records_are_known_by_a_hash_that_only_their_store_makes(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, plain = (tmp_path / f"{name}.duckdb" for name in ("one", "other", "plain"))
    for store in (one, other):
        _import(store, file, redacted=True)
    _import(plain, file)
    assert len({*_hashes(one), *_hashes(other), *_hashes(plain)}) == 15
    _no_conversion(monkeypatch)
    assert _import(one, file, redacted=True).unchanged == 5


OTHER_RULES = [
    RedactSection(ids=True),
    RedactSection(regions=("US", "DE")),
    RedactSection(kinds=("email",)),
    RedactSection(patterns={"TOOL": "look_up"}),
]


@pytest.mark.parametrize("rules", OTHER_RULES)
def test_other_rules_of_redaction_read_every_record_again(
    rules: RedactSection, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "s.duckdb"
    _import_redacted(store, file, RedactSection())
    before = _hashes(store)
    _import_redacted(store, file, rules)
    assert not {*before} & {*_hashes(store)}
    _no_conversion(monkeypatch)
    _import_redacted(store, file, rules)


def test_redaction_on_or_off_reads_every_record_again(file: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.duckdb"
    found = []
    for redacted in (False, True, False):
        _import(store, file, redacted=redacted)
        found.append(_hashes(store))
    assert not {*found[0]} & {*found[1]}
    assert found[0] == found[2]


def test_what_a_hook_redacted_is_always_read_again(file: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def find(text): return []")
    _import_redacted(tmp_path / "s.duckdb", file, RedactSection(hook="./own.py:find"), tmp_path)
    assert _hashes(tmp_path / "s.duckdb") == [(None,)] * 5


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
