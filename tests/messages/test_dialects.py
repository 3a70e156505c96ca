"""Conversations of less common writers: each call with its arguments and its own result, and the answer."""

from __future__ import annotations

from typing import Any

import pytest

from replaydiff.replay.messages import conversation, is_message, read_messages

USER = {"role": "user", "content": "Two roses, please."}
DONE = {"role": "assistant", "content": "Done."}
ARGS = {"city": "Oslo"}


def ollama() -> tuple[list[Any], list[Any]]:
    requests = [
        {"function": {"name": "get_weather", "arguments": ARGS}},
        {"function": {"name": "get_time", "arguments": {}}},
    ]
    results = [
        {"role": "tool", "tool_name": "get_time", "content": "noon"},
        {"role": "tool", "tool_name": "get_weather", "content": "18C"},
    ]
    messages = [USER, {"role": "assistant", "content": "", "tool_calls": requests}, *results, DONE]
    return messages, [("get_weather", ARGS, "18C", None), ("get_time", {}, "noon", None)]


def agno() -> tuple[list[Any], list[Any]]:
    request = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    result = {"role": "tool", "content": "boom", "tool_call_id": "a", "tool_call_error": True}
    messages = [USER, {"role": "assistant", "tool_calls": [request]}, result, DONE]
    return messages, [("get_weather", {}, "boom", "boom")]


def interface(parts: list[Any], **more: Any) -> list[Any]:
    asked = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Two roses, please."}]}
    return [asked, {"id": "2", "role": "assistant", "parts": parts, **more}]


def ai_sdk_4() -> tuple[list[Any], list[Any]]:
    call = {"toolCallId": "a", "toolName": "get_weather", "args": ARGS, "state": "result", "result": "18C"}
    waiting = {"toolCallId": "b", "toolName": "ask", "args": {}, "state": "call"}
    answered = {"role": "assistant", "content": "Done.", "toolInvocations": [call, waiting]}
    return [USER, answered], [("get_weather", ARGS, "18C", None), ("ask", {}, None, None)]


def ai_sdk_4_parts() -> tuple[list[Any], list[Any]]:
    call = {"toolCallId": "a", "toolName": "get_weather", "args": ARGS, "state": "result", "result": "18C"}
    parts = [{"type": "tool-invocation", "toolInvocation": call}, {"type": "text", "text": "Done."}]
    messages = interface(parts, content="Done.", toolInvocations=[call])
    return messages, [("get_weather", ARGS, "18C", None)]


def ai_sdk_5() -> tuple[list[Any], list[Any]]:
    parts = [
        {"type": "step-start"},
        {
            "type": "tool-get_weather",
            "toolCallId": "a",
            "state": "output-available",
            "input": ARGS,
            "output": 18,
        },
        {"type": "tool-ask", "toolCallId": "b", "state": "input-available", "input": {}},
        {"type": "tool-ask", "toolCallId": "c", "state": "output-error", "rawInput": "{", "errorText": "bad"},
        {"type": "step-start"},
        {"type": "text", "text": "Done."},
    ]
    calls = [("get_weather", ARGS, 18, None), ("ask", {}, None, None), ("ask", {"_raw": "{"}, "bad", "bad")]
    return interface(parts), calls


def pydantic_ai() -> tuple[list[Any], list[Any]]:
    prompts = [
        {"part_kind": "system-prompt", "content": "Be kind."},
        {"part_kind": "user-prompt", "content": ["Two roses, please.", {"url": "u", "kind": "image-url"}]},
    ]
    calls = [
        {"part_kind": "thinking", "content": "hm"},
        {
            "part_kind": "tool-call",
            "id": "fc_1",
            "tool_call_id": "a",
            "tool_name": "get_weather",
            "args": '{"city": "Oslo"}',
        },
        {"part_kind": "tool-call", "tool_call_id": "b", "tool_name": "get_time", "args": {}},
    ]
    results = [
        {"part_kind": "retry-prompt", "tool_name": "get_time", "tool_call_id": "b", "content": "bad"},
        {"part_kind": "tool-return", "tool_name": "get_weather", "tool_call_id": "a", "content": {"c": 18}},
    ]
    messages = [
        {"kind": "request", "parts": prompts},
        {"kind": "response", "parts": calls},
        {"kind": "request", "parts": results},
        {"kind": "response", "parts": [{"part_kind": "text", "content": "Done."}]},
    ]
    return messages, [("get_weather", ARGS, {"c": 18}, None), ("get_time", {}, "bad", "bad")]


def llama_index() -> tuple[list[Any], list[Any]]:
    def said(role: str, *blocks: Any, **more: Any) -> Any:
        return {"role": role, "blocks": [*blocks], "additional_kwargs": more}

    call = {
        "block_type": "tool_call",
        "tool_call_id": "a",
        "tool_name": "get_weather",
        "tool_kwargs": ARGS,
    }
    messages = [
        said("user", {"block_type": "text", "text": "Two roses, please."}),
        said("assistant", call),
        said("tool", {"block_type": "text", "text": "18C"}, tool_call_id="a"),
        said("assistant", {"block_type": "text", "text": "Done."}),
    ]
    return messages, [("get_weather", ARGS, "18C", None)]


def semantic_kernel() -> tuple[list[Any], list[Any]]:
    call = {"content_type": "function_call", "id": "a", "name": "w-get", "arguments": '{"city": "Oslo"}'}
    result = {"content_type": "function_result", "id": "a", "name": "w-get", "result": "18C"}
    messages = [
        {"role": "user", "items": [{"content_type": "text", "text": "Two roses, please."}]},
        {"role": "assistant", "items": [call]},
        {"role": "tool", "items": [result]},
        {"role": "assistant", "items": [{"content_type": "text", "text": "Done."}]},
    ]
    return messages, [("w-get", ARGS, "18C", None)]


def provider_tools() -> tuple[list[Any], list[Any]]:
    parts = [
        {"type": "server_tool_call", "id": "a", "name": "search", "server_tool_call": {"query": "rose"}},
        {"type": "server_tool_call_response", "id": "a", "server_tool_call_response": {"found": 2}},
        {"type": "text", "content": "Done."},
    ]
    return [USER, {"role": "assistant", "parts": parts}], [("search", {"query": "rose"}, {"found": 2}, None)]


WRITERS = (
    ollama, agno, ai_sdk_4, ai_sdk_4_parts, ai_sdk_5, pydantic_ai, llama_index, semantic_kernel, provider_tools,
)  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_calls_results_and_answer(writer: Any) -> None:
    messages, calls = writer()
    assert is_message(messages[0])
    found = conversation(read_messages(messages) or ())
    assert [(call.name, call.args, call.result, call.error) for call in found.tool_calls] == calls
    assert found.input == "Two roses, please."
    # AI SDK 4 has the text of a message apart from its calls, of which one waits for the user.
    assert found.final_response == (None if writer is ai_sdk_4 else "Done.")


def test_a_spoken_answer_is_its_transcript() -> None:
    spoken = {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "Done."}}
    assert conversation(read_messages([USER, spoken]) or ()).final_response == "Done."


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"role": "user"}, True),
        ({"type": "human", "content": "Hello"}, True),
        ({"type": "system", "content": "Be kind.", "additional_kwargs": {}}, True),
        ({"type": "system", "content": "compacted", "uuid": "u"}, False),
        ({"type": "ai", "data": {"content": "Hello"}}, True),
        ({"lc": 1, "type": "constructor", "kwargs": {}}, True),
        ({"kind": "request", "parts": []}, True),
        ({"kind": "request", "parts": None}, False),
        ({"type": "tool", "name": "a"}, False),
        ("Hello", False),
    ],
)
def test_what_is_a_message(value: Any, expected: bool) -> None:
    assert is_message(value) is expected
