"""Batches: what is counted where one id comes in several of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from replaydiff.importers import ingest as module
from replaydiff.importers.base import Imported, find_importer
from replaydiff.importers.collect import collected
from replaydiff.replay.errors import InputError
from replaydiff.replay.store.traces import count_traces, get_trace
from tests.importers.reading import good_record
from tests.stand_ins.stores import open_for_writing


@pytest.mark.parametrize("commit", [1, 3, 100])
def test_an_id_that_comes_in_several_batches_is_counted_once(
    commit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_TRACES", 2)
    monkeypatch.setattr(module, "COMMIT_TRACES", commit)
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


def test_an_import_that_fails_keeps_what_it_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_TRACES", 2)
    monkeypatch.setattr(module, "COMMIT_TRACES", 3)
    file = tmp_path / "f.jsonl"
    file.write_text("\n".join(json.dumps(good_record("jsonl", number)) for number in range(7)))
    with collected([str(file)]) as files, open_for_writing(tmp_path / "s.duckdb") as con:
        importer = find_importer("jsonl")

        def cut() -> Iterator[Imported]:
            yield from islice(importer.read_files(files), 5)
            raise InputError("the server is gone")

        with pytest.raises(InputError, match="gone"):
            module.write(
                con,
                module.Report("jsonl", 1),
                module.encoded(cut(), module.media_keeper(con, None)),
                None,
                None,
            )
        assert count_traces(con) == 2, "the second batch was not committed"
        report = module.ingest(con, importer, files)
        assert (report.new, report.unchanged, count_traces(con)) == (5, 2, 7)
