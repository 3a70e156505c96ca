"""One conversation in a dozen shapes is one conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from replaydiff.replay.messages import conversation, read_messages, read_text
from replaydiff.replay.model import Message, ToolCall
from tests.messages.test_decode import objects

ARGS = {"city": "Oslo"}
TEXT = json.dumps(ARGS)

RECORDED = json.loads(Path(__file__).with_name("shapes.json").read_text(encoding="utf-8"))
"""The conversation as a dozen writers record it, and a model's answer that requests its call."""
OUTPUTS: dict[str, Any] = RECORDED["answers"]
OPENAI, LANGCHAIN = (RECORDED["conversations"][name] for name in ("OpenAI chat", "LangChain"))
STORED = {  # what LangChain's `messages_to_dict` writes
    "messages": [
        {"type": message["type"], "data": {key: value for key, value in message.items() if key != "type"}}
        for message in LANGCHAIN["messages"]
    ]
}
SHAPES: dict[str, Any] = {
    **RECORDED["conversations"],
    "LangGraph command": {"output": [{"graph": None, "update": LANGCHAIN}]},
    "LangChain, stored": STORED,
    "Python repr": repr(OPENAI),
    "encoded twice": json.dumps(json.dumps(OPENAI)),
}
LANGCHAIN_CALLS = LANGCHAIN["messages"][2]["tool_calls"]
CALL = OPENAI[2]["tool_calls"][0]


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


def test_tools_that_ran_at_the_provider_are_calls_with_results_and_leave_the_answer_last() -> None:
    found = [{"type": "web_search_result", "url": "u"}]
    anthropic = [
        {"role": "user", "content": "Who won?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "who"}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": found},
                {"type": "text", "text": "Ann won."},
            ],
        },
    ]
    responses = [
        {"role": "user", "content": "Who won?"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me look."}],
        },
        {
            "type": "web_search_call",
            "id": "s",
            "status": "completed",
            "action": {"query": "who"},
            "results": found,
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ann won."}]},
    ]
    for shape in (anthropic, responses):
        messages = read_messages(shape)
        assert messages is not None
        run = conversation(messages)
        assert run.tool_calls == (
            ToolCall(name="web_search", args={"query": "who"}, call_id="s", result=found),
        )
        assert run.final_response == "Ann won."


@pytest.mark.parametrize(
    ("item", "name", "args", "result", "failed"),
    [
        (
            {"type": "mcp_call", "id": "m", "name": "find", "arguments": '{"a": 1}', "output": "x"},
            "find",
            {"a": 1},
            "x",
            False,
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "find", "arguments": "{}", "output": None, "error": "no"},
            "find",
            {},
            "no",
            True,
        ),
        (
            {"type": "code_interpreter_call", "id": "m", "code": "1+1", "outputs": [{"logs": "2"}]},
            "code_interpreter",
            {"code": "1+1"},
            [{"logs": "2"}],
            False,
        ),
    ],
)
def test_items_of_hosted_tools(item: Any, name: str, args: Any, result: Any, failed: bool) -> None:
    (call,) = conversation(read_messages([item]) or ()).tool_calls
    assert (call.name, call.args, call.call_id, call.result) == (name, args, "m", result)
    assert (call.error is not None) is failed


def test_tools_of_the_agents_own_machine_are_joined_with_their_output() -> None:
    items = [
        {"type": "local_shell_call", "id": "i", "call_id": "k", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "k", "output": "a.txt"},
        {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "p", "status": "failed", "output": "no such file"},
    ]
    shell, patch = conversation(read_messages(items) or ()).tool_calls
    assert (shell.name, shell.args, shell.result) == ("local_shell", {"command": ["ls"]}, "a.txt")
    assert (patch.args, patch.error) == ({"type": "delete_file", "path": "a"}, "no such file")


def test_langchain_says_a_call_several_times_and_it_counts_once() -> None:
    message = {
        "type": "ai",
        "content": [{"type": "tool_use", "id": "k", "name": "weather", "input": {}, "partial_json": TEXT}],
        "tool_calls": LANGCHAIN_CALLS,
        "invalid_tool_calls": [{"name": "book", "args": '{"seat": ', "id": "z", "error": "no JSON"}],
        "additional_kwargs": {"tool_calls": [CALL]},
    }
    (found,) = read_messages([message]) or ()
    assert found.tool_calls == (
        ToolCall(name="weather", args=ARGS, call_id="k", answered=False),
        ToolCall(name="book", args={"_raw": '{"seat": '}, call_id="z", answered=False),
    )


def test_langchain_writes_short_messages_as_pairs() -> None:
    assert read_messages({"messages": [["system", "Be brief."], ["human", "Hi"], ["ai", "Ho"]]}) == (
        Message(role="system", text="Be brief."),
        Message(role="user", text="Hi"),
        Message(role="assistant", text="Ho"),
    )


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("Human: Hi\nAI: Ho\nHuman: Bye\nAI:", [("user", "Hi"), ("assistant", "Ho"), ("user", "Bye")]),
        ("\n\nHuman: Hi\n\nAssistant:", [("user", "Hi")]),
        ("System: Be brief.\nHuman: two\nlines", [("system", "Be brief."), ("user", "two\nlines")]),
        ("Tell me what 'Human: Hi' means", []),
        ("Human rights: what are they?", []),
        ("AI: that is all I know", []),
    ],
)
def test_a_transcript_in_one_text(text: str, turns: list[tuple[str, str]]) -> None:
    assert [(message.role, message.text) for message in read_messages(text) or ()] == turns


def test_thoughts_are_no_answer() -> None:
    parts = [{"text": "hm, let me see", "thought": True}, {"text": "It rains."}]
    (message,) = read_messages([{"role": "model", "parts": parts}]) or ()
    assert message.text == "It rains."


def test_json_that_a_person_typed_stays_what_they_typed() -> None:
    typed = '[{"type": "bug", "id": 7}]'
    (message,) = read_messages([{"role": "user", "content": typed}]) or ()
    assert message.text == typed


def test_what_a_tool_said_stays_as_it_said_it() -> None:
    said = '[{"type": "text", "text": "x"}]'
    (message,) = read_messages([{"role": "tool", "tool_call_id": "k", "content": said}]) or ()
    assert (message.text, message.data) == (said, None)


@pytest.mark.parametrize(
    "key", ["type", "role", "lc", "id", "content", "state", "toolCallId", "status", "name"]
)
@pytest.mark.parametrize("odd", [[], {}, [{}], 1.5, True, "tool_call", "tool-x", "x_call", None])
def test_odd_values_in_the_fields_that_tell_shapes_apart(key: str, odd: Any) -> None:
    for shape in SHAPES.values():
        read_messages(_with_odd(shape, key, odd))
        read_messages([{key: odd}, {"role": "assistant", key: odd, "content": [{key: odd, "type": "text"}]}])


def _with_odd(value: Any, key: str, odd: Any) -> Any:
    if isinstance(value, dict):
        return {name: odd if name == key else _with_odd(inner, key, odd) for name, inner in value.items()}
    return [_with_odd(inner, key, odd) for inner in value] if isinstance(value, list) else value


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


def test_a_tool_on_offer_is_no_result() -> None:
    offer = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}
    asked = {"role": "user", "content": "Go"}
    assert read_messages([asked, {"role": "tool", "content": offer}]) == (Message(role="user", text="Go"),)
