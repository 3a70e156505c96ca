"""Every tool call that a record holds is read, in any shape, or the loss is reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replaydiff.importers.base import InputFile, Note
from replaydiff.importers.chat.model_calls import LoggedCall
from replaydiff.importers.sources import bedrock as bedrock_source
from replaydiff.importers.sources import jsonl, litellm, openai
from replaydiff.replay.messages import count_requests, join_results, read_messages
from replaydiff.replay.model import Trace

Call = tuple[str, str, dict[str, Any]]
"""Id, tool, arguments."""


def openai_chat(calls: list[Call]) -> list[Any]:
    listed = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for one, name, args in calls
    ]
    return [{"role": "assistant", "content": None, "tool_calls": listed}]


def function_as_text(calls: list[Call]) -> list[Any]:
    listed = [
        {"function": name, "args": args, "id": one, "placeholder_args": None} for one, name, args in calls
    ]
    return [{"role": "assistant", "content": None, "tool_calls": listed}]


def bare(calls: list[Call]) -> list[Any]:
    listed = [{"name": name, "args": args, "id": one} for one, name, args in calls]
    return [{"role": "assistant", "content": "", "tool_calls": listed}]


def langchain_twice(calls: list[Call]) -> list[Any]:
    listed = [{"name": name, "args": args, "id": one, "type": "tool_call"} for one, name, args in calls]
    parts = [{"type": "tool_use", "name": name, "input": args, "id": one} for one, name, args in calls]
    return [{"type": "ai", "content": parts, "tool_calls": listed}]


def anthropic(calls: list[Call]) -> list[Any]:
    parts = [{"type": "tool_use", "id": one, "name": name, "input": args} for one, name, args in calls]
    return [{"role": "assistant", "content": [{"type": "text", "text": "so"}, *parts]}]


def responses(calls: list[Call]) -> list[Any]:
    return [
        {
            "type": "function_call",
            "id": f"fc_{one}",
            "call_id": one,
            "name": name,
            "arguments": json.dumps(args),
        }
        for one, name, args in calls
    ]


def bedrock(calls: list[Call]) -> list[Any]:
    parts = [{"toolUse": {"toolUseId": one, "name": name, "input": args}} for one, name, args in calls]
    return [{"role": "assistant", "content": parts}]


def gemini(calls: list[Call]) -> list[Any]:
    parts = [{"functionCall": {"name": name, "args": args, "id": one}} for one, name, args in calls]
    return [{"role": "model", "parts": parts}]


def vercel(calls: list[Call]) -> list[Any]:
    parts = [
        {"type": "tool-call", "toolCallId": one, "toolName": name, "input": args} for one, name, args in calls
    ]
    return [{"role": "assistant", "content": parts}]


def otel(calls: list[Call]) -> list[Any]:
    parts = [{"type": "tool_call", "id": one, "name": name, "arguments": args} for one, name, args in calls]
    return [{"role": "assistant", "parts": parts}]


def camel_case(calls: list[Call]) -> list[Any]:
    listed = [{"toolCallId": one, "toolName": name, "args": args} for one, name, args in calls]
    return [{"role": "assistant", "content": None, "toolCalls": listed}]


def by_number(calls: list[Call]) -> list[Any]:
    listed = {
        str(place): {"id": one, "function": {"tool_name": name, "parameters": json.dumps(args)}}
        for place, (one, name, args) in enumerate(calls)
    }
    return [{"role": "assistant", "content": "", "tool_calls": listed}]


def bedrock_text(calls: list[Call]) -> list[Any]:
    return [{"role": "assistant", "content": json.dumps(bedrock(calls)[0]["content"])}]


Shape = Callable[[list[Call]], list[Any]]
SHAPES: tuple[Shape, ...] = (
    openai_chat, function_as_text, bare, langchain_twice, anthropic, responses, bedrock, gemini, vercel, otel,
    camel_case, by_number, bedrock_text,
)  # fmt: skip
FILE = InputFile(path="log.jsonl", name="log.jsonl", size=1, modified=1_700_000_000.0)
# A NUL in a record becomes U+FFFD, which no database refuses.
text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
args = st.dictionaries(st.sampled_from(["city", "n", "note"]), st.one_of(st.integers(0, 9), text))
turns = st.lists(
    st.tuples(
        st.sampled_from(SHAPES),
        st.lists(st.tuples(st.sampled_from("abc"), args), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=4,
)


@given(turns)
def test_every_call_is_read_whatever_shapes_a_record_mixes(turns: list[tuple[Shape, list[Any]]]) -> None:
    messages: list[Any] = [{"role": "user", "content": "?"}]
    expected = []
    for number, (shape, made) in enumerate(turns):
        calls = [(f"c{number}-{place}", name, given) for place, (name, given) in enumerate(made)]
        messages += shape(calls)
        expected += [(name, given) for _, name, given in calls]
    found = join_results(read_messages(messages) or ())
    assert [(one.name, one.args) for one in found] == expected
    assert count_requests(messages) == len(expected)
    items = list(openai.read({"created": 1_700_000_000, "messages": messages}, FILE))
    (trace,) = [item for item in items if isinstance(item, Trace)]
    assert len(trace.tool_calls) == len(expected)
    assert not any(isinstance(item, Note) for item in items)


def test_a_call_in_an_unknown_shape_is_reported() -> None:
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [{"verb": "search"}]}]
    items = list(openai.read({"created": 1_700_000_000, "messages": messages}, FILE))
    assert [item.text for item in items if isinstance(item, Note)] == [
        "tool calls in a shape that is not known were left out; please report it"
    ]


def test_a_call_in_an_answer_that_cannot_be_read_is_reported() -> None:
    call = {"id": "c1", "type": "function", "function": {"verb": "search", "arguments": "{}"}}
    answer = {"choices": [{"message": {"role": "assistant", "content": "So.", "tool_calls": [call]}}]}
    asked: Any = [{"role": "user", "content": "?"}]
    logged = {"request": {"messages": asked}, "response": answer}
    proxied = {"call_type": "acompletion", "messages": asked, "response": answer, "startTime": 1.0, "id": "1"}
    invoked = {
        "schemaType": "ModelInvocationLog",
        "timestamp": "2026-11-01T10:00:00Z",
        "operation": "Converse",
        "input": {"inputBodyJson": {"messages": [{"role": "user", "content": [{"text": "?"}]}]}},
        "output": {
            "outputBodyJson": {
                "output": {"message": {"role": "assistant", "content": [{"toolUse": {"verb": "search"}}]}}
            }
        },
    }
    whole = {"trace_id": "t", "started_at": 1.0, "messages": [*asked, answer["choices"][0]["message"]]}
    records: list[tuple[Any, Any]] = [
        (openai, logged),
        (litellm, proxied),
        (bedrock_source, invoked),
        (jsonl, whole),
    ]
    for source, record in records:
        found = list(source.read(record, FILE))
        texts = [item.text for item in found if isinstance(item, Note)]
        texts += [text for item in found if isinstance(item, LoggedCall) for text in item.notes]
        assert "tool calls in a shape that is not known were left out; please report it" in texts, source.NAME


def test_fields_beside_the_messages_are_metadata() -> None:
    record = {
        "created": 1_700_000_000,
        "messages": [{"role": "user", "content": "?"}],
        "suite": "bank",
        "won": True,
    }
    (trace,) = [item for item in openai.read(record, FILE) if isinstance(item, Trace)]
    assert trace.metadata == {"suite": "bank", "won": True}
