"""What an import notes about the calls of a trace."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import Note
from replaydiff.importers.call_notes import (
    CALLS_IN_TEXT,
    NO_ARGUMENTS,
    NO_CALLS,
    NO_NAME,
    ORPHANS,
    UNKNOWN_CALLS,
    call_notes,
    has_orphan,
)
from replaydiff.replay.model import Message, Step, StepKind, ToolCall, Trace
from tests.importers.reading import traces

CALL = ToolCall(name="search", args={"q": "Emma"}, call_id="a")
BARE = ToolCall(name="search", call_id="a")


def trace(*messages: Message, calls: tuple[ToolCall, ...] = (), steps: tuple[StepKind, ...] = ()) -> Trace:
    return Trace(
        trace_id="t",
        source="test",
        started_at=datetime(2026, 11, 1),
        input="Emma?",
        messages=messages,
        tool_calls=calls,
        steps=tuple(Step(index=index, kind=kind, name="step") for index, kind in enumerate(steps)),
    )


def request(call: ToolCall) -> Message:
    return Message(role="assistant", tool_calls=(call,))


def result(call_id: str | None) -> Message:
    return Message(role="tool", text="found", tool_call_id=call_id)


@pytest.mark.parametrize(
    ("made", "noted"),
    [
        (trace(request(CALL), result("a"), calls=(CALL,)), []),
        (trace(request(CALL), result("b"), calls=(CALL,)), [ORPHANS]),
        (trace(request(CALL)), [UNKNOWN_CALLS]),
        (trace(Message(role="user"), request(CALL), Message(role="user")), []),
        (trace(calls=(BARE,)), [NO_ARGUMENTS]),
        (trace(calls=(CALL,)), []),
        (trace(calls=(ToolCall(name="", args={"q": "Emma"}),)), [NO_NAME]),
        (trace(steps=(StepKind.AGENT, StepKind.UNCLASSIFIED)), [NO_CALLS]),
        (trace(steps=(StepKind.AGENT, StepKind.LLM)), []),
        (trace(steps=(StepKind.AGENT,)), []),
        (trace(Message(role="assistant", text='<tool_call>\n{"name": "search"}')), [CALLS_IN_TEXT]),
        (trace(Message(role="user", text='<tool_call>\n{"name": "search"}')), []),
    ],
)
def test_what_is_noted(made: Trace, noted: list[str]) -> None:
    assert list(call_notes(made, [], without_arguments={"search"})) == list(map(Note, noted))


@pytest.mark.parametrize(
    ("messages", "is_orphan"),
    [
        ([result(None)], True),
        ([request(CALL), result(None)], False),
        ([request(CALL), result("a"), result("a")], True),
        ([request(ToolCall(name="search", call_id="fc_1")), result("call_1")], False),
    ],
)
def test_a_result_without_its_call(messages: list[Message], is_orphan: bool) -> None:
    assert has_orphan(trace(*messages)) is is_orphan


def test_calls_that_only_the_messages_of_an_agent_have_are_calls_of_the_trace(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": "a", "name": "search", "args": {"q": "Emma"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "shelf 7"},
        {"role": "assistant", "content": "On shelf 7."},
    ]
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": json.dumps([{"role": "user", "content": "Emma?"}]),
        "gen_ai.output.messages": json.dumps(messages),
    }
    span = {
        "traceId": "0a" * 16,
        "spanId": "0b" * 8,
        "name": "invoke_agent",
        "startTimeUnixNano": "1793527200000000000",
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()],
    }
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}), encoding="utf-8")
    (made,) = traces("otlp", file)
    assert [(call.name, call.args, call.result) for call in made.tool_calls] == [
        ("search", {"q": "Emma"}, "shelf 7")
    ]
