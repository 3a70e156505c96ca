"""One conversation in a dozen shapes is one conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from replay.messages import conversation, read_messages, read_text
from replay.model import ToolCall
from tests.messages.test_decode import objects

ARGS = {"city": "Oslo"}
TEXT = json.dumps(ARGS)
LC = ["langchain", "schema", "messages"]

OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "k", "type": "function", "function": {"name": "weather", "arguments": TEXT}}],
    },
    {"role": "tool", "tool_call_id": "k", "content": "rain"},
    {"role": "assistant", "content": "It rains."},
]
RESPONSES = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather in Oslo?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "k", "name": "weather", "arguments": TEXT},
        {"type": "function_call_output", "call_id": "k", "output": "rain"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It rains."}]},
    ],
}
ANTHROPIC = {
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Weather in Oslo?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "id": "k", "name": "weather", "input": ARGS},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "k", "content": [{"type": "text", "text": "rain"}]}
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "It rains."}]},
    ],
}
LANGCHAIN_CALLS = [{"name": "weather", "args": ARGS, "id": "k", "type": "tool_call"}]
LANGCHAIN = {
    "messages": [
        {"type": "system", "content": "Be brief."},
        {"type": "human", "content": "Weather in Oslo?"},
        {
            "type": "ai",
            "content": "",
            "tool_calls": LANGCHAIN_CALLS,
            "additional_kwargs": {"tool_calls": OPENAI[2]["tool_calls"]},
        },
        {"type": "tool", "content": "rain", "tool_call_id": "k", "status": "success"},
        {"type": "ai", "content": "It rains."},
    ]
}
SERIALISED = {
    "messages": [
        [
            {
                "lc": 1,
                "type": "constructor",
                "id": [*LC, "SystemMessage"],
                "kwargs": {"content": "Be brief."},
            },
            {
                "lc": 1,
                "type": "constructor",
                "id": [*LC, "HumanMessage"],
                "kwargs": {"content": "Weather in Oslo?"},
            },
            {
                "lc": 1,
                "type": "constructor",
                "id": [*LC, "AIMessage"],
                "kwargs": {"content": "", "tool_calls": LANGCHAIN_CALLS},
            },
            {
                "lc": 1,
                "type": "constructor",
                "id": [*LC, "ToolMessage"],
                "kwargs": {"content": "rain", "tool_call_id": "k"},
            },
            {
                "lc": 1,
                "type": "constructor",
                "id": [*LC, "AIMessageChunk"],
                "kwargs": {"content": "It rains."},
            },
        ]
    ]
}
OTEL = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "k", "name": "weather", "arguments": ARGS}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "k", "response": "rain"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "It rains."}], "finish_reason": "stop"},
]
GEMINI = {
    "config": {"system_instruction": "Be brief."},
    "contents": [
        {"role": "user", "parts": [{"text": "Weather in Oslo?"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "k", "name": "weather", "args": ARGS}}]},
        {
            "role": "user",
            "parts": [{"function_response": {"id": "k", "name": "weather", "response": "rain"}}],
        },
        {"role": "model", "parts": [{"text": "It rains."}]},
    ],
}
VERCEL = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather in Oslo?"}]},
    {
        "role": "assistant",
        "content": [{"type": "tool-call", "toolCallId": "k", "toolName": "weather", "input": ARGS}],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "k",
                "toolName": "weather",
                "output": {"type": "text", "value": "rain"},
            }
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "It rains."}]},
]
BEDROCK = {
    "system": [{"text": "Be brief."}],
    "messages": [
        {"role": "user", "content": [{"text": "Weather in Oslo?"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "k", "name": "weather", "input": ARGS}}],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "k", "content": [{"text": "rain"}], "status": "success"}}
            ],
        },
        {"role": "assistant", "content": [{"text": "It rains."}]},
    ],
}
KOOG = [
    *OPENAI[:2],
    {
        "role": "tool",
        "content": json.dumps(
            [{"function": {"name": "weather", "arguments": TEXT}, "id": "k", "type": "function"}]
        ),
    },
    {"role": "tool", "content": "rain"},
    OPENAI[4],
]
COMMAND = {"output": [{"graph": None, "update": LANGCHAIN}]}

SHAPES = {
    "OpenAI chat": OPENAI,
    "OpenAI Responses": RESPONSES,
    "Anthropic": ANTHROPIC,
    "LangChain": LANGCHAIN,
    "LangChain, serialised": SERIALISED,
    "LangGraph command": COMMAND,
    "OTel GenAI": OTEL,
    "Gemini": GEMINI,
    "Vercel AI": VERCEL,
    "Bedrock": BEDROCK,
    "Koog": KOOG,
    "encoded twice": json.dumps(json.dumps(OPENAI)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_the_same_conversation(shape: str) -> None:
    messages = read_messages(SHAPES[shape])
    assert messages is not None
    assert [(message.role, message.text) for message in messages] == [
        ("system", "Be brief."),
        ("user", "Weather in Oslo?"),
        ("assistant", ""),
        ("tool", "rain"),
        ("assistant", "It rains."),
    ]
    run = conversation(messages)
    expected = ToolCall(name="weather", args=ARGS, call_id="k", result="rain")
    assert run.tool_calls == (expected,)
    assert (run.input, run.final_response) == ("Weather in Oslo?", "It rains.")
    assert len(run.messages) == 2


CALL = {"id": "k", "type": "function", "function": {"name": "weather", "arguments": TEXT}}
OUTPUTS = {
    "completion": {
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "tool_calls": [CALL]}}],
    },
    "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
    "Responses object": {
        "object": "response",
        "output": [
            {"type": "function_call", "id": "fc", "call_id": "k", "name": "weather", "arguments": TEXT}
        ],
    },
    "Anthropic message": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "k", "name": "weather", "input": ARGS}],
    },
    "bare blocks": [{"type": "tool_use", "id": "k", "name": "weather", "input": ARGS}],
    "bare Vercel calls": [{"toolCallId": "k", "toolName": "weather", "input": TEXT}],
    "LangChain generations": {
        "generations": [
            [
                {
                    "text": "",
                    "message": {
                        "lc": 1,
                        "type": "constructor",
                        "id": [*LC, "AIMessage"],
                        "kwargs": {"content": "", "tool_calls": LANGCHAIN_CALLS},
                    },
                }
            ]
        ]
    },
    "ADK": {
        "content": {
            "role": "model",
            "parts": [{"function_call": {"id": "k", "name": "weather", "args": ARGS}}],
        }
    },
}


@pytest.mark.parametrize("shape", OUTPUTS)
def test_what_a_model_answered_is_one_request(shape: str) -> None:
    messages = read_messages(OUTPUTS[shape])
    assert messages is not None
    (message,) = messages
    assert message.role == "assistant"
    assert message.tool_calls == (ToolCall(name="weather", args=ARGS, call_id="k", answered=False),)


def test_structured_results_are_kept_as_structure_and_errors_as_errors() -> None:
    messages = read_messages(
        [
            {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {"n": 1}}}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "b", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "boom"},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ]
    )
    assert messages is not None
    first, second = conversation(messages).tool_calls
    assert (first.result, first.error) == ({"n": 1}, None)
    assert (second.result, second.error) == ("boom", "boom")
    assert conversation(messages).input == "And now?"


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "",
        "hello",
        "123",
        {},
        [],
        {"a": 1},
        [1, 2],
        {"messages": []},
        {"tools": [{"type": "function"}]},
    ],
)
def test_what_is_no_conversation(value: Any) -> None:
    assert read_messages(value) is None


def test_a_tool_definition_is_no_call() -> None:
    definition = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    assert read_messages([definition]) is None


@given(objects)
def test_any_json_is_taken(value: Any) -> None:
    read_messages(value)
    read_messages({"messages": value, "role": value})
    read_messages(
        [{"role": "assistant", "content": value, "tool_calls": value}, {"role": "tool", "parts": value}]
    )
    read_text(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hello", "hello"),
        ('"Say hello"', "Say hello"),
        ({"question": "why?"}, "why?"),
        ({"args": ["why?"], "kwargs": {}}, "why?"),
        ({"args": [], "kwargs": {"topic": "rain"}}, "rain"),
        ({"state": 1}, None),
        ([1], None),
    ],
)
def test_plain_text(value: Any, text: str | None) -> None:
    assert read_text(value) == text
