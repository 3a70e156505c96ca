"""The tools a model was offered come along with the trace, from whichever source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.llm.turns import read_tools
from replaydiff.replay.messages.definitions import definitions
from tests.importers.reading import traces

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
PLAIN = {"name": "get_order", "description": "Look up", "parameters": SCHEMA}
OPENAI = {"type": "function", "function": PLAIN}
ANTHROPIC = {"name": "get_order", "description": "Look up", "input_schema": SCHEMA}
QUESTION = [{"role": "user", "content": "where is 7?"}]
ANSWER = {"role": "assistant", "content": "shipped"}


@pytest.mark.parametrize(
    "place",
    [
        [OPENAI],
        [ANTHROPIC],
        [PLAIN],
        [json.dumps(OPENAI)],
        json.dumps([ANTHROPIC]),
        {"messages": [], "tools": [OPENAI]},
        {"model": "m", "functions": [PLAIN]},
        [{"tool": {"json_schema": json.dumps(OPENAI)}}],
        [{"tool.json_schema": "x"}, {"type": "function", "name": "get_order", "description": "Look up",
                                     "inputSchema": SCHEMA}],
        [OPENAI, ANTHROPIC],
    ],
)  # fmt: skip
def test_a_definition_is_found_in_every_shape_and_once(place: Any) -> None:
    (found,) = definitions(place)
    assert found == PLAIN
    (read,) = read_tools([found])
    assert (read.name, read.description, read.schema) == ("get_order", "Look up", SCHEMA)


@pytest.mark.parametrize(
    "place",
    [None, 7, "text", [], {}, [{"name": "x"}], {"tools": "no"}, [{"function": {"function": None}}], [[]],
     [{"type": "web_search_20250305", "name": "web_search"}],
     [{"type": "custom", "name": "sh", "description": "runs"}],
     [{"type": "custom", "custom": {"name": "sh", "description": "runs"}}]],
)  # fmt: skip
def test_what_defines_no_tool_gives_none(place: Any) -> None:
    assert definitions(place) == []


@pytest.mark.parametrize(
    "place",
    [
        [{"type": "function", "function": {"name": "now"}}],
        [{"type": "function", "name": "now", "parameters": None}],
        [{"name": "now", "description": ""}, {"name": "now", "description": "the time"}],
    ],
)
def test_a_function_may_name_no_parameters(place: Any) -> None:
    (read,) = read_tools(place)
    assert (read.name, read.schema) == ("now", {"type": "object"})


def _write(path: Path, record: Any) -> Path:
    path.write_text(json.dumps(record) + "\n")
    return path


RECORDS = {
    "openai": {
        "id": "t1", "request": {"messages": QUESTION, "tools": [OPENAI]}, "response": {"choices": [{"message": ANSWER}]}
    },
    "anthropic": {
        "id": "t1", "request": {"messages": QUESTION, "tools": [ANTHROPIC]},
        "response": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "shipped"}]},
    },
    "langfuse": {
        "id": "o1", "traceId": "t1", "type": "GENERATION", "name": "llm", "startTime": "2026-10-01T10:00:00Z",
        "input": {"messages": QUESTION, "tools": [OPENAI]}, "output": ANSWER,
    },
}  # fmt: skip


@pytest.mark.parametrize("source", RECORDS)
def test_an_imported_trace_holds_the_tools_it_was_offered(source: str, tmp_path: Path) -> None:
    (trace,) = traces(source, _write(tmp_path / "f.jsonl", RECORDS[source]))
    assert trace.metadata["tools"] == [PLAIN]


@pytest.mark.parametrize(
    "attribute",
    [
        {"key": "gen_ai.tool.definitions", "value": {"stringValue": json.dumps([OPENAI])}},
        {"key": "llm.tools.0.tool.json_schema", "value": {"stringValue": json.dumps(OPENAI)}},
        {
            "key": "ai.prompt.tools",
            "value": {"arrayValue": {"values": [{"stringValue": json.dumps(ANTHROPIC)}]}},
        },
    ],
    ids=lambda attribute: attribute["key"],
)
def test_spans_of_any_convention_hold_them(attribute: dict[str, Any], tmp_path: Path) -> None:
    own = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "openinference.span.kind", "value": {"stringValue": "LLM"}},
        {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(QUESTION)}},
        attribute,
    ]
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "chat m",
        "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000001000000000", "attributes": own,
    }  # fmt: skip
    record = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": [span]}]}]}
    (trace,) = traces("otlp", _write(tmp_path / "f.jsonl", record))
    assert trace.metadata["tools"] == [PLAIN]
