"""What every importer promises, held against each built-in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import BUILTIN, Reject, find_importer
from replaydiff.importers.collect import collected
from replaydiff.importers.ingest import Report, ingest
from replaydiff.importers.redacting import Redaction
from replaydiff.replay.settings import RedactSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.import_records import list_rejects
from replaydiff.replay.store.traces import iter_traces
from tests.importers.reading import SAMPLE_FILES, good_record, items, others, place, traces
from tests.stand_ins.full import examples
from tests.stand_ins.stores import open_for_writing

# A trace of a coding agent is many records: test_claude_code.py and test_codex.py hold them to the same.
# The others are read by the loops of others: formats.py has their records.
_APART = (
    "claude-code",
    "codex",
    "inspect",
    "atif",
    "bedrock",
    "litellm",
    "weave",
    "openai-agents",
    "adk",
    "gemini-cli",
    "opik",
    "datadog",
)
SOURCES = [name for name in BUILTIN if name not in _APART]


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    """Each source."""
    return str(request.param)


def _write(path: Path, *lines: Any) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def _put(record: dict[str, Any], what: str, value: Any) -> None:
    holder, key = place(record, what)
    holder[key] = value


def _import(store: Path, source: str, *paths: Path) -> Report:
    with collected([str(path) for path in paths]) as files, open_for_writing(store) as con:
        return ingest(con, find_importer(source), files)


def test_says_what_it_is(source: str) -> None:
    module = find_importer(source)
    assert source == module.NAME
    assert module.RECOGNISED_BY


def test_importing_twice_changes_nothing(source: str, tmp_path: Path) -> None:
    samples = [file for file in SAMPLE_FILES if file.parent.name == source]
    first = _import(tmp_path / "s.duckdb", source, *samples)
    again = _import(tmp_path / "s.duckdb", source, *samples)
    assert first.new == first.traces > 0
    assert (again.new, again.updated, again.unchanged) == (0, 0, first.new)
    assert again.tool_calls == first.tool_calls


def test_what_is_stored_comes_back_as_it_was_read(source: str, tmp_path: Path) -> None:
    samples = [file for file in SAMPLE_FILES if file.parent.name == source]
    read = {trace.trace_id: trace for trace in traces(source, *samples)}
    _import(tmp_path / "s.duckdb", source, *samples)
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        assert {trace.trace_id: trace for trace in iter_traces(con, read)} == read


def test_redacted_twice_changes_nothing_either(source: str, tmp_path: Path) -> None:
    samples = [str(file) for file in SAMPLE_FILES if file.parent.name == source]
    reports = []
    for _ in range(2):
        with collected(samples) as files, open_store(tmp_path / "s.duckdb") as con:
            on = Redaction(RedactSection(ids=True), tmp_path, con)
            reports.append(ingest(con, find_importer(source), files, redaction=on))
    first, again = reports
    assert (again.new, again.updated, again.unchanged) == (0, 0, first.new)
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        ids = con.execute("SELECT DISTINCT user_id FROM traces WHERE user_id IS NOT NULL").fetchall()
    assert all(user_id.startswith("[USER_") for (user_id,) in ids)


def test_order_of_the_file_has_content(source: str, tmp_path: Path) -> None:
    file = _write(tmp_path / "f.jsonl", *(good_record(source, number) for number in (5, 3, 9, 1)))
    assert [trace.trace_id for trace in traces(source, file)] == ["t5", "t3", "t9", "t1"]


BAD = (
    ("this is not JSON", "not JSON"),
    ('{"cut": "her', "not JSON"),
    ("17", "must be an object"),
    ("{}", ""),
    ('{"trace_id": [], "started_at": {}, "messages": 5, "id": {}}', ""),
    ("[" * 5000, "nested too deeply"),
)
"""A line, and what the reason of its reject says."""


def test_a_bad_record_is_a_reject_and_the_rest_comes_in(source: str, tmp_path: Path) -> None:
    lines: list[Any] = [good_record(source, 0)]
    for number, (bad, _) in enumerate(BAD, start=1):
        lines += [bad, good_record(source, number)]
    file = _write(tmp_path / "f.jsonl", *lines)
    report = _import(tmp_path / "s.duckdb", source, file)
    assert (report.new, report.rejected) == (len(BAD) + 1, len(BAD))
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        rejects = sorted(list_rejects(con), key=lambda reject: reject.line or 0)
    for number, ((bad, reason), stored) in enumerate(zip(BAD, rejects, strict=True)):
        assert (stored.source, stored.file, stored.line) == (source, str(file), 2 * number + 2)
        assert reason in stored.reason
        assert bad.replace(" ", "").startswith(stored.excerpt.replace(" ", ""))
        assert len(stored.excerpt) <= 200


def test_a_mended_file_leaves_no_rejects_behind(source: str, tmp_path: Path) -> None:
    file = _write(tmp_path / "f.jsonl", good_record(source, 1), "bad")
    _import(tmp_path / "s.duckdb", source, file)
    _write(file, good_record(source, 1), good_record(source, 2))
    report = _import(tmp_path / "s.duckdb", source, file)
    assert (report.new, report.unchanged, report.rejected) == (1, 1, 0)
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        assert list_rejects(con) == []


def test_a_cut_last_line_is_a_reject(source: str, tmp_path: Path) -> None:
    whole = "\n".join(json.dumps(good_record(source, number)) for number in range(3))
    file = tmp_path / "f.jsonl"
    file.write_text(whole[:-20])
    assert [trace.trace_id for trace in traces(source, file)] == ["t0", "t1"]
    (reject,) = others(items(source, file))
    assert isinstance(reject, Reject)
    assert reject.line == 3


def test_bytes_that_are_no_utf8_reject_their_line_alone(source: str, tmp_path: Path) -> None:
    first, second = (json.dumps(good_record(source, number)).encode() for number in (1, 2))
    file = tmp_path / "f.jsonl"
    file.write_bytes(first.replace(b"Question", b"Fran\xe7ais") + b"\n" + second + b"\n")
    assert [trace.trace_id for trace in traces(source, file)] == ["t2"]
    (reject,) = others(items(source, file))
    assert isinstance(reject, Reject)
    assert reject.reason.startswith("not UTF-8: byte 0xe7")


def test_of_two_records_with_one_id_the_last_counts(source: str, tmp_path: Path) -> None:
    first, last = good_record(source, 1), good_record(source, 1)
    for record, answer in ((first, "old"), (last, "new")):
        _put(record, "answer", answer)
    file = _write(tmp_path / "f.jsonl", first, good_record(source, 2), last)
    report = _import(tmp_path / "s.duckdb", source, file)
    assert report.traces == 2
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        assert next(iter_traces(con, ["t1"])).final_response == "new"


def test_one_huge_record(source: str, tmp_path: Path) -> None:
    record, size = good_record(source, 1), examples(1_500_000, 6_000_000)
    _put(record, "input", "wide " * (size // 5))
    file = _write(tmp_path / "f.jsonl", record, good_record(source, 2))
    report = _import(tmp_path / "s.duckdb", source, file)
    assert report.new == 2
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        assert len(next(iter_traces(con, ["t1"])).input) == size


HOSTILE = ["__proto__", "'; DROP TABLE traces; --", "a\x00b", "\ud83d", "\u202eevil", "", "🦆" * 50]


def test_hostile_text_in_keys_and_values_is_stored(source: str, tmp_path: Path) -> None:
    records = [good_record(source, number) for number in range(len(HOSTILE))]
    for record, text in zip(records, HOSTILE, strict=True):
        _put(record, "metadata", {text: text, "nested": {text: [text]}})
        record[text + "!"] = text
        _put(record, "input", text + "?")
    report = _import(tmp_path / "s.duckdb", source, _write(tmp_path / "f.jsonl", *records))
    assert (report.new, report.rejected) == (len(HOSTILE), 0)
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        stored = {trace.trace_id: trace for trace in iter_traces(con, [f"t{n}" for n in range(len(HOSTILE))])}
    for number, text in enumerate(HOSTILE):
        trace = stored[f"t{number}"]
        assert trace.input == (text + "?").replace("\x00", "\ufffd").replace("\ud83d", "\ufffd")
        assert "nested" in trace.metadata


TIMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1970-01-01")


def test_times_at_the_ends_of_the_calendar_are_kept(source: str, tmp_path: Path) -> None:
    records = [good_record(source, number) for number in range(len(TIMES))]
    for record, time in zip(records, TIMES, strict=True):
        _put(record, "time", time)
    report = _import(tmp_path / "s.duckdb", source, _write(tmp_path / "f.jsonl", *records))
    assert (report.new, report.rejected) == (len(TIMES), 0)
