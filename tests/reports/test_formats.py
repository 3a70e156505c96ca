"""The contract of a report format: every format is given every result."""

from __future__ import annotations

import csv
import functools
import io
import json
import re
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import duckdb
import pytest

from replaydiff.diff.result import DiffResult
from replaydiff.replay.errors import UnknownNameError
from replaydiff.reports import registry
from tests.reports import results, snapshots
from tests.stand_ins.full import full
from tests.stand_ins.schemas import validator

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
KEPT = ("hold", "ship", "cannot_tell", "no_items", "all_errors", "one_lane", "three_lanes")


@functools.cache
def drawn(name: str) -> DiffResult:
    return results.ALL[name]()


@functools.cache
def text_of(name: str, format_: str) -> str:
    return registry.render(drawn(name), format_, width=100)


@pytest.fixture(params=results.ALL)
def name(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.mark.parametrize("format_", [name for name in registry.BUILTIN if name not in ("csv", "parquet")])
def test_the_answer_is_in_every_format_of_every_result(format_: str, name: str) -> None:
    text = text_of(name, format_)
    text.encode("utf-8")
    answer = drawn(name).answer.value
    assert answer in text or answer.replace("'", "&#39;") in text
    assert text.endswith("\n") or format_ == "html"


@pytest.mark.parametrize("format_", ["terminal", "markdown", "csv", "junit", "html"])
def test_no_control_character_of_a_trace_survives(format_: str, name: str) -> None:
    assert CONTROL.search(text_of(name, format_)) is None


@pytest.mark.parametrize("name", KEPT)
def test_the_first_line_is_the_answer(name: str) -> None:
    result = drawn(name)
    assert text_of(name, "terminal").splitlines()[0].startswith(f"{result.answer}  ")
    markdown = text_of(name, "markdown").splitlines()
    assert markdown[0] == "<!-- replaydiff -->"
    assert re.match(rf"### \S+ {result.answer}: ", markdown[1])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=full if name == "many" else ()) for name in results.ALL]
)
def test_json_is_the_published_document(name: str) -> None:
    document = json.loads(text_of(name, "json"), parse_constant=lambda word: pytest.fail(word))
    assert document["schema"] == "replaydiff.diff/1"
    assert document["answer"] == drawn(name).answer
    validator("diff").validate(document)


@pytest.mark.parametrize("name", [kept for kept in KEPT if kept != "three_lanes"])
@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_report_reads_as_it_did(name: str, width: int) -> None:
    snapshots.check(f"{name}.{width}.txt", registry.render(drawn(name), "terminal", width=width))


@pytest.mark.parametrize("name", ["hold", "one_lane", "all_errors"])
@pytest.mark.parametrize("format_", ["markdown", "junit"])
def test_markdown_and_junit_read_as_they_did(name: str, format_: str) -> None:
    snapshots.check(f"{name}{registry.BUILTIN[format_].suffix}", text_of(name, format_))


@pytest.mark.parametrize("name", results.ALL)
def test_csv_has_a_row_for_each_case_and_no_formula(name: str) -> None:
    result = drawn(name)
    rows = list(csv.DictReader(io.StringIO(text_of(name, "csv"))))
    assert [row["verdict"] for row in rows] == [str(item.verdict) for item in result.items]
    for row, item in zip(rows, result.items, strict=True):
        assert not any(cell.startswith(("=", "+", "@", "\t", "＝")) for cell in (*row, *row.values()))
        for metric in result.metrics if name != "hostile" else ():
            cell, found = row[f"{metric}.delta"], item.metrics.get(metric)
            assert (float(cell) if cell else None) == (found.delta if found else None)


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@sum(a)", "\t=1", "\r=1", "＝1+1"])
def test_a_text_that_a_spreadsheet_would_compute_is_no_formula(cell: str) -> None:
    hold = drawn("hold")
    asked = replace(hold.items[0], item=replace(hold.items[0].item, input=cell))
    row = next(csv.DictReader(io.StringIO(registry.render(replace(hold, items=(asked,)), "csv"))))
    assert row["input"].startswith("'")


@pytest.mark.parametrize("name", results.ALL)
def test_parquet_has_the_rows_of_csv_with_types(name: str, tmp_path: Path) -> None:
    result = drawn(name)
    file = tmp_path / "cases.parquet"
    file.write_bytes(registry.render(result, "parquet"))
    with duckdb.connect() as con:
        read = con.execute("SELECT * FROM read_parquet(?)", [str(file)])
        columns = [column[0] for column in read.description]
        rows = [dict(zip(columns, row, strict=True)) for row in read.fetchall()]
    assert [row["verdict"] for row in rows] == [str(item.verdict) for item in result.items]
    assert len(columns) == len(next(csv.reader(io.StringIO(text_of(name, "csv")))))
    for row, item in zip(rows, result.items, strict=True):
        assert row["weight"] == item.item.weight
        for metric in result.metrics if name != "hostile" else ():
            found = item.metrics.get(metric)
            assert row[f"{metric}.delta"] == (found.delta if found else None)
            assert row[f"{metric}.cause"] == (found.cause if found else None)


def test_metrics_that_differ_in_case_alone_are_columns_of_their_own(tmp_path: Path) -> None:
    result = replace(drawn("hold"), metrics={"Wit": results.metric(), "wit": results.metric()})
    file = tmp_path / "cases.parquet"
    file.write_bytes(registry.render(result, "parquet"))
    with duckdb.connect() as con:
        columns = con.execute("SELECT * FROM read_parquet(?)", [str(file)]).description
    assert {"Wit.delta", "wit 2.delta"} <= {column[0] for column in columns}


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"no report format 'pdf'; there are: csv, html, json, junit, markdown"
    ):
        registry.find_format("pdf")


def a_format(result: DiffResult, *, width: int, color: bool) -> str:
    """A format that another package brings."""
    return f"{result.answer} at {width}"


def test_a_format_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint(name="short", value="tests.reports.test_formats:a_format", group=registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [entry])
    assert registry.render(drawn("hold"), "short", width=60) == "HOLD at 60"
