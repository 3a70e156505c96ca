"""Logged calls of a model are joined to runs and sessions, wherever they stand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.model import Trace
from tests.importers.reading import SAMPLES, traces

LOOP = SAMPLES / "openai" / "agent-loop.jsonl"


def _file(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _pair(number: int, asked: list[Any], said: Any) -> dict[str, Any]:
    answer = {"id": f"r{number}", "created": 1793527200 + number, "choices": [{"message": said}]}
    return {"request": {"messages": asked}, "response": answer}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _asks(call_id: str) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "t", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _tells(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"result of {call_id}"}


def _seen(found: list[Trace]) -> dict[str, tuple[Any, ...]]:
    return {
        one.trace_id: (one.input, one.final_response, one.session_id, one.tool_path, one.usage)
        for one in found
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_records_does_not_matter(seed: int, tmp_path: Path) -> None:
    records = [json.loads(line) for line in LOOP.read_text().splitlines()]
    random.Random(seed).shuffle(records)
    one, other = _file(tmp_path / "1.jsonl", records[:3]), _file(tmp_path / "2.jsonl", records[3:])
    assert _seen(traces("openai", one, other)) == _seen(traces("openai", LOOP))


def test_a_run_that_was_cut_off_keeps_its_id_when_the_rest_comes(tmp_path: Path) -> None:
    start = [_user("q")]
    first = _pair(1, start, _asks("k"))
    rest = _pair(2, [*start, _asks("k"), _tells("k")], _says("a"))
    (cut,) = traces("openai", _file(tmp_path / "1.jsonl", [first]))
    (whole,) = traces("openai", _file(tmp_path / "2.jsonl", [first, rest]))
    assert (cut.trace_id, cut.final_response, cut.tool_calls[0].answered) == ("r1", None, False)
    assert (whole.trace_id, whole.final_response, whole.tool_calls[0].result) == ("r1", "a", "result of k")


def test_a_request_that_was_tried_again_is_a_run_of_its_own(tmp_path: Path) -> None:
    start = [_user("q")]
    asked = [*start, _asks("k"), _tells("k")]
    records = [_pair(1, start, _asks("k")), _pair(2, asked, _says("a")), _pair(3, asked, _says("b"))]
    found = traces("openai", _file(tmp_path / "f.jsonl", records))
    assert [(one.trace_id, one.final_response, one.tool_path) for one in found] == [
        ("r1", "a", "t"),
        ("r3", "b", "t"),
    ]


def test_equal_questions_of_different_people_are_different_runs(tmp_path: Path) -> None:
    records = [_pair(number, [_user("Hi")], _says("Hello!")) for number in range(3)]
    for number in (8, 9):
        records.append(_pair(number, [_user("Hi"), _says("Hello!"), _user(f"{number}?")], _says("Yes.")))
    found = traces("openai", _file(tmp_path / "f.jsonl", records))
    assert [(one.trace_id, one.session_id) for one in found] == [
        ("r0", None),
        ("r1", "r1"),
        ("r2", "r2"),
        ("r8", "r2"),
        ("r9", "r1"),
    ]


def test_earlier_turns_calls_are_not_this_runs(tmp_path: Path) -> None:
    # The first turn's own record is not in the log.
    asked = [_user("q"), _asks("k"), _tells("k"), _says("a"), _user("again"), _asks("m"), _tells("m")]
    (trace,) = traces("openai", _file(tmp_path / "f.jsonl", [_pair(1, asked, _says("b"))]))
    assert (trace.input, [call.call_id for call in trace.tool_calls]) == ("again", ["m"])
    assert len(trace.messages) == 8


def test_responses_that_name_each_other_in_a_circle_come_in(tmp_path: Path) -> None:
    output = [{"type": "function_call", "call_id": "k", "name": "t", "arguments": "{}"}]
    records = [
        {
            "input": [{"type": "function_call_output", "call_id": "k", "output": "x"}],
            "response": {
                "id": f"r{n}",
                "object": "response",
                "output": output,
                "previous_response_id": f"r{m}",
            },
        }
        for n, m in ((1, 2), (2, 3), (3, 1), (4, 4), (5, 1))
    ]
    found = traces("openai", _file(tmp_path / "f.jsonl", records))
    assert {one.trace_id for one in found} >= {"r1", "r2", "r3", "r4"}


def test_a_long_run_is_one_trace(tmp_path: Path) -> None:
    asked = [_user("q")]
    records = []
    for number in range(60):
        records.append(_pair(number, list(asked), _asks(f"k{number}")))
        asked += [_asks(f"k{number}"), _tells(f"k{number}")]
    records.append(_pair(60, list(asked), _says("done")))
    (trace,) = traces("openai", _file(tmp_path / "f.jsonl", records))
    assert (trace.trace_id, trace.final_response, len(trace.steps)) == ("r0", "done", 61)
    assert [call.result for call in trace.tool_calls] == [f"result of k{number}" for number in range(60)]


@pytest.mark.parametrize("stream", [True, False])
def test_a_streamed_answer_is_the_answer(stream: bool, tmp_path: Path) -> None:
    pieces = [
        {"role": "assistant", "content": ""},
        {"content": "One mo"},
        {"content": "ment."},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "u", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1793527200, "model": "m"}
    chunks: list[Any] = [{**head, "choices": [{"index": 0, "delta": piece}]} for piece in pieces]
    chunks.append({**head, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}})
    record = {"request": {"messages": [_user("q")], "stream": True}, "response": chunks}
    if not stream:
        record["response"] = json.dumps(chunks)  # type: ignore[assignment]
    (trace,) = traces("openai", _file(tmp_path / "f.jsonl", [record]))
    assert [(call.name, call.args, call.call_id) for call in trace.tool_calls] == [
        ("t", {"x": 1}, "a"),
        ("u", {}, "b"),
    ]
    assert trace.usage is not None
    assert (trace.usage.input_tokens, trace.model, trace.messages[-1].text) == (5, "m", "One moment.")


def test_an_answer_that_is_json_stays_what_was_said(tmp_path: Path) -> None:
    for number, said in enumerate(('{"total": 7}', "[1, 2]", '"quoted"')):
        record = {"id": f"t{number}", "messages": [_user("q")], "response": said}
        (trace,) = traces("openai", _file(tmp_path / "f.jsonl", [record]))
        assert trace.final_response == said


def test_an_answer_that_the_messages_have_too_counts_once(tmp_path: Path) -> None:
    chat = [_user("q"), _says("a")]
    (trace,) = traces("openai", _file(tmp_path / "f.jsonl", [{"messages": chat, "response": "a"}]))
    assert (trace.input, trace.final_response, len(trace.messages)) == ("q", "a", 2)


def test_a_result_whose_keys_come_back_in_another_order_is_the_same(tmp_path: Path) -> None:
    asked = {"role": "user", "content": [{"type": "text", "text": "Weather?"}]}
    search = {"type": "server_tool_use", "id": "s1", "name": "tool_search", "input": {"pattern": "w"}}
    found = {"type": "tool_search_tool_search_result", "tool_references": [{"type": "r", "tool_name": "w"}]}
    turned = {"tool_references": [{"tool_name": "w", "type": "r"}], "type": "tool_search_tool_search_result"}
    call = {"type": "tool_use", "id": "c1", "name": "w", "input": {}}

    def answer(content: Any) -> list[Any]:
        return [search, {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": content}, call]

    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "18C"}]}
    told = {"role": "assistant", "content": answer(turned)}
    records = [
        {"request": {"messages": messages}, "response": {"id": f"r{number}", "type": "message",
         "role": "assistant", "content": content}}
        for number, (messages, content) in enumerate([
            ([asked], answer(found)), ([asked, told, result], [{"type": "text", "text": "It is 18C."}])])
    ]  # fmt: skip
    (made,) = traces("anthropic", _file(tmp_path / "log.jsonl", records))
    assert [(one.name, one.result) for one in made.tool_calls] == [("tool_search", found), ("w", "18C")]


def test_a_tool_search_of_the_client_has_its_result(tmp_path: Path) -> None:
    search = {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {"goal": "w"}}
    tools = [{"type": "function", "name": "w", "parameters": {}}]
    result = {"type": "tool_search_output", "call_id": "s1", "execution": "client", "tools": tools}
    asked = {"type": "message", "role": "user", "content": "Weather?"}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "18C"}]}
    records = [
        {
            "request": {"input": given},
            "response": {"id": f"r{number}", "object": "response", "output": [made]},
        }
        for number, (given, made) in enumerate([([asked], search), ([asked, search, result], answer)])
    ]
    (made,) = traces("openai", _file(tmp_path / "log.jsonl", records))
    assert [(call.name, call.call_id, call.result) for call in made.tool_calls] == [
        ("tool_search", "s1", tools)
    ]
