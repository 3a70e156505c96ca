"""Logged streams of answers give the calls that the same answers give without streaming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.reading import traces
from tests.importers.test_otlp import one, span

Event = dict[str, Any]
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Two roses, please."}]}
OSLO = ("get_weather", {"city": "Oslo"})
LIMA = ("get_weather", {"city": "Lima"})


def chunk(**delta: Any) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"object": "chat.completion.chunk", "id": "c", "choices": [choice]}


def piece(arguments: str, **more: Any) -> Event:
    name = more.pop("name", None)
    function = {"arguments": arguments, **({} if name is None else {"name": name})}
    return {"type": "function", "function": function, **more}


def whole(call_id: str, city: str, **more: Any) -> Event:
    return piece(json.dumps({"city": city}), id=call_id, name="get_weather", **more)


ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "a",
    "name": "get_weather",
    "arguments": '{"city": "Oslo"}',
}
CREATED = {"type": "response.created", "response": {"id": "r", "object": "response", "output": []}}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "arguments": ""}}
DONE = {"type": "response.output_item.done", "output_index": 0, "item": ITEM}
DELTAS = [
    {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": part}
    for part in ('{"city": ', '"Oslo"}')
]
MESSAGES = [
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "a", "name": "get_weather", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"city": "Oslo"}'},
    },
    {"type": "message_stop"},
]


def sent(events: list[Event]) -> str:
    """The body of a response with server-sent events."""
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        pytest.param(
            [chunk(tool_calls=[whole("a", "Oslo")]), chunk(tool_calls=[whole("b", "Lima")])],
            [OSLO, LIMA],
            id="without an index",
        ),
        pytest.param(
            [
                chunk(tool_calls=[whole("a", "Oslo", index=0)]),
                chunk(tool_calls=[whole("b", "Lima", index=0)]),
            ],
            [OSLO, LIMA],
            id="one index for all",
        ),
        pytest.param(
            [
                chunk(tool_calls=[piece('{"city":', index=0, id="a", name="get_weather")]),
                chunk(tool_calls=[piece("", index=1, id="b", name="get_weather")]),
                chunk(tool_calls=[piece('{"city": "Lima"}', index=1)]),
                chunk(tool_calls=[piece(' "Oslo"}', index=0, id="a", name="get_weather")]),
            ],
            [OSLO, LIMA],
            id="in turns, with id and name in each piece",
        ),
        pytest.param(
            [
                chunk(function_call={"name": "get_weather", "arguments": '{"city": '}),
                chunk(function_call={"arguments": '"Oslo"}'}),
            ],
            [OSLO],
            id="the old function_call",
        ),
        pytest.param(
            [
                chunk(tool_calls=[{"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql"}}]),
                chunk(tool_calls=[{"index": 0, "custom": {"input": "SELECT"}}]),
                chunk(tool_calls=[{"index": 0, "custom": {"input": " 1"}}]),
            ],
            [("sql", {"_raw": "SELECT 1"})],
            id="a custom tool",
        ),
        pytest.param(
            [
                {"object": "", "choices": [], "prompt_filter_results": []},
                chunk(tool_calls=[whole("a", "Oslo")]),
            ],
            [OSLO],
            id="an event of the server's own first",
        ),
        pytest.param([CREATED, ADDED, *DELTAS, DONE], [OSLO], id="Responses, cut after an item"),
        pytest.param([CREATED, ADDED, *DELTAS], [OSLO], id="Responses, cut within an item"),
        pytest.param(
            [CREATED, DONE, {"type": "response.completed", "response": {"id": "r", "output": []}}],
            [OSLO],
            id="Responses, whose end has no items",
        ),
        pytest.param(MESSAGES, [OSLO], id="Messages"),
        pytest.param(MESSAGES[1:], [OSLO], id="Messages without their start"),
        pytest.param(MESSAGES[:3], [OSLO], id="Messages, cut"),
    ],
)
@pytest.mark.parametrize("form", ["objects", "envelopes", "text"])
def test_calls_of_a_stream(events: list[Event], calls: list[Any], form: str, tmp_path: Path) -> None:
    forms = {
        "objects": events,
        "envelopes": [{"event": event.get("type"), "data": json.dumps(event)} for event in events],
        "text": sent(events),
    }
    log = tmp_path / "log.jsonl"
    record = {"id": "t", "created": 1793527200, "request": REQUEST, "response": forms[form]}
    log.write_text(json.dumps(record))
    (trace,) = traces("openai", log)
    assert [(call.name, call.args) for call in trace.tool_calls] == calls


def adk_piece(*parts: Event, finish: str = "") -> Event:
    return {"role": "assistant", "parts": list(parts), "finish_reason": finish}


def adk_text(content: str) -> Event:
    return {"type": "text", "content": content}


def adk_call(call_id: str, city: str | None) -> Event:
    arguments = None if city is None else {"city": city}
    return {"type": "tool_call", "id": call_id, "name": "get_weather", "arguments": arguments}


ADK_STREAMS = pytest.mark.parametrize(
    ("pieces", "text", "calls"),
    [
        pytest.param(
            [
                *(adk_piece(adk_call(call_id, None)) for call_id in ("a", "a", "b")),
                adk_piece(adk_call("a", "Oslo"), adk_call("b", "Lima"), finish="stop"),
            ],
            "",
            [OSLO, LIMA],
            id="the last is the whole",
        ),
        pytest.param(
            [
                adk_piece(adk_text("One ")),
                adk_piece(adk_text("moment.")),
                adk_piece(adk_text("One moment."), adk_call("a", "Oslo"), finish="stop"),
            ],
            "One moment.",
            [OSLO],
            id="the last is the whole with text",
        ),
        pytest.param(
            [
                adk_piece(adk_text("One ")),
                adk_piece(adk_text("moment."), adk_call("a", "Oslo")),
                adk_piece(adk_call("b", "Lima"), finish="stop"),
            ],
            "One moment.",
            [OSLO, LIMA],
            id="the last is one more piece",
        ),
    ],
)


@ADK_STREAMS
def test_pieces_that_adk_records_of_a_stream_are_one_answer(
    pieces: list[Event], text: str, calls: list[tuple[str, Event]], tmp_path: Path
) -> None:
    attributes = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [adk_text("Two roses, please.")]}]),
        "gen_ai.output.messages": json.dumps(pieces),
    }
    made = one(tmp_path, span("1", None, 0, 9, attributes=attributes))
    assert [(call.name, call.args) for call in made.tool_calls] == calls
    assert [message.text for message in made.messages] == ["Two roses, please.", text]


@ADK_STREAMS
def test_pieces_of_adk_are_one_answer_in_langfuse_too(
    pieces: list[Event], text: str, calls: list[tuple[str, Event]], tmp_path: Path
) -> None:
    call = {
        "id": "o",
        "traceId": "t",
        "type": "GENERATION",
        "startTime": "2026-11-01T00:00:00Z",
        "endTime": "2026-11-01T00:00:01Z",
        "input": [{"role": "user", "parts": [adk_text("Two roses, please.")]}],
        "output": json.dumps(pieces),
    }
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"id": "t", "timestamp": "2026-11-01T00:00:00Z", "observations": [call]}))
    (made,) = traces("langfuse", file)
    assert [(call.name, call.args) for call in made.tool_calls] == calls
    assert [message.text for message in made.messages] == ["Two roses, please.", text]
