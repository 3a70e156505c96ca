"""What is particular to Claude Code: sessions of many lines, of which each turn is a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import Note, Reject, Skipped, find_importer
from replaydiff.importers.collect import collected, detect
from replaydiff.importers.ingest import Report, ingest
from replaydiff.replay.model import Trace
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import iter_traces
from tests.importers.reading import SAMPLES, items, others, traces
from tests.stand_ins.stores import open_for_writing

SESSION = SAMPLES / "claude-code" / "session.jsonl"


def line(kind: str, uuid: str, content: Any, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": "2026-11-01T10:00:00Z",
        "message": {"role": kind, "content": content},
        **fields,
    }


def _file(path: Path, *lines: Any) -> Path:
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return path


def _import(store: Path, *paths: Path) -> Report:
    with collected([str(path) for path in paths]) as files, open_for_writing(store) as con:
        return ingest(con, find_importer("claude-code"), files)


def test_what_is_left_out_is_counted_with_its_reason() -> None:
    assert others(items("claude-code", SESSION)) == [
        *[Skipped("lines that Claude Code keeps for itself (summaries, snapshots, queues)")] * 2,
        *[Skipped("messages of sub-agents: what they found is the result of the call that started them")] * 2,
        Skipped("lines that Claude Code keeps for itself (summaries, snapshots, queues)"),
        *[Skipped("lines of turns that the user took back by editing the prompt")] * 2,
        Skipped("prompts that were not answered"),
    ]


def test_a_folder_of_sessions_is_read_and_again_changes_nothing(tmp_path: Path) -> None:
    projects = tmp_path / "projects" / "-home-ann-garden"
    (projects / "x" / "subagents").mkdir(parents=True)
    lines = SESSION.read_text()
    (projects / "x.jsonl").write_text(lines)
    others_ids = lines.replace("-000000000001", "-000000000009").replace('"msg_', '"other_')
    (projects / "y.jsonl").write_text(others_ids)
    _file(projects / "x" / "subagents" / "agent-1.jsonl", line("user", "a", "Count", isSidechain=True))
    (projects / "x" / "subagents" / "agent-1.meta.json").write_text('{"agentType": "general-purpose"}')
    (projects / "sessions-index.json").write_text('{"version": 1, "entries": [], "originalPath": "/home"}')
    report = _import(tmp_path / "s.duckdb", tmp_path / "projects")
    assert (report.new, report.rejected, report.tool_calls) == (8, 0, 8)
    again = _import(tmp_path / "s.duckdb", tmp_path / "projects")
    assert (again.new, again.updated, again.unchanged) == (0, 0, 8)


def test_what_is_stored_comes_back_as_it_was_read(tmp_path: Path) -> None:
    read = {trace.trace_id: trace for trace in traces("claude-code", SESSION)}
    _import(tmp_path / "s.duckdb", SESSION)
    with open_store(tmp_path / "s.duckdb", read_only=True) as con:
        stored = iter_traces(con, read, with_history=False)
        assert {trace.trace_id: trace for trace in stored} == read


@pytest.mark.parametrize(
    "bad", ["this is not JSON", "17", "{}", '{"type": "user"}', '{"sessionId": [], "type": {}}', "[" * 5000]
)
def test_a_bad_line_is_a_reject_and_the_session_comes_in(bad: str, tmp_path: Path) -> None:
    file = _file(tmp_path / "f.jsonl", line("user", "u", "Hi"), bad, line("assistant", "a", "Ho", "u"))
    (trace,) = traces("claude-code", file)
    assert (trace.trace_id, trace.input, trace.final_response) == ("s:u", "Hi", "Ho")
    (reject,) = others(items("claude-code", file))
    assert isinstance(reject, Reject)
    assert (reject.file, reject.line) == (str(file), 2)


def test_lines_that_come_twice_count_once(tmp_path: Path) -> None:
    lines = [line("user", "u", "Hi"), line("assistant", "a", "Ho", "u")]
    one, other = _file(tmp_path / "1.jsonl", *lines), _file(tmp_path / "2.jsonl", *lines)
    (trace,) = traces("claude-code", one, other)
    assert [message.text for message in trace.messages] == ["Hi", "Ho"]


@pytest.mark.parametrize("text", ["a\x00b", "\ud83d", "'; DROP TABLE traces; --", "<command-name>", "🦆"])
def test_hostile_text_is_stored(text: str, tmp_path: Path) -> None:
    file = _file(tmp_path / "f.jsonl", line("user", "u", text + "?", cwd=text), line("assistant", "a", text))
    report = _import(tmp_path / "s.duckdb", file)
    assert (report.new, report.rejected) == (1, 0)


def test_odd_fields_never_stop_the_other_sessions(tmp_path: Path) -> None:
    good = line("user", "u", "Hi"), line("assistant", "a", "Ho", "u")
    odd: list[dict[str, Any]] = []
    for number, key in enumerate(["message", "uuid", "parentUuid", "timestamp", "version", "isMeta", "type"]):
        for value in ([], {}, 5, True, None, "x", [{}], {"content": {}, "id": [], "usage": 3, "model": {}}):
            fields = {**line("assistant", f"x{number}", "Ho"), "sessionId": f"{number}{value}", key: value}
            odd += [{**line("user", "u", "Hi"), "sessionId": f"{number}{value}"}, fields]
    found = traces("claude-code", _file(tmp_path / "f.jsonl", *odd, *good))
    assert [one.trace_id for one in found if one.session_id == "s"] == ["s:u"]


def test_a_field_that_cannot_be_read_costs_its_turn_alone(tmp_path: Path) -> None:
    lines = [
        line("user", "u", "Hi"),
        line("assistant", "a", "Ho"),
        line("user", "v", "More"),
        line("assistant", "b", "No"),
    ]
    lines[1]["message"]["usage"] = {"input_tokens": "many"}
    found = items("claude-code", _file(tmp_path / "f.jsonl", *lines))
    assert [one.trace_id for one in found if isinstance(one, Trace)] == ["s:v"]
    (reject,) = others(found)
    assert isinstance(reject, Reject)
    assert reject.reason.startswith("input_tokens must be a number")


def test_stream_json_says_that_the_prompt_is_not_in_it() -> None:
    notes = {
        one.text for one in items("claude-code", SESSION.with_name("stream.jsonl")) if isinstance(one, Note)
    }
    assert notes == {
        "the prompt is not recorded (stream-json holds the answers alone): the input is not known",
        "no time in the lines: the file's modification time was taken",
    }


def test_auto_knows_sessions_also_by_their_summaries(tmp_path: Path) -> None:
    summary = {"type": "summary", "summary": "Planting", "leafUuid": "u"}
    only = _file(tmp_path / "f.jsonl", *[summary] * 9, line("user", "u", "Hi"))
    for file in (SESSION, SESSION.with_name("stream.jsonl"), only):
        with collected([str(file)]) as (found,):
            assert detect(found).NAME == "claude-code"


def _turn(number: int, prefix: str, session: str) -> list[dict[str, Any]]:
    """A turn with a call, as it is in one session; in a resumed session it has other uuids."""
    call = {"type": "tool_use", "id": f"tool-{number}", "name": "ls", "input": {"n": number}}
    result = {"type": "tool_result", "tool_use_id": f"tool-{number}", "content": "a.py"}
    asked = line("user", f"{prefix}{number}u", f"Question {number}", sessionId=session)
    answered = line("assistant", f"{prefix}{number}a", [call], sessionId=session)
    answered["message"]["id"] = f"msg-{number}-1"
    results = line("user", f"{prefix}{number}r", [result], sessionId=session)
    last = line("assistant", f"{prefix}{number}f", [{"type": "text", "text": "Done"}], sessionId=session)
    last["message"]["id"] = f"msg-{number}-2"
    return [asked, answered, results, last]


def test_a_resumed_session_brings_each_turn_once(tmp_path: Path) -> None:
    first = [*_turn(1, "a", "s"), *_turn(2, "a", "s")]
    resumed = [*_turn(1, "b", "t"), *_turn(2, "b", "t"), *_turn(3, "b", "t")]
    again = [*_turn(1, "c", "s"), *_turn(4, "c", "s")]
    _file(tmp_path / "1.jsonl", *first, *again)
    _file(tmp_path / "2.jsonl", *resumed)
    found = items("claude-code", tmp_path / "1.jsonl", tmp_path / "2.jsonl")
    made = [item for item in found if isinstance(item, Trace)]
    assert [trace.input for trace in made] == ["Question 1", "Question 2", "Question 4", "Question 3"]
    assert [len(trace.tool_calls) for trace in made] == [1, 1, 1, 1]
    # What was said before a resumed session's own turn is in the traces of its copies.
    assert [trace.continues for trace in made] == [None, "s:a1u", "s:a2u", "s:a2u"]
    copies = [item for item in others(found) if isinstance(item, Skipped) and "copies" in item.reason]
    assert len(copies) == 3
