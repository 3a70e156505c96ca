"""Batches: what is counted where one id comes in several of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaydiff.importers import ingest as module
from replaydiff.importers.base import find_importer
from replaydiff.importers.collect import collected
from replaydiff.replay.store.traces import count_traces, get_trace
from tests.importers.reading import good_record
from tests.stand_ins.stores import open_for_writing


def test_an_id_that_comes_in_several_batches_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_TRACES", 2)
    rows = []
    for version, number in enumerate((1, 2, 3, 1, 4, 1)):
        calls = [{"name": "t", "result": "r"}] * version
        rows.append(good_record("jsonl", number) | {"tool_calls": calls, "release": str(version)})
    file = tmp_path / "f.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    with collected([str(file)]) as files, open_for_writing(tmp_path / "s.duckdb") as con:
        limit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
        report = module.ingest(con, find_importer("jsonl"), files)
        after = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
        assert after[:3] == limit[:3], "the database gets back what it may use"
        assert count_traces(con) == 4
        assert get_trace(con, "t1").release == "5"
    assert (report.new, report.updated, report.unchanged, report.duplicates) == (4, 0, 0, 2)
    assert report.tool_calls == 1 + 2 + 4 + 5
