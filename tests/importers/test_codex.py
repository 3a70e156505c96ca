"""What is particular to Codex: a file is a session of many lines, of which each turn is a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import Note, Reject, Skipped, find_importer
from replaydiff.importers.call_notes import ORPHANS, UNKNOWN_CALLS
from replaydiff.importers.collect import collected
from replaydiff.importers.ingest import Report, ingest
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import iter_traces
from tests.importers.reading import SAMPLES, items, others, traces
from tests.stand_ins.stores import open_for_writing

ROLLOUT = SAMPLES / "codex" / "rollout.jsonl"
META = {"timestamp": "2026-11-01T10:00:00Z", "type": "session_meta", "payload": {"id": "s"}}


def _said(role: str, text: Any) -> dict[str, Any]:
    payload = {"type": "message", "role": role, "content": text}
    return {"timestamp": "2026-11-01T10:00:00Z", "type": "response_item", "payload": payload}


def _file(path: Path, *lines: Any) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def _import(store: Path, *paths: Path) -> Report:
    with collected([str(path) for path in paths]) as files, open_for_writing(store) as con:
        return ingest(con, find_importer("codex"), files)


def test_a_prompt_without_an_answer_is_left_out() -> None:
    assert others(items("codex", ROLLOUT)) == [Skipped("prompts that were not answered")]


def test_importing_twice_changes_nothing_and_what_is_stored_comes_back(tmp_path: Path) -> None:
    assert _import(tmp_path / "s.duckdb", ROLLOUT).new == 2
    again = _import(tmp_path / "s.duckdb", ROLLOUT)
    assert (again.new, again.updated, again.unchanged) == (0, 0, 2)
    read = {trace.trace_id: trace for trace in traces("codex", ROLLOUT)}
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        stored = iter_traces(con, read, with_history=False)
        assert {trace.trace_id: trace for trace in stored} == read


@pytest.mark.parametrize("bad", ["this is not JSON", "17", "{}", '{"type": "event_msg"}', "[" * 5000])
def test_a_bad_line_is_a_reject_and_the_turn_comes_in(bad: str, tmp_path: Path) -> None:
    file = _file(tmp_path / "f.jsonl", META, _said("user", "Hi"), bad, _said("assistant", "Ho"))
    (trace,) = traces("codex", file)
    assert (trace.trace_id, trace.input, trace.final_response) == ("s:0", "Hi", "Ho")
    (reject,) = others(items("codex", file))
    assert isinstance(reject, Reject)
    assert reject.line == 3


@pytest.mark.parametrize("payload", [{}, {"type": None, "name": "ls"}, {"type": 7}])
def test_an_item_without_a_type_is_a_reject(payload: Any, tmp_path: Path) -> None:
    item = {"timestamp": "2026-11-01T10:00:00Z", "type": "response_item", "payload": payload}
    file = _file(tmp_path / "f.jsonl", META, _said("user", "Hi"), item, _said("assistant", "Ho"))
    (reject,) = others(items("codex", file))
    assert isinstance(reject, Reject)
    assert (reject.line, "type" in reject.reason) == (3, True)


def test_a_call_before_the_first_prompt_is_a_reject_and_an_unknown_item_a_note(tmp_path: Path) -> None:
    call = {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"}
    early = {"timestamp": "2026-11-01T10:00:00Z", "type": "response_item", "payload": call}
    other = {**early, "payload": {"type": "hologram"}}
    file = _file(tmp_path / "f.jsonl", META, early, _said("user", "Hi"), other, _said("assistant", "Ho"))
    kinds = [type(one) for one in others(items("codex", file))]
    assert kinds == [Reject, Note]


def test_a_session_that_does_not_say_which_it_is_is_a_reject(tmp_path: Path) -> None:
    (reject,) = items("codex", _file(tmp_path / "f.jsonl", _said("user", "Hi"), _said("assistant", "Ho")))
    assert isinstance(reject, Reject)
    assert "session_meta" in reject.reason


def test_an_aborted_and_a_failed_turn_say_so(tmp_path: Path) -> None:
    abort = {
        "timestamp": "",
        "type": "event_msg",
        "payload": {"type": "turn_aborted", "reason": "interrupted"},
    }
    error = {"timestamp": "", "type": "event_msg", "payload": {"type": "error", "message": "overloaded"}}
    call = {"type": "function_call", "name": "t", "arguments": "{}", "call_id": "k"}
    lines = [
        META,
        _said("user", "a"),
        {**_said("user", ""), "payload": call},
        abort,
        _said("user", "b"),
        error,
    ]
    first, second = traces("codex", _file(tmp_path / "f.jsonl", *lines))
    assert (first.metadata, first.final_response, first.tool_calls[0].answered) == (
        {"interrupted": True},
        None,
        False,
    )
    assert (second.input, second.error) == ("b", "overloaded")


def test_calls_that_only_events_report_and_results_without_a_call_are_noted(tmp_path: Path) -> None:
    event = {"type": "mcp_tool_call_end", "call_id": "c1"}
    result = {"type": "function_call_output", "call_id": "c2", "output": "found"}
    lines = [
        {"timestamp": "2026-11-01T10:00:00Z", "type": "event_msg", "payload": event},
        {"timestamp": "2026-11-01T10:00:00Z", "type": "response_item", "payload": result},
    ]
    file = _file(tmp_path / "f.jsonl", META, _said("user", "Hi"), *lines, _said("assistant", "Ho"))
    assert others(items("codex", file)) == [Note(UNKNOWN_CALLS), Note(ORPHANS)]
