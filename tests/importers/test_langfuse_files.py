"""Exports of Langfuse as they lie in a folder: every format the same, manifests obeyed, tables joined."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from replaydiff.importers.base import Imported, Note, Reject, Skipped
from replaydiff.replay.model import Trace
from tests.importers.reading import SAMPLES, items, others, traces
from tests.stand_ins.processes import replay

Rows = Sequence[dict[str, Any]]
OBSERVATIONS: Rows = [
    json.loads(line) for line in (SAMPLES / "langfuse" / "blob-observations.jsonl").read_text().splitlines()
]
SCORES: Rows = [
    {
        "id": f"s{number}",
        "timestamp": "2026-11-04 10:05:00.000",
        "project_id": "p1",
        "environment": "production",
        "trace_id": "bt1",
        "observation_id": None,
        "session_id": None,
        "dataset_run_id": None,
        "name": name,
        "value": value,
        "source": "API",
        "comment": None,
        "data_type": kind,
        "string_value": text,
        "created_at": "2026-11-04 10:05:00.000",
        "updated_at": "2026-11-04 10:05:00.000",
    }
    for number, (name, value, kind, text) in enumerate(
        [
            ("thumbs", 1, "NUMERIC", None),
            ("solved", 0, "BOOLEAN", "False"),
            ("topic", 0, "CATEGORICAL", "parcels"),
        ]
    )
]
WANTED_SCORES = {"thumbs": 1.0, "solved": False, "topic": "parcels"}


def _jsonl(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _json(path: Path, rows: Rows) -> None:
    path.write_text("[" + ",".join(json.dumps(row) for row in rows) + "]")


def _csv(path: Path, rows: Rows) -> None:
    cells = [
        ["" if cell is None else cell if isinstance(cell, str) else json.dumps(cell) for cell in row.values()]
        for row in rows
    ]
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([list(rows[0]), *cells])


TYPES = {
    "start_time": "TIMESTAMP",
    "end_time": "TIMESTAMP",
    "updated_at": "TIMESTAMP",
    "timestamp": "TIMESTAMP",
    "is_root_observation": "BOOLEAN",
    "metadata": "MAP(VARCHAR, VARCHAR)",
    "usage_details": "MAP(VARCHAR, UBIGINT)",
    "cost_details": "MAP(VARCHAR, DECIMAL(18, 12))",
    "total_cost": "DECIMAL(18, 12)",
    "value": "DOUBLE",
    "latency": "DOUBLE",
    "tags": "VARCHAR[]",
    "tool_calls": "VARCHAR[]",
    "tool_call_names": "VARCHAR[]",
    "tool_definitions": "MAP(VARCHAR, VARCHAR)",
    "output": "BLOB",
}


def _parquet(path: Path, rows: Rows) -> None:
    """As a column store writes it: typed, maps, and a text that does not say so."""
    lines = path.with_suffix(".tmp")
    _jsonl(lines, rows)
    columns = {
        name: "VARCHAR" if TYPES.get(name) == "BLOB" else TYPES.get(name, "VARCHAR") for name in rows[0]
    }
    replaced = "REPLACE (encode(output) AS output)" if "output" in rows[0] else ""
    with duckdb.connect() as con:
        con.execute(
            f"COPY (SELECT * {replaced} FROM read_json('{lines}', format = 'newline_delimited', columns = {columns}))"
            f" TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
        )
    lines.unlink()


FORMATS = {"jsonl": _jsonl, "json": _json, "csv": _csv, "parquet": _parquet}


def _export(folder: Path, suffix: str, tables: dict[str, Rows], stamp: str = "2026-11-04T11-00-00") -> Path:
    """One run of a scheduled export, its manifest written last."""
    project = folder / "exports" / "p1"
    listed = []
    for table, rows in tables.items():
        path = project / table / f"{stamp}.{suffix.removesuffix('.gz')}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if rows:
            FORMATS[path.suffix[1:]](path, rows)
        else:
            path.write_text("")
        if suffix.endswith(".gz"):
            packed = path.with_name(path.name + ".gz")
            packed.write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        listed.append(
            {
                "key": f"exports/p1/{table}/{stamp}.{suffix}",
                "table": table,
                "rowCount": None if suffix == "parquet" else len(rows),
            }
        )
    manifest = project / "manifests" / f"{stamp}.json"
    manifest.parent.mkdir(exist_ok=True)
    window = {"minTimestamp": "2026-11-04T10:00:00.000Z", "maxTimestamp": "2026-11-04T11:00:00.000Z"}
    manifest.write_text(
        json.dumps(
            {"version": 1, "projectId": "p1", "window": window, "tables": list(tables), "files": listed}
        )
    )
    return project


def _by_id(found: Sequence[Imported]) -> dict[str, Trace]:
    return {item.trace_id: item for item in found if isinstance(item, Trace)}


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "json", "json.gz", "csv", "csv.gz", "parquet"])
def test_every_format_of_an_export_gives_the_same_traces(suffix: str, tmp_path: Path) -> None:
    _export(tmp_path, suffix, {"scores": SCORES, "observations_v2": OBSERVATIONS})
    found = items("langfuse", tmp_path)
    assert others(found) == []
    sample = traces("langfuse", SAMPLES / "langfuse" / "blob-observations.jsonl")
    for trace in sample:
        got = _by_id(found)[trace.trace_id]
        for name in (
            "input",
            "final_response",
            "tool_calls",
            "usage",
            "started_at",
            "ended_at",
            "messages",
            "tags",
        ):
            assert getattr(got, name) == getattr(trace, name), name
        assert got.metadata == trace.metadata
    assert _by_id(found)["bt1"].scores == WANTED_SCORES
    assert _by_id(found)["bt1"].cost_usd == pytest.approx(0.005)


def test_auto_takes_a_whole_export(tmp_path: Path) -> None:
    _export(tmp_path, "parquet", {"scores": SCORES, "observations_v2": OBSERVATIONS})
    done = replay(tmp_path, "import", "auto", "exports", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["traces"]["new"] == 3
    assert report["tool_calls"] == 3
    assert (report["rejected"], report["skipped"]) == (0, 0)


def test_who_gave_a_score_is_recorded_where_the_platform_says_it(tmp_path: Path) -> None:
    thumbs, solved, topic = SCORES
    rows = [{**thumbs, "source": "EVAL"}, {**solved, "source": "ANNOTATION"}, topic]
    _export(tmp_path, "jsonl", {"scores": rows, "observations_v2": OBSERVATIONS})
    found = _by_id(items("langfuse", tmp_path))["bt1"]
    assert found.metadata["scored_by"] == {"thumbs": "judge", "solved": "person"}


def test_an_hour_without_scores_is_no_fault(tmp_path: Path) -> None:
    _export(tmp_path, "jsonl", {"scores": [], "observations_v2": OBSERVATIONS})
    assert others(items("langfuse", tmp_path)) == []


def test_rows_on_the_edge_of_two_windows_count_once_and_traces_across_them_are_one(tmp_path: Path) -> None:
    before, after = OBSERVATIONS[:3], OBSERVATIONS[2:]
    newer = {**after[0], "output": "changed", "updated_at": "2026-11-04 12:00:00.000000"}
    _export(tmp_path, "jsonl.gz", {"observations_v2": [newer, *after[1:]]}, "2026-11-04T11-00-00")
    _export(tmp_path, "jsonl.gz", {"observations_v2": before}, "2026-11-04T12-00-00")
    found = _by_id(items("langfuse", tmp_path))
    assert len(found) == 3
    (changed,) = [step for step in found["bt1"].steps if step.source_span_id == newer["id"]]
    assert changed.output == "changed"
    assert len(found["bt1"].steps) == 5


@pytest.mark.parametrize("newest_first", [True, False])
def test_the_later_state_of_a_row_counts_however_its_time_is_written(
    newest_first: bool, tmp_path: Path
) -> None:
    old = {**OBSERVATIONS[1], "output": "old", "updated_at": "2026-11-04 10:00:04.500000"}
    new = {
        "id": "o1",
        "traceId": "bt1",
        "type": "AGENT",
        "name": "parcel-agent",
        "startTime": "2026-11-04T10:00:00.000Z",
        "updatedAt": "2026-11-04T10:00:04.250Z",
        "output": "earlier than old",
    }
    _jsonl(tmp_path / ("b" if newest_first else "a"), [new])
    _jsonl(tmp_path / ("a" if newest_first else "b"), [old])
    (trace,) = traces("langfuse", tmp_path / "a", tmp_path / "b")
    assert trace.final_response == "old"


def test_a_file_that_no_manifest_names_is_left_out_unless_it_is_named_itself(tmp_path: Path) -> None:
    project = _export(tmp_path, "jsonl", {"observations_v2": OBSERVATIONS[:5]})
    loose = project / "observations_v2" / "2026-11-04T12-00-00.jsonl"
    _jsonl(loose, OBSERVATIONS[5:])
    found = items("langfuse", tmp_path)
    assert list(_by_id(found)) == ["bt1"]
    (left,) = others(found)
    assert isinstance(left, Skipped)
    assert "that no manifest names" in left.reason
    assert list(_by_id(items("langfuse", loose))) == ["bt2", "bt3"]


def test_without_manifests_every_file_is_taken(tmp_path: Path) -> None:
    project = _export(tmp_path, "jsonl", {"observations_v2": OBSERVATIONS})
    (project / "manifests" / "2026-11-04T11-00-00.json").unlink()
    assert len(_by_id(items("langfuse", tmp_path))) == 3


def test_files_that_are_missing_or_cut_off_are_told(tmp_path: Path) -> None:
    project = _export(tmp_path, "jsonl", {"scores": SCORES, "observations_v2": OBSERVATIONS})
    data = project / "observations_v2" / "2026-11-04T11-00-00.jsonl"
    _jsonl(data, OBSERVATIONS[:5])
    (project / "scores" / "2026-11-04T11-00-00.jsonl").unlink()
    texts = [item.text for item in others(items("langfuse", tmp_path)) if isinstance(item, Note)]
    assert len(texts) == 2
    assert "are not here; fetch them" in texts[0]
    assert "fewer rows than the manifest" in texts[1]


def test_a_file_that_was_unpacked_is_still_the_one_the_manifest_names(tmp_path: Path) -> None:
    project = _export(tmp_path, "jsonl.gz", {"observations_v2": OBSERVATIONS})
    packed = project / "observations_v2" / "2026-11-04T11-00-00.jsonl.gz"
    packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    found = items("langfuse", tmp_path)
    assert others(found) == []
    assert len(_by_id(found)) == 3


@pytest.mark.parametrize(
    "files",
    [
        [{"key": "../../../etc/passwd"}, {"key": "a/../../b"}, {"key": "\u0000"}, {"key": 5}, 7, None, {}],
        [],
        "none",
        {"key": "x"},
    ],
)
def test_a_manifest_that_makes_no_sense_harms_nothing(files: Any, tmp_path: Path) -> None:
    project = tmp_path / "p"
    (project / "manifests").mkdir(parents=True)
    (project / "manifests" / "x.json").write_text(json.dumps({"window": {}, "tables": [], "files": files}))
    _jsonl(project / "rows.jsonl", OBSERVATIONS)
    assert len(_by_id(items("langfuse", tmp_path))) == 3


LEGACY_TRACE = {
    "id": "lt1",
    "timestamp": "2026-11-04 09:00:00.000",
    "name": "router",
    "environment": "default",
    "project_id": "p1",
    "metadata": {"plan": "team"},
    "user_id": "u-8",
    "session_id": "",
    "release": "r-3",
    "version": "",
    "public": False,
    "bookmarked": False,
    "tags": ["a", "b"],
    "input": json.dumps({"question": "Who is on call?"}),
    "output": "Kim is.",
    "created_at": "2026-11-04 09:00:05.000",
    "updated_at": "2026-11-04 09:00:05.000",
}
LEGACY_OBSERVATION = {
    "id": "lo1",
    "trace_id": "lt1",
    "project_id": "p1",
    "environment": "default",
    "type": "TOOL",
    "parent_observation_id": None,
    "start_time": "2026-11-04 09:00:01.000",
    "end_time": "2026-11-04 09:00:01.250",
    "name": "rota",
    "metadata": {},
    "level": "DEFAULT",
    "status_message": None,
    "version": None,
    "input": json.dumps({"day": "today"}),
    "output": "Kim",
    "provided_model_name": None,
    "usage_details": {},
    "cost_details": {},
    "latency": 250,
}


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_the_legacy_tables_are_joined(suffix: str, tmp_path: Path) -> None:
    score = {**SCORES[0], "trace_id": "lt1"}
    _export(
        tmp_path, suffix, {"scores": [score], "traces": [LEGACY_TRACE], "observations": [LEGACY_OBSERVATION]}
    )
    found = items("langfuse", tmp_path)
    assert others(found) == []
    (trace,) = traces("langfuse", tmp_path)
    assert (trace.name, trace.user_id, trace.release, trace.tags) == ("router", "u-8", "r-3", ("a", "b"))
    assert (trace.environment, trace.session_id, trace.metadata) == (None, None, {"plan": "team"})
    assert (trace.input, trace.final_response) == ("Who is on call?", "Kim is.")
    (call,) = trace.tool_calls
    # 250 is milliseconds here and would be seconds elsewhere: only the two times are believed.
    assert (call.name, call.args, call.result, call.duration_ms) == ("rota", {"day": "today"}, "Kim", 250.0)
    assert trace.scores == {"thumbs": 1.0}


def test_traces_alone_say_what_to_export_with_them(tmp_path: Path) -> None:
    _jsonl(tmp_path / "t.jsonl", [LEGACY_TRACE])
    note, trace = items("langfuse", tmp_path)
    assert isinstance(trace, Trace)
    assert isinstance(note, Note)
    assert "export the observations" in note.text


def test_scores_alone_are_left_out_with_what_to_do(tmp_path: Path) -> None:
    _jsonl(tmp_path / "s.jsonl", SCORES)
    (left,) = items("langfuse", tmp_path)
    assert isinstance(left, Skipped)
    assert "import them together" in left.reason


def test_corrections_come_with_a_download_and_with_pages_of_scores(tmp_path: Path) -> None:
    trace = {
        "id": "k1",
        "timestamp": "2026-11-04T09:00:00.000Z",
        "name": "n",
        "input": '"Hi"',
        "output": '"Yo"',
    }
    row = {"id": "o", "type": "AGENT", "name": "n", "startTime": "2026-11-04T09:00:00.000Z", "traceId": "k1"}
    fixed = {"id": "c", "name": "output", "dataType": "CORRECTION", "timestamp": "2026-11-05T09:00:00.000Z"}
    download = tmp_path / "trace-k1.json"
    download.write_text(
        json.dumps(
            {"trace": {**trace, "corrections": [{**fixed, "stringValue": "Hello"}]}, "observations": [row]}
        )
    )
    (found,) = traces("langfuse", download)
    assert found.metadata["corrected_response"] == "Hello"
    later = {**fixed, "id": "d", "timestamp": "2026-11-06T09:00:00.000Z", "value": "Good day"}
    page = tmp_path / "scores.json"
    page.write_text(json.dumps({"data": [{**later, "subject": {"kind": "trace", "id": "k1"}}], "meta": {}}))
    (found,) = traces("langfuse", download, page)
    assert found.metadata["corrected_response"] == "Good day"
    assert found.scores == {}


@pytest.mark.parametrize(
    "field",
    [
        "[" * 10_000,
        '{"a":' * 10_000,
        "{'a':" * 10_000,
        "\x00" * 1_000,
        '"' * 10_001,
        '=cmd|"/C calc"!A0',
        "\ud800",
        "@@@langfuseMedia:type=image/png|id=x|source=bytes@@@",
    ],
)
def test_hostile_fields_are_text(field: str, tmp_path: Path) -> None:
    row = {
        **OBSERVATIONS[1],
        "input": field,
        "metadata": {"m": field},
        "usage_details": field,
        "tool_calls": field,
    }
    _jsonl(
        tmp_path / "f.jsonl",
        [row, {**row, "id": "2", "type": "GENERATION", "output": field}, OBSERVATIONS[-1]],
    )
    found = items("langfuse", tmp_path)
    assert len(_by_id(found)) == 2
    assert others(found) == []


def test_nesting_that_is_too_deep_to_keep_is_a_reject(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(240):
        deep = [[deep]]
    lines = [json.dumps({**OBSERVATIONS[1], "metadata": {"deep": "HERE"}}), json.dumps(OBSERVATIONS[-1])]
    for depth in (300, 600, 900, 990):
        nested = "[" * depth + "]" * depth
        (tmp_path / "f.jsonl").write_text("\n".join(lines).replace('"HERE"', nested))
        found = items("langfuse", tmp_path)
        assert "bt3" in _by_id(found)
        assert all(isinstance(item, Reject) for item in others(found))
        assert len(_by_id(found)) + len(others(found)) == 2
