"""Conversations that agent frameworks save: each call with its arguments and its result, in order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from replaydiff.importers.base import Imported, Note, Reject, Skipped, find_importer
from replaydiff.importers.collect import collected, detect
from replaydiff.replay.model import Trace
from tests.importers.formats import ROUNDS, Call, Rounds, numbered, rounds
from tests.importers.reading import items

Record = dict[str, Any]
TIME = "2026-11-01T10:00:00Z"
ASKED, DONE = "Two roses, please.", "Done."


def sharegpt(made: Rounds) -> Any:
    turns = [{"from": "human", "value": ASKED}]
    for turn in made:
        asked = [{"name": name, "arguments": args} for name, args, _ in turn]
        turns.append({"from": "function_call", "value": json.dumps(asked)})
        turns += [{"from": "observation", "value": result} for *_, result in turn]
    return [{"conversations": [*turns, {"from": "gpt", "value": DONE}], "tools": "[]"}]


def autogen(made: Rounds) -> Any:
    def message(kind: str, source: str, content: Any) -> Record:
        return {"type": kind, "source": source, "content": content, "created_at": TIME}

    messages = [message("TextMessage", "user", ASKED)]
    for turn in numbered(made):
        asked = [{"id": key, "name": one[0], "arguments": json.dumps(one[1])} for key, one in turn]
        found = [{"call_id": key, "name": one[0], "content": one[2]} for key, one in turn[::-1]]
        messages.append(message("ToolCallRequestEvent", "helper", asked))
        messages.append(message("ToolCallExecutionEvent", "helper", found))
    return [*messages, message("TextMessage", "helper", DONE)]


def langgraph(made: Rounds) -> Any:
    messages: list[Record] = [{"type": "human", "content": ASKED, "additional_kwargs": {}}]
    for turn in numbered(made):
        asked = [{"name": one[0], "args": one[1], "id": key, "type": "tool_call"} for key, one in turn]
        messages.append({"type": "ai", "content": "", "tool_calls": asked, "additional_kwargs": {}})
        messages += [
            {"type": "tool", "content": one[2], "tool_call_id": key, "additional_kwargs": {}}
            for key, one in turn[::-1]
        ]
    messages.append({"type": "ai", "content": DONE, "additional_kwargs": {}})
    return {"values": {"messages": messages}, "next": [], "created_at": TIME, "metadata": {"step": 1}}


def letta(made: Rounds) -> Any:
    messages: list[Record] = [{"message_type": "user_message", "content": ASKED, "date": TIME}]
    for turn in numbered(made):
        asked = [{"name": one[0], "arguments": json.dumps(one[1]), "tool_call_id": key} for key, one in turn]
        messages.append({"message_type": "tool_call_message", "tool_calls": asked, "date": TIME})
        messages += [
            {"message_type": "tool_return_message", "tool_return": one[2], "tool_call_id": key, "date": TIME}
            for key, one in turn[::-1]
        ]
    messages.append({"message_type": "assistant_message", "content": DONE, "date": TIME})
    return messages


def swe_agent(made: Rounds) -> Any:
    history: list[Record] = [{"role": "user", "content": ASKED}]
    for turn in numbered(made):
        for key, one in turn:
            function = {"name": one[0], "arguments": json.dumps(one[1])}
            asked = [{"id": key, "type": "function", "index": 1, "function": function}]
            history.append({"role": "assistant", "content": "", "action": one[0], "tool_calls": asked})
            history.append({"role": "tool", "content": one[2], "tool_call_ids": [key]})
    history.append({"role": "assistant", "content": DONE})
    return {"trajectory": [], "history": history, "info": {}}


def _event(number: int, source: str, **fields: Any) -> Record:
    return {"id": number, "timestamp": TIME, "source": source, **fields}


def openhands(made: Rounds) -> Any:
    events = [_event(0, "user", action="message", args={"content": ASKED})]
    for turn in numbered(made):
        asked = [
            {"id": key, "function": {"name": one[0], "arguments": json.dumps(one[1])}} for key, one in turn
        ]
        response = {"choices": [{"message": {"tool_calls": asked}}]}
        called = [{"tool_call_id": key, "model_response": response} for key, _ in turn]
        events += [_event(1, "agent", action="run", args={}, tool_call_metadata=one) for one in called]
        events += [
            _event(2, "agent", observation="run", content=one[2], tool_call_metadata=called[at])
            for at, (_, one) in reversed(list(enumerate(turn)))
        ]
    return [*events, _event(3, "agent", action="message", args={"content": DONE})]


def openhands_without_native_calls(made: Rounds) -> Any:
    events = [_event(0, "user", action="message", args={"content": ASKED})]
    for name, args, result in (one for turn in made for one in turn):
        number = len(events)
        events.append(_event(number, "agent", action=name, args={"thought": "Hm.", **args}))
        events.append(_event(number + 1, "agent", observation=name, content=result, cause=number))
    return {"history": [*events, _event(99, "agent", action="message", args={"content": DONE})]}


def openhands_sdk(made: Rounds) -> Any:
    def said(source: str, role: str, text: str) -> Record:
        content = [{"type": "text", "text": text}]
        return _event(0, source, kind="MessageEvent", llm_message={"role": role, "content": content})

    events = [said("user", "user", ASKED)]
    for turn in numbered(made):
        for key, one in turn:
            call = {"id": key, "name": one[0], "arguments": json.dumps(one[1])}
            events.append(
                _event(1, "agent", kind="ActionEvent", tool_call_id=key, tool_call=call, thought=[])
            )
        for key, one in turn[::-1]:
            found = {"content": [{"type": "text", "text": one[2]}], "is_error": False}
            events.append(
                _event(2, "environment", kind="ObservationEvent", tool_call_id=key, observation=found)
            )
    return [*events, said("agent", "assistant", DONE)]


def toolbench(made: Rounds) -> Any:
    def turn(speaker: str, text: str) -> Record:
        return {"from": speaker, "value": text}

    def asked(name: str, args: Record) -> Record:
        return turn("assistant", f"\nThought: Hm.\nAction: {name}\nAction Input: {json.dumps(args)}")

    turns = [turn("system", "You can use many tools."), turn("user", ASKED)]
    for name, args, result in (one for asked_at_once in made for one in asked_at_once):
        turns += [asked(name, args), turn("function", result)]
    return [{"id": "Step 1", "conversations": [*turns, turn("assistant", DONE)]}]


WRITERS: dict[str, Callable[[Rounds], Any]] = {
    writer.__name__: writer
    for writer in (
        sharegpt,
        autogen,
        langgraph,
        letta,
        swe_agent,
        openhands,
        openhands_without_native_calls,
        openhands_sdk,
        toolbench,
    )
}


def _imported(folder: Path, value: Any) -> list[Imported]:
    file = folder / "f.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    with collected([str(file)]) as (found,):
        assert detect(found) is find_importer("openai")
    return items("openai", file)


def _reason(folder: Path, value: Any) -> str:
    (reject,) = [one for one in _imported(folder, value) if not isinstance(one, Note)]
    assert isinstance(reject, Reject)
    return reject.reason


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.slow
def test_calls_stored_are_the_calls_of_the_file(name: str, tmp_path: Path) -> None:
    @settings(max_examples=30)
    @given(rounds)
    def check(made: Rounds) -> None:
        (trace,) = [one for one in _imported(tmp_path, WRITERS[name](made)) if isinstance(one, Trace)]
        assert [_call(call) for call in trace.tool_calls] == [one for turn in made for one in turn]
        assert (trace.input, trace.final_response, trace.error) == (ASKED, DONE, None)

    check()


def _call(call: Any) -> Call:
    return call.name, call.args, call.result


@pytest.mark.parametrize("name", WRITERS)
def test_no_note_where_all_is_read(name: str, tmp_path: Path) -> None:
    found = _imported(tmp_path, WRITERS[name](ROUNDS))
    (trace,) = [one for one in found if isinstance(one, Trace)]
    assert len(trace.tool_calls) == 3
    notes = {one.text for one in found if isinstance(one, Note)}
    assert notes <= {"no time in the record: the file's modification time was taken"}


def test_questions_of_xlam_have_their_calls(tmp_path: Path) -> None:
    calls = [{"name": "find", "arguments": {"plant": "rose"}}, {"name": "price", "arguments": {}}]
    row = {"id": 5, "query": ASKED, "answers": json.dumps(calls), "tools": "[]"}
    (trace,) = [one for one in _imported(tmp_path, [row]) if isinstance(one, Trace)]
    assert [_call(call) for call in trace.tool_calls] == [
        ("find", {"plant": "rose"}, None),
        ("price", {}, None),
    ]
    assert (trace.trace_id, trace.input, trace.final_response) == ("5", ASKED, None)
    row["answers"] = "none"
    assert _reason(tmp_path, [row]) == "answers must be a list, not text"
    row["answers"] = '[{"name": "find"}]'
    assert _reason(tmp_path, [row]) == "a tool call in answers[0] has no name or no arguments"


UNKNOWN: list[tuple[str, tuple[Any, ...], str]] = [
    ("sharegpt", (0, "conversations", 1, "from"), "conversations[1].from is not known: 'new'"),
    ("autogen", (1, "type"), "messages[1].type is not known: 'new'"),
    ("letta", (1, "message_type"), "messages[1].message_type is not known: 'new'"),
    ("toolbench", (0, "conversations", 1, "from"), "conversations[1].from is not known: 'new'"),
    (
        "toolbench",
        (0, "conversations", 4, "value"),
        "conversations[4].value has an Action without a name and an Action Input",
    ),
    ("openhands_sdk", (1, "kind"), "messages[1].kind is not known: 'new'"),
]


@pytest.mark.parametrize(("name", "path", "reason"), UNKNOWN)
def test_a_message_of_an_unknown_type_rejects_its_record(
    name: str, path: tuple[Any, ...], reason: str, tmp_path: Path
) -> None:
    record = WRITERS[name](ROUNDS)
    holder = record
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = "Action: new" if path[-1] == "value" else "new"
    assert _reason(tmp_path, record) == reason


def test_calls_without_arguments_reject_their_record(tmp_path: Path) -> None:
    record = autogen(ROUNDS)
    del record[1]["content"][0]["arguments"]
    assert _reason(tmp_path, record) == "a tool call in messages[1] has no name or no arguments"
    events = openhands(ROUNDS)
    events[1]["tool_call_metadata"]["tool_call_id"] = "other"
    assert _reason(tmp_path, events) == "messages[1]: the model's response has no tool call 'other'"


def test_actions_that_are_text_are_no_tool_calls(tmp_path: Path) -> None:
    record = swe_agent(ROUNDS)
    for message in record["history"]:
        message.pop("tool_calls", None)
    assert _reason(tmp_path, record) == (
        "the actions of this trajectory are text, and not tool calls of the model"
    )


def test_pages_that_begin_with_the_newest_message_are_turned(tmp_path: Path) -> None:
    messages = letta(ROUNDS)
    for number, message in enumerate(messages):
        message["date"] = f"2026-11-01T10:00:{number:02d}Z"
    (trace,) = [one for one in _imported(tmp_path, messages[::-1]) if isinstance(one, Trace)]
    assert [_call(call) for call in trace.tool_calls] == [one for turn in ROUNDS for one in turn]


def _with_model(name: str) -> Any:
    """A conversation whose record names the model, where its framework writes it."""
    record = WRITERS[name.partition(",")[0]](ROUNDS)
    if name == "langgraph":
        record["values"]["messages"][-1]["response_metadata"] = {"model_name": "gpt-x", "model": "other"}
    elif name == "langgraph, dumpd":
        answer = record["values"]["messages"].pop()
        kwargs = {**answer, "response_metadata": {"model": "gpt-x"}}
        kind = ["langchain", "schema", "messages", "AIMessage"]
        record["values"]["messages"].append({"lc": 1, "type": "constructor", "id": kind, "kwargs": kwargs})
    elif name == "swe_agent":
        record["replay_config"] = json.dumps({"agent": {"model": {"name": "gpt-x"}}})
    elif name == "openhands":
        for event in record:
            if "tool_call_metadata" in event:
                event["tool_call_metadata"]["model_response"]["model"] = "gpt-x"
    elif name == "openhands_without_native_calls":
        record["metadata"] = {"llm_config": {"model": "gpt-x"}}
    else:
        record.insert(1, _event(9, "environment", kind="LLMCompletionLogEvent", model_name="gpt-x"))
    return record


@pytest.mark.parametrize(
    "name",
    [
        *("langgraph", "langgraph, dumpd", "swe_agent"),
        *("openhands", "openhands_without_native_calls", "openhands_sdk"),
    ],
)
def test_the_model_is_that_of_the_record(name: str, tmp_path: Path) -> None:
    (trace,) = [one for one in _imported(tmp_path, _with_model(name)) if isinstance(one, Trace)]
    assert trace.model == "gpt-x"
    (unnamed,) = [
        one for one in _imported(tmp_path, WRITERS[name.partition(",")[0]](ROUNDS)) if isinstance(one, Trace)
    ]
    assert unnamed.model is None


def test_a_folder_of_trajectories_is_read(tmp_path: Path) -> None:
    (tmp_path / "shop-1.traj").write_text(json.dumps(swe_agent(ROUNDS)))
    (trace,) = [one for one in items("openai", tmp_path) if isinstance(one, Trace)]
    assert len(trace.tool_calls) == 3


def test_sessions_of_sub_agents_and_without_a_prompt_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    header = {"sessionId": "s", "projectHash": "h", "messages": []}
    for record, reason in (
        (
            {**header, "kind": "subagent"},
            "sessions of sub-agents: their result is that of the call that started them",
        ),
        (header, "sessions without a message of their user"),
    ):
        file.write_text(json.dumps(record))
        assert items("gemini-cli", file) == [Skipped(reason)]
