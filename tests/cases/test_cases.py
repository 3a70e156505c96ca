"""`replay cases`: what is wrong with a golden set is said by line, and taking out or adding loses nothing."""

from __future__ import annotations

import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from replaydiff.cases.lint import lint
from tests.stand_ins.processes import replay

GOOD: dict[str, Any] = {
    "id": "good",
    "input": "where is order 7?",
    "expected_tool_calls": [{"name": "get_order", "args": {"id": 7}}],
    "tape": [{"name": "get_order", "args": {"id": 7.0, "trace": "x"}, "result": "shipped"}],
    "metadata": {"last_reviewed": "2026-11-01", "owner": "Ada"},
}
TODAY = date(2026, 11, 21)


def _replay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return replay(folder, *words)


def _write(folder: Path, *cases: dict[str, Any] | str) -> Path:
    golden = folder / "cases" / "golden.jsonl"
    golden.parent.mkdir(exist_ok=True)
    golden.write_text("".join((case if isinstance(case, str) else json.dumps(case)) + "\n" for case in cases))
    return golden


def test_a_good_set_has_nothing_to_complain_of(tmp_path: Path) -> None:
    assert lint(_write(tmp_path, GOOD), TODAY) == []


@pytest.mark.parametrize(
    ("case", "level", "text"),
    [
        ("{not json", "error", "not valid JSON"),
        ({"id": "a"}, "error", "a case needs `input` (text) or `messages`"),
        ({**GOOD, "input": "other"}, "error", "id 'good' is already that of line 1; rename one"),
        ({**GOOD, "id": "twin"}, "error", "the same input and expectation as line 1"),
        ({**GOOD, "id": "b", "expected_tool_calls": []}, "error", "the same input as line 1 with another"),
        ({"id": "b", "input": "hello"}, "warning", "nothing is expected"),
        ({**GOOD, "id": "b", "input": "x", "tape": []}, "warning", "the tape has no answer for the expected"),
        (
            {**GOOD, "id": "b", "input": "Where is order 8?"},
            "warning", "asks almost the same as 'good' on line 1",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "metadata": {"last_reviewed": "2026-01-01"}},
            "warning", "not reviewed for 324 days",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "metadata": {"last_reviewed": "soon"}},
            "warning", "metadata.last_reviewed is not a date",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "tags": ["quarantine"], "metadata": {}},
            "warning", "in quarantine by its tag alone; set owner, since and reason",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "metadata": {"quarantine": {"since": "2026-11-20", "owner": "Bo"}}},
            "note", "in quarantine for 1 days, by Bo; no gate counts it",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "metadata": {"quarantine": {"since": "2026-01-01", "owner": "Bo"}}},
            "warning", "in quarantine for 324 days; correct it, or retire it",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "metadata": {"quarantine": {"since": "2026-11-20"}}},
            "warning", "in quarantine without an owner",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "metadata": {"quarantine": {"owner": "Bo", "since": "May"}}},
            "warning", "metadata.quarantine.since is not a date: 'May'",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "match": {"ignore_tools": ["get_order"]}},
            "error", "a call of get_order is expected, and match leaves its calls out",
        ),
        (
            {
                **GOOD, "id": "b", "input": "x", "expected_tools": ["get_order", "pay"],
                "tape": [*GOOD["tape"], {"name": "pay", "result": 1}],
            },
            "error", "expected_tools names pay, and expected_tool_calls with match strict allows no call of it",
        ),
        ({**GOOD, "id": "b", "input": "x", "tolerance": "exact_match"}, "error", "has no expected_answer"),
        (
            {**GOOD, "id": "b", "input": "x", "tape": [*GOOD["tape"], {"name": "is_open", "result": "false"}]},
            "warning", "the tape answers is_open with the text false: if the tool returns the value, promote",
        ),
        (
            {**GOOD, "id": "b", "input": "x", "tape": [*GOOD["tape"], {"name": "look", "result": '{"a": 1}'}]},
            "note", 'set result = "json" in [tools.look]; if it returns text, result = "text"',
        ),
        ({**GOOD, "id": "b", "input": "x", "expcted_tools": []}, "warning", "nothing reads expcted_tools"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_line(
    case: dict[str, Any] | str, level: str, text: str, tmp_path: Path
) -> None:
    (finding,) = lint(_write(tmp_path, GOOD, case), TODAY)
    assert (finding.level.value, finding.line) == (level, 2)
    assert text in finding.text


def test_a_tool_of_which_the_settings_say_what_it_returns_is_not_named(tmp_path: Path) -> None:
    tape = [*GOOD["tape"], {"name": "is_open", "result": "false"}]
    _write(tmp_path, {**GOOD, "tape": tape})
    assert "is_open" in _replay(tmp_path, "cases", "lint").stdout
    (tmp_path / "replay.toml").write_text('[tools.is_open]\nresult = "text"\n')
    assert "is_open" not in _replay(tmp_path, "cases", "lint").stdout


def test_errors_fail_warnings_only_where_they_are_to(tmp_path: Path) -> None:
    golden = _write(tmp_path, GOOD, {"id": "b", "input": "hello"})
    done = _replay(tmp_path, "cases", "lint")
    assert done.returncode == 0
    assert f"{golden}:2: warning: b nothing is expected" in done.stdout
    assert _replay(tmp_path, "cases", "lint", "--strict").returncode == 1
    _write(tmp_path, GOOD, GOOD)
    done = _replay(tmp_path, "cases", "lint", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["held"] is False


def test_stats_say_which_ways_of_the_month_have_no_case(tmp_path: Path) -> None:
    _write(tmp_path, {**GOOD, "tags": ["smoke"], "difficulty": "easy"})
    traces = [
        {
            "trace_id": f"t{n}", "started_at": "2026-10-03T10:00:00Z", "input": "x",
            "tool_calls": [{"name": name, "args": {}, "result": 1} for name in names],
        }
        for n, names in enumerate([["get_order"]] * 3 + [["get_order", "cancel"]] * 2)
    ]  # fmt: skip
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    (tmp_path / "replay.toml").write_text("")
    assert _replay(tmp_path, "import", "jsonl", "t.jsonl").returncode == 0
    document = json.loads(_replay(tmp_path, "cases", "stats", "--json").stdout)
    assert document["by"] == {"tag": {"smoke": 1}, "difficulty": {"easy": 1}}
    assert (document["coverage"]["traces"], document["coverage"]["covered"]) == (5, 3)
    (missing,) = document["coverage"]["missing"]
    assert (missing["tool_path"], missing["traces"]) == ("get_order>cancel", 2)
    text = _replay(tmp_path, "cases", "stats").stdout
    assert "60% of the 5 traces of 2026-10 take a tool path" in text


def test_a_retired_case_has_content_beside_and_can_come_back(tmp_path: Path) -> None:
    other = {"id": "other", "input": "hi", "expected_tool_calls": []}
    golden = _write(tmp_path, GOOD, other)
    before = golden.read_text().splitlines()
    done = _replay(tmp_path, "cases", "retire", "good", "--reason", "we sold the shop")
    assert done.returncode == 0, done.stderr
    assert golden.read_text().splitlines() == before[1:]
    kept = json.loads((golden.parent / "retired.jsonl").read_text())
    assert kept["metadata"]["retired"]["reason"] == "we sold the shop"
    back = _replay(tmp_path, "cases", "merge", "cases/retired.jsonl", "--json")
    assert json.loads(back.stdout)["added"] == ["good"]
    assert [json.loads(line)["id"] for line in golden.read_text().splitlines()] == ["good", "other"]
    again = _replay(tmp_path, "cases", "merge", "cases/retired.jsonl")
    assert "0 cases added" in again.stdout


def test_an_unknown_case_is_not_retired_and_nothing_changes(tmp_path: Path) -> None:
    golden = _write(tmp_path, GOOD)
    before = golden.read_bytes()
    done = _replay(tmp_path, "cases", "retire", "good", "goood", "--reason", "x")
    assert done.returncode == 2
    assert "there is no case 'goood'; did you mean 'good'?" in done.stderr
    assert golden.read_bytes() == before


def test_the_list_names_what_is_expected(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {**GOOD, "tags": ["smoke"]},
        {"id": "quiet", "input": "hi", "expected_tool_calls": []},
        {"id": "asked", "input": "hi?", "expected_answer": "Canberra"},
        {"id": "shown", "input": "hi!", "expected_response_traits": ["is polite"]},
    )
    text = _replay(tmp_path, "cases", "list").stdout
    assert [line.split()[:2] for line in text.splitlines()[1:]] == [
        ["good", "get_order"], ["quiet", "no"], ["asked", "answer"], ["shown", "1"],
    ]  # fmt: skip
    assert "quiet" not in _replay(tmp_path, "cases", "list", "--tag", "smoke").stdout
