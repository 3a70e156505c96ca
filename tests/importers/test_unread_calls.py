"""A tool call that is recorded where nothing reads it is noted: none is lost without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import Imported, Note, Reject
from replaydiff.importers.call_notes import UNKNOWN_CALLS
from replaydiff.replay.messages import likely_requests
from replaydiff.replay.model import Trace
from tests.importers.reading import SAMPLE_FILES, SAMPLES, items

KEYS = ("tool_calls", "toolCalls")


def _of_source(file: Path, *paths: Path) -> list[Imported]:
    return items(file.relative_to(SAMPLES).parts[0], *paths)


def _calls(found: list[Imported]) -> int:
    return sum(len(item.tool_calls) for item in found if isinstance(item, Trace))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("file", SAMPLE_FILES, ids=lambda file: str(file.relative_to(SAMPLES)))
def test_a_sample_has_no_calls_that_are_not_read(file: Path) -> None:
    assert Note(UNKNOWN_CALLS) not in _of_source(file, file)


@pytest.mark.parametrize(
    "file",
    [
        file
        for file in SAMPLE_FILES
        if file.suffix != ".parquet" and any(f'{key}"' in _text(file) for key in KEYS)
    ],
    ids=lambda file: str(file.relative_to(SAMPLES)),
)
def test_calls_under_a_key_that_nothing_reads_are_noted(file: Path, tmp_path: Path) -> None:
    text = _text(file)
    for key in KEYS:
        for quote in ('"', '\\"'):
            text = text.replace(key + quote, "calls" + quote)
    renamed = tmp_path / file.name
    renamed.write_text(text, encoding="utf-8")
    found = _of_source(file, renamed)
    is_reported = Note(UNKNOWN_CALLS) in found or any(isinstance(item, Reject) for item in found)
    assert is_reported or _calls(found) == _calls(_of_source(file, file))


def test_blocks_of_a_session_under_a_key_that_nothing_reads_are_noted(tmp_path: Path) -> None:
    text = _text(SAMPLES / "claude-code" / "session.jsonl")
    session = tmp_path / "session.jsonl"
    session.write_text(text.replace('"content"', '"blocks"'), encoding="utf-8")
    assert Note(UNKNOWN_CALLS) in items("claude-code", session)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"role": "assistant", "calls": [{"name": "a", "args": {"x": 1}}]}, [("a", {"x": 1})]),
        ({"role": "assistant", "tool_calls": {"all": [{"name": "a", "args": {}}]}}, [("a", {})]),
        ({"role": "ai", "x": {"function": {"name": "a", "arguments": '{"x": 1}'}}}, [("a", {"x": 1})]),
        ('{"my_calls": [{"toolName": "a", "input": {"x": 1}}]}', [("a", {"x": 1})]),
        ({"actions": [{"tool": "a", "tool_input": {"x": 1}}]}, [("a", {"x": 1})]),
        ({"people": [{"name": "Ann", "input": {"x": 1}}]}, []),
        ({"role": "assistant", "calls": [{"name": "a"}, "b", None]}, []),
        ({"role": "assistant", "calls": [{"name": "a", "input": "plain text"}]}, []),
        ({"role": "tool", "content": [{"name": "a", "args": {}}]}, []),
        ({"type": "tool_result", "content": {"calls": [{"name": "a", "args": {}}]}}, []),
        ({"functions": [{"name": "a", "parameters": {"type": "object", "properties": {}}}]}, []),
        ({"functions": [{"name": "a", "description": "…", "parameters": {"x": 1}}]}, []),
        ({"tool_choice": {"type": "function", "function": {"name": "a"}}}, []),
        ({"calls": [{"name": "a", "input": {}, "startTime": "2026-11-01"}]}, []),
        (
            {"role": "ai", "tool_calls": [{"id": "k", "function": {"x": "a", "arguments": '{"x": 1}'}}]},
            [("", {"x": 1})],
        ),
        (
            {"role": "ai", "tool_calls": [{"id": "k", "function": {"name": "a", "x": '{"x": 1}'}}]},
            [("a", {"x": 1})],
        ),
        ({"role": "ai", "tool_calls": [{"index": 1, "function": {"arguments": '{"x": 1}'}}]}, []),
        ({"x": "ai", "parts": [{"type": "tool_call", "id": "k", "name": "a", "arguments": {}}]}, [("a", {})]),
        ({"x": [{"type": "tool_use", "id": "k", "x": "a", "input": {}}]}, [("", {})]),
        ({"x": [{"type": "tool_use", "id": "k", "name": "a", "x": {"x": 1}}]}, [("a", {"x": 1})]),
        ({"x": [{"type": "tool_use", "id": "k", "name": "a", "input": {}, "caller": {"x": 1}}]}, [("a", {})]),
        ([{"type": "function_call", "call_id": "k", "x": "a", "arguments": '{"x": 1}'}], [("", {"x": 1})]),
        ({"role": "model", "parts": [{"functionCall": {"x": "a", "args": {"x": 1}}}]}, [("", {"x": 1})]),
        ({"role": "user", "content": [{"type": "file", "id": "f", "name": "a.pdf", "x": {"x": 1}}]}, []),
    ],
)
def test_what_looks_like_a_requested_call(value: Any, found: list[Any]) -> None:
    assert list(likely_requests(value)) == found
