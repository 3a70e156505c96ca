"""For every format: the tool calls stored are those in the file, in their order and with their results."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.importers.base import Note, Reject, Skipped, find_importer
from replaydiff.importers.call_notes import CALLS_IN_TEXT, UNKNOWN_CALLS
from replaydiff.importers.collect import collected, detect
from replaydiff.replay.model import Trace
from tests.importers.formats import ROUNDS, TIME, WRITERS, Call, Record, Rounds, rounds, write
from tests.importers.reading import SAMPLES, items, others, traces

FIRST: Call = ("get_weather", {"city": "Oslo"}, "3C")
SECOND: Call = ("get_weather", {"city": "Lima"}, "25C")
ASKED: list[Record] = [{"role": "user", "content": "Oslo and Lima?"}]
ANSWERED: Record = {"role": "assistant", "content": "3 and 25 degrees."}


@pytest.mark.parametrize("source", WRITERS)
@pytest.mark.slow
def test_calls_stored_are_the_calls_of_the_file(source: str, tmp_path: Path) -> None:
    @settings(max_examples=20)
    @given(rounds, st.randoms(use_true_random=False))
    def check(made: Rounds, random: Any) -> None:
        records = WRITERS[source](made)
        random.shuffle(records)
        (trace,) = traces(source, write(tmp_path, records))
        wanted = [one for turn in made for one in turn]
        found = [(call.name, call.args, call.result) for call in trace.tool_calls]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
        assert [call.name for call in trace.tool_calls] == [name for name, _, _ in wanted]
        assert (trace.input, trace.final_response, trace.error) == ("Two roses, please.", "Done.", None)

    check()


@pytest.mark.parametrize("source", WRITERS)
def test_a_format_is_detected(source: str, tmp_path: Path) -> None:
    with collected([str(write(tmp_path, WRITERS[source](ROUNDS)))]) as (file,):
        assert detect(file) is find_importer(source)


DAMAGES = 12
"""Of each format; with more of them none was found to lose a call in silence."""


@pytest.mark.parametrize("source", WRITERS)
def test_nothing_is_lost_in_silence_where_a_value_is_damaged(source: str, tmp_path: Path) -> None:
    records = WRITERS[source](ROUNDS)
    inner = [path for path in paths(records) if len(path) > 1]
    damages = [(path, value) for path in inner for value in (None, 7, "text", [], {})]
    for path, value in random.Random(source).sample(damages, min(DAMAGES, len(damages))):
        damaged = json.loads(json.dumps(records))
        holder = damaged
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
        found = items(source, write(tmp_path, damaged))
        calls = sum(len(one.tool_calls) for one in found if isinstance(one, Trace))
        reported = [other for other in others(found) if isinstance(other, Note | Reject | Skipped)]
        assert calls >= 3 or reported, (path, value, found)


def paths(value: Any, above: tuple[Any, ...] = ()) -> Any:
    """Where the values of a record are."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*above, key)
        yield from paths(one, (*above, key))


def test_damaged_simulations_and_envelopes_are_reported(tmp_path: Path) -> None:
    results = json.loads((SAMPLES / "tau2" / "results.json").read_text())
    results["simulations"][0]["messages"] = None
    (reject,) = items("tau2", write(tmp_path, [results]))
    assert isinstance(reject, Reject)
    assert reject.reason == "the simulation has no messages"
    nameless = json.loads((SAMPLES / "tau2" / "results.json").read_text())
    messages = nameless["simulations"][0]["messages"]
    requested = [call for message in messages for call in message.get("tool_calls") or ()]
    requested[0]["name"] = None
    assert Note(UNKNOWN_CALLS) in items("tau2", write(tmp_path, [nameless]))
    envelope = {"resourceSpans": [{"scopeSpans": [None, {"spans": "cut"}]}, 7]}
    reasons = [one.reason for one in items("otlp", write(tmp_path, [envelope])) if isinstance(one, Reject)]
    assert reasons == [
        "an entry of resourceSpans must be an object, not a number",
        "an entry of scopeSpans must be an object, not null",
        "spans must be a list, not text",
    ]


@pytest.mark.parametrize(
    ("output", "call"),
    [
        (
            {
                "object": "response",
                "output": [
                    {"type": "mcp_call", "id": "m", "name": "roll", "arguments": '{"d": 6}', "output": "4"},
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "Done."}],
                    },
                ],
            },
            ("roll", {"d": 6}, "4"),
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "rose"}},
                    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
                    {"type": "text", "text": "Done."},
                ],
            },
            ("web_search", {"query": "rose"}, [{"url": "u"}]),
        ),
    ],
    ids=["Responses", "Messages"],
)
@pytest.mark.parametrize("source", ["langfuse", "otlp"])
def test_a_tool_that_ran_at_the_provider_has_its_result(
    source: str, output: Record, call: Call, tmp_path: Path
) -> None:
    question = [{"role": "user", "content": "Two roses, please."}]
    if source == "langfuse":
        record: Record = {"id": "o", "traceId": "t", "type": "GENERATION", "name": "m", "startTime": TIME}
        record |= {"input": question, "output": output}
    else:
        values = {
            "openinference.span.kind": "LLM",
            "input.value": json.dumps({"messages": question}),
            "output.value": json.dumps(output),
        }
        span = {"traceId": "t", "spanId": "s", "name": "m", "startTimeUnixNano": TIME}
        span["attributes"] = [{"key": key, "value": {"stringValue": one}} for key, one in values.items()]
        record = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (trace,) = traces(source, write(tmp_path, [record]))
    assert [(one.name, one.args, one.result) for one in trace.tool_calls] == [call]
    assert trace.final_response == "Done."


def test_a_pair_of_gemini(tmp_path: Path) -> None:
    asked = {"role": "user", "parts": [{"text": "Two roses, please."}]}
    called = {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {"what": "rose"}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "find", "response": {"found": 2}}}]}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}

    def pair(number: int, contents: list[Record], answer: Record) -> Record:
        response = {"candidates": [{"content": answer}], "responseId": f"r{number}", "usageMetadata": usage}
        request = {"contents": contents, "systemInstruction": {"parts": [{"text": "Be kind."}]}}
        return {"id": f"t{number}", "created": 1793527200, "request": request, "response": response}

    answer = {"role": "model", "parts": [{"text": "Done."}]}
    file = write(tmp_path, [pair(1, [asked], called), pair(2, [asked, called, result], answer)])
    with collected([str(file)]) as files:
        assert detect(files[0]).NAME == "openai"
    (trace,) = traces("openai", file)
    assert [(call.name, call.args, call.result) for call in trace.tool_calls] == [
        ("find", {"what": "rose"}, {"found": 2})
    ]
    assert trace.final_response == "Done."
    assert trace.messages[0].text == "Be kind."
    assert trace.usage is not None
    assert (trace.usage.input_tokens, trace.usage.output_tokens) == (10, 6)


def test_observations_of_messages_are_detected_as_langfuse(tmp_path: Path) -> None:
    row = {"id": "o", "traceId": "t", "type": "GENERATION", "startTime": TIME}
    row |= {"input": [{"role": "user", "content": "Two roses, please."}], "output": "Done."}
    with collected([str(write(tmp_path, [row]))]) as files:
        assert detect(files[0]).NAME == "langfuse"


@pytest.mark.parametrize("key", ["scopeSpans", "spans"])
def test_spans_under_a_key_that_is_not_known_are_rejected(key: str, tmp_path: Path) -> None:
    span = {"traceId": "t", "spanId": "s", "name": "m", "startTimeUnixNano": TIME}
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).replace(f'"{key}"', '"other"')
    file = tmp_path / "spans.json"
    file.write_text(text)
    (rejected,) = items("otlp", file)
    assert isinstance(rejected, Reject)
    assert rejected.reason == f"there is no {key} in it, but another list"


@pytest.mark.parametrize("recorded", ["Done.\n", json.dumps({"raw": "Done.", "tasks_output": []})])
def test_the_answer_is_the_text_with_which_the_last_model_call_ended(recorded: str, tmp_path: Path) -> None:
    def span(number: int, kind: str, **values: str) -> Record:
        attributes = {"openinference.span.kind": kind} | {
            key.replace("_", "."): one for key, one in values.items()
        }
        return {
            "traceId": "t",
            "spanId": f"s{number}",
            "parentSpanId": "s1" if number > 1 else "",
            "name": "crew",
            "startTimeUnixNano": TIME,
            "attributes": [{"key": key, "value": {"stringValue": one}} for key, one in attributes.items()],
        }

    agent = span(1, "AGENT", input_value="Two roses, please.", output_value=recorded)
    model = span(2, "LLM", output_value=json.dumps({"role": "assistant", "content": "Done."}))
    record = {"resourceSpans": [{"scopeSpans": [{"spans": [agent, model]}]}]}
    (trace,) = traces("otlp", write(tmp_path, [record]))
    assert trace.final_response == "Done."


SHAPES: dict[str, list[Record]] = json.loads((Path(__file__).parent / "shapes.json").read_text())


@pytest.mark.parametrize("shape", SHAPES)
def test_calls_of_a_framework_have_their_own_results(shape: str, tmp_path: Path) -> None:
    record = {"id": "t", "created": 1793527200, "messages": [*ASKED, *SHAPES[shape], ANSWERED]}
    found = items("openai", write(tmp_path, [record]))
    (made,) = found
    assert isinstance(made, Trace)
    assert [(call.name, call.args, call.result) for call in made.tool_calls] == [FIRST, SECOND]


@pytest.mark.parametrize("source", ["openai", "jsonl"])
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
        '<function=get_weather>{"city": "Oslo"}</function>',
        'Thought: I look.\nAction: get_weather\nAction Input: {"city": "Oslo"}',
        "Calling tools:\n[{'id': 'a', 'function': {'name': 'get_weather', 'arguments': {'city': 'Oslo'}}}]",
    ],
)
def test_calls_in_the_text_of_messages_are_noted(source: str, text: str, tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": text}
    record = {"id": "t", "created": 1793527200, "messages": [*ASKED, answer, ANSWERED]}
    if source == "jsonl":
        record = {"trace_id": "t", "started_at": TIME, "messages": record["messages"]}
    assert Note(CALLS_IN_TEXT) in items(source, write(tmp_path, [record]))


def test_unknown_fields_of_calls_of_the_own_format_are_noted(tmp_path: Path) -> None:
    record = {"trace_id": "t", "started_at": TIME, "input": "Hi", "tool_calls": [{"name": "a", "argz": {}}]}
    (note, _) = items("jsonl", write(tmp_path, [record]))
    assert isinstance(note, Note)
    assert "'argz'" in note.text
