"""Spans of OpenTelemetry: how they become one trace, whatever their order, and what is told of the rest."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import Note, Reject, Skipped
from replaydiff.importers.collect import collected, detect
from replaydiff.replay.model import Trace
from tests.importers.reading import SAMPLES, items, others, traces

START = 1_793_527_200_000_000_000
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = {"gen_ai.operation.name": "execute_tool"}
SCOPE = "opentelemetry.util.genai.handler"


def said(role: str, text: str) -> str:
    """One message of the GenAI conventions, in a list, as JSON text."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def asks(name: str, args: dict[str, Any], call_id: str | None = None) -> str:
    """A message that asks for a tool."""
    part = {"type": "tool_call", "name": name, "arguments": args, **({"id": call_id} if call_id else {})}
    return json.dumps([{"role": "assistant", "parts": [part]}])


def value(found: Any) -> dict[str, Any]:
    """An attribute's value as OTLP writes it."""
    if isinstance(found, int):
        return {"intValue": str(found)}
    return {"stringValue": found}


def span(own: str, parent: str | None, start: int, end: int, name: str = "", **more: Any) -> dict[str, Any]:
    """A span; times are milliseconds from the beginning."""
    attributes = more.pop("attributes", {})
    return {
        "traceId": "ab" * 16,
        "spanId": own * 16,
        "parentSpanId": parent * 16 if parent else "",
        "name": name or own,
        "startTimeUnixNano": str(START + start * 1_000_000),
        "endTimeUnixNano": str(START + end * 1_000_000),
        "attributes": [{"key": key, "value": value(found)} for key, found in attributes.items()],
        **more,
    }


def line(*spans: dict[str, Any], scope: str = SCOPE) -> str:
    """One line of a collector's file."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}]})


def write(folder: Path, *lines: str) -> Path:
    file = folder / "spans.jsonl"
    file.write_text("".join(one + "\n" for one in lines))
    return file


def one(folder: Path, *spans: dict[str, Any]) -> Trace:
    """The trace of these spans."""
    (made,) = traces("otlp", write(folder, line(*spans)))
    return made


def test_spans_in_any_order_and_any_file_are_the_same_trace(tmp_path: Path) -> None:
    sample = json.loads((SAMPLES / "otlp" / "openinference.jsonl").read_text())
    spans = sample["resourceSpans"][0]["scopeSpans"][0]["spans"]
    (expected,) = traces("otlp", SAMPLES / "otlp" / "openinference.jsonl")
    for seed in range(5):
        random.Random(seed).shuffle(spans)
        files = []
        for number, part in enumerate((spans[:2], spans[2:], spans[:1])):
            holder = {**sample["resourceSpans"][0], "scopeSpans": [{"scope": {"name": "x"}, "spans": part}]}
            files.append(tmp_path / f"{number}.json")
            files[-1].write_text(json.dumps({"resourceSpans": [holder]}))
        assert traces("otlp", *files) == [expected]


def test_a_bad_span_among_good_ones_is_the_only_reject(tmp_path: Path) -> None:
    good = span("1", None, 0, 9, attributes={**AGENT, "input": "hi", "output": "ho"})
    bad = [
        span("2", "1", 1, 2) | {"spanId": ""},
        span("3", "1", 1, 2) | {"startTimeUnixNano": None},
        span("4", "1", 1, 2) | {"endTimeUnixNano": "soon"},
        span("5", "1", 1, 2) | {"traceId": "0" * 32},
        span("6", "1", 1, 2) | {"startTimeUnixNano": "9" * 21},
    ]
    found = items("otlp", write(tmp_path, line(good, *bad)))
    reasons = [item.reason for item in found if isinstance(item, Reject)]
    assert [reason.split(":")[0] for reason in reasons] == [
        "the span has no spanId",
        "the span has no startTimeUnixNano",
        "endTimeUnixNano is not a time",
        "the span has no traceId",
        "startTimeUnixNano is not a time",
    ]
    assert [item.final_response for item in found if isinstance(item, Trace)] == ["ho"]


@pytest.mark.parametrize(
    "broken",
    [{"key": None, "value": value("get")}, {"value": value("get")}, "gen_ai.tool.name", None, {"key": 7}],
)
def test_an_attribute_without_a_name_is_a_reject_and_never_left_out(broken: Any, tmp_path: Path) -> None:
    good, bad = span("a", None, 0, 9, attributes=AGENT), span("b", "a", 1, 2, attributes=TOOL)
    bad["attributes"].append(broken)
    file = tmp_path / "f.jsonl"
    file.write_text(line(good, bad))
    assert [other.reason for other in others(items("otlp", file)) if isinstance(other, Reject)] == [
        "an attribute must be an object whose key is text"
    ]


def test_attributes_that_are_no_list_are_a_reject_on_spans_and_resources(tmp_path: Path) -> None:
    record = json.loads(line(span("a", None, 0, 9, attributes=AGENT) | {"attributes": "x"}))
    record["resourceSpans"][0]["resource"] = {"attributes": "y"}
    file = tmp_path / "f.jsonl"
    file.write_text(json.dumps(record))
    rejects = [one for one in items("otlp", file) if isinstance(one, Reject)]
    assert [reject.reason for reject in rejects] == ["attributes must be a list, not text"] * 2


def test_spans_that_are_each_others_parents_are_taken(tmp_path: Path) -> None:
    made = one(
        tmp_path,
        span("1", "2", 0, 9, attributes={**AGENT, "input": "hi", "output": "ho"}),
        span("2", "1", 1, 8),
        span("3", "3", 2, 7, attributes=TOOL, name="execute_tool look"),
    )
    assert (made.input, made.final_response, made.tool_path) == ("hi", "ho", "look")
    assert len(made.steps) == 3


@pytest.mark.slow
def test_spans_nested_without_end_are_no_hang_and_no_crash(tmp_path: Path) -> None:
    chain = [
        span("1", None, number, number + 1, attributes=AGENT)
        | {"spanId": f"s{number}", "parentSpanId": f"s{number - 1}"}
        for number in range(3000)
    ]
    (reject,) = items("otlp", write(tmp_path, line(*chain)))
    assert isinstance(reject, Reject)
    assert reject.reason == "nested too deeply"


def test_a_web_applications_root_and_a_retriever_do_not_speak_for_the_agent(tmp_path: Path) -> None:
    made = one(
        tmp_path,
        span("1", None, 0, 90, "POST /chat", attributes={"http.route": "/chat"}),
        span("2", "1", 1, 5, "search", attributes={"input.value": "query", "output.value": "documents"}),
        span(
            "3", "1", 6, 80, attributes={**CHAT, "gen_ai.input.messages": said("user", "Question"),
            "gen_ai.output.messages": said("assistant", "Answer")},
        ),
    )  # fmt: skip
    assert (made.name, made.input, made.final_response, made.latency_ms) == (
        "POST /chat",
        "Question",
        "Answer",
        90.0,
    )


def _agents_beside_a_tool(result: str, *, agent_end: int = 45) -> list[dict[str, Any]]:
    """An agent that calls a tool `research`, and another agent below the workflow, which calls `search`."""
    return [
        span("1", None, 0, 100, "Workflow", attributes={"traceloop.span.kind": "workflow"}),
        span("2", "1", 1, 90, "boss", attributes=AGENT),
        span("3", "2", 2, 9, attributes={**CHAT, "gen_ai.output.messages": asks("research", {"of": "x"}, "c1")}),
        span(
            "4", "2", 10, 50, attributes={**TOOL, "gen_ai.tool.name": "research",
            "gen_ai.tool.call.arguments": '{"of": "x"}', "gen_ai.tool.call.result": result},
        ),
        span("5", "1", 11, agent_end, "researcher", attributes=AGENT),
        span("6", "5", 12, 20, attributes={**CHAT, "gen_ai.output.messages": asks("search", {"q": "x"}, "c2")}),
        span(
            "7", "5", 21, 30, attributes={**TOOL, "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": '{"q": "x"}', "gen_ai.tool.call.result": "hit"},
        ),
        span("8", "5", 31, 44, attributes={**CHAT, "gen_ai.output.messages": said("assistant", "x is 7")}),
        span("9", "2", 60, 89, attributes={**CHAT, "gen_ai.output.messages": said("assistant", "It is 7.")}),
    ]  # fmt: skip


def test_an_agent_recorded_beside_the_tool_that_ran_it_is_a_step_of_that_tool(tmp_path: Path) -> None:
    trace = one(tmp_path, *_agents_beside_a_tool("x is 7"))
    assert [call.name for call in trace.tool_calls] == ["research"]
    assert trace.final_response == "It is 7."


@pytest.mark.parametrize(("result", "agent_end"), [("something else", 45), ("x is 7", 55), ("", 45)])
def test_an_agent_that_no_tool_ran_makes_calls_of_the_trace(
    tmp_path: Path, result: str, agent_end: int
) -> None:
    trace = one(tmp_path, *_agents_beside_a_tool(result, agent_end=agent_end))
    assert [call.name for call in trace.tool_calls] == ["research", "search"]


def test_tools_and_agents_of_one_moment_do_not_hold_each_other(tmp_path: Path) -> None:
    spans = [
        span("1", None, 0, 9, "Workflow", attributes={"traceloop.span.kind": "workflow"}),
        *(span(own, "1", 1, 1, attributes={**AGENT, "output": "ok"}) for own in "23"),
        *(
            span(own, parent, 1, 1, attributes={
                **TOOL, "gen_ai.tool.name": f"t{own}",
                "gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "ok"})
            for own, parent in ("42", "53")
        ),
    ]  # fmt: skip
    assert one(tmp_path, *spans).tool_calls


def test_the_answer_is_the_agents_and_not_that_of_a_sub_agent_that_ran_as_a_tool(tmp_path: Path) -> None:
    made = one(
        tmp_path,
        span("1", None, 0, 90, attributes=AGENT),
        span("2", "1", 1, 9, attributes={**CHAT, "gen_ai.input.messages": said("user", "Plan a trip"),
             "gen_ai.output.messages": asks("ask_expert", {"topic": "trains"}, "c1"),
             "gen_ai.usage.input_tokens": 10}),
        span("3", "1", 10, 80, attributes={**TOOL, "gen_ai.tool.name": "ask_expert", "gen_ai.tool.call.id": "c1"}),
        span("4", "3", 11, 79, attributes=AGENT),
        span("5", "4", 12, 78, attributes={**CHAT, "gen_ai.input.messages": said("user", "trains"),
             "gen_ai.output.messages": said("assistant", "Take the 9:04"), "gen_ai.usage.input_tokens": 7}),
    )  # fmt: skip
    assert (made.input, made.final_response, made.tool_path) == ("Plan a trip", None, "ask_expert")
    assert made.usage is not None
    assert made.usage.input_tokens == 17
    assert [message.text for message in made.messages] == ["Plan a trip", ""]


def test_calls_without_ids_are_joined_in_the_order_of_the_requests(tmp_path: Path) -> None:
    parts = [{"type": "tool_call", "name": "get", "arguments": {"n": n}} for n in (1, 2)]
    requests = json.dumps([{"role": "assistant", "parts": parts}])
    tool = {**TOOL, "gen_ai.tool.name": "get"}
    made = one(
        tmp_path,
        span("1", None, 0, 9, attributes={**CHAT, "gen_ai.output.messages": requests}),
        span("2", None, 10, 20, attributes={**tool, "gen_ai.tool.call.arguments": '{"n": 2}', "output": "two"}),
        span("3", None, 11, 20, attributes={**tool, "gen_ai.tool.call.arguments": '{"n": 1}', "output": "one"}),
        span("4", None, 12, 20, attributes={**tool, "gen_ai.tool.call.arguments": '{"n": 3}', "output": "three"}),
    )  # fmt: skip
    assert [(call.args, call.result) for call in made.tool_calls] == [
        ({"n": 1}, "one"),
        ({"n": 2}, "two"),
        ({"n": 3}, "three"),
    ]


def test_a_tool_that_an_mcp_client_ran_is_one_call(tmp_path: Path) -> None:
    tool = {**TOOL, "gen_ai.tool.name": "search", "gen_ai.tool.call.arguments": '{"q": "x"}'}
    made = one(
        tmp_path,
        span("1", None, 0, 9, attributes=AGENT),
        span("2", "1", 1, 8, "execute_tool search", attributes=tool),
        span("3", "2", 2, 7, "tools/call search", attributes={**tool, "gen_ai.tool.call.result": "found"}),
        span("4", "2", 3, 6, "tools/call index", attributes={**tool, "gen_ai.tool.name": "index"}),
    )
    assert [(call.name, call.result) for call in made.tool_calls] == [("search", "found")]
    assert [step.parent for step in made.steps] == [None, 0, 1]


def test_a_traced_function_is_a_tool_if_the_model_asked_for_it(tmp_path: Path) -> None:
    made = one(
        tmp_path,
        span("1", None, 0, 9, attributes={**AGENT, "input": "hi", "output": "ho"}),
        span("2", "1", 1, 2, attributes={**CHAT, "gen_ai.output.messages": asks("refund", {"order": 5})}),
        span("3", "1", 3, 4, "refund", attributes={"input.value": '{"order": 5}', "output.value": "done"}),
        span("4", "1", 5, 6, "helper", attributes={"input.value": "a", "output.value": "b"}),
    )
    assert [(call.name, call.result) for call in made.tool_calls] == [("refund", "done")]


def test_several_roots_and_missing_parents_are_one_trace_in_the_order_of_time(tmp_path: Path) -> None:
    made = one(
        tmp_path,
        span("2", "9", 50, 60, attributes={**AGENT, "input": "second", "output": "last"}),
        span("1", None, 0, 10, attributes={**AGENT, "input": "first", "output": "middle"}),
    )
    assert (made.input, made.final_response, made.latency_ms) == ("first", "last", 60.0)


def test_a_run_that_was_never_ended_is_incomplete(tmp_path: Path) -> None:
    made = one(tmp_path, span("1", None, 0, 9, attributes={**AGENT, "input": "x"}) | {"endTimeUnixNano": "0"})
    assert (made.incomplete, made.ended_at, made.latency_ms) == (True, None, None)


def test_items_of_one_answer_are_no_alternatives(tmp_path: Path) -> None:
    """OpenLLMetry writes the items of an answer of the Responses API as a message each."""
    wanted = [("search", {"q": 1}), ("search", {"q": 2})]
    items = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": f"c{n}", "name": name, "arguments": args}],
            "finish_reason": "tool_call",
        }
        for n, (name, args) in enumerate(wanted)
    ]
    answer = {**CHAT, "gen_ai.output.messages": json.dumps(items)}
    made = one(tmp_path, span("1", None, 0, 9, attributes=answer))
    assert [(call.name, call.args) for call in made.tool_calls] == wanted
    several = {**answer, "gen_ai.request.choice.count": 2}
    made = one(tmp_path, span("1", None, 0, 9, attributes=several))
    assert [(call.name, call.args) for call in made.tool_calls] == wanted[:1]


def test_choices_are_alternatives_and_history_is_no_answer(tmp_path: Path) -> None:
    choices = [{**json.loads(said("assistant", text))[0], "finish_reason": "stop"} for text in ("A", "B")]
    history = [*json.loads(said("user", "Q")), *json.loads(said("assistant", "only this"))]
    made = one(
        tmp_path, span("1", None, 0, 9, attributes={**CHAT, "gen_ai.output.messages": json.dumps(choices)})
    )
    assert (made.final_response, len(made.messages)) == ("A", 1)
    made = one(
        tmp_path, span("1", None, 0, 9, attributes={**CHAT, "gen_ai.output.messages": json.dumps(history)})
    )
    assert [message.text for message in made.messages] == ["only this"]


def test_messages_of_a_call_may_stand_in_an_event_and_in_a_log_record(tmp_path: Path) -> None:
    contents = {"gen_ai.input.messages": said("user", "Q"), "gen_ai.output.messages": said("assistant", "A")}
    pairs = [{"key": key, "value": value(text)} for key, text in contents.items()]
    name = "gen_ai.client.inference.operation.details"
    call = span("1", None, 0, 9, attributes=CHAT)
    made = one(tmp_path, call | {"events": [{"name": name, "attributes": pairs}]})
    assert (made.input, made.final_response) == ("Q", "A")
    log = {"traceId": call["traceId"], "spanId": call["spanId"], "eventName": name, "attributes": pairs}
    logs = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]})
    (made,) = traces("otlp", write(tmp_path, logs, line(call), logs))
    assert (made.input, made.final_response) == ("Q", "A")


def test_spans_of_braintrust_and_adk(tmp_path: Path) -> None:
    made = one(
        tmp_path,
        span("1", None, 0, 9, "task", attributes={"braintrust.span_attributes": '{"type": "task"}',
             "braintrust.input_json": '"Q"', "braintrust.output_json": '{"total": 5, "ok": true}'}),
        span("2", "1", 1, 5, "llm", attributes={"braintrust.span_attributes": '{"type": "llm"}',
             "braintrust.input_json": '[{"role": "user", "content": "Q"}]',
             "braintrust.metrics": '{"prompt_tokens": 6, "completion_tokens": 2}'}),
        span("3", "1", 6, 8, "score", attributes={"braintrust.span_attributes": '{"type": "score"}'}),
    )  # fmt: skip
    assert (made.input, made.final_response, len(made.steps)) == ("Q", '{"ok":true,"total":5}', 2)
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens) == (6, 2)
    request = {
        "contents": [{"role": "user", "parts": [{"text": "Q"}]}],
        "config": {"system_instruction": "S"},
    }
    answer = {"content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]}}
    made = one(
        tmp_path,
        span("1", None, 0, 9, "call_llm", attributes={"gen_ai.request.model": "gemini",
             "gcp.vertex.agent.llm_request": json.dumps(request),
             "gcp.vertex.agent.llm_response": json.dumps(answer)}),
        span("2", None, 3, 4, "execute_tool f", attributes={**TOOL, "gen_ai.tool.name": "f",
             "gcp.vertex.agent.tool_call_args": '{"a": 1}',
             "gcp.vertex.agent.tool_response": '{"result": "done"}'}),
    )  # fmt: skip
    assert (made.input, made.final_response) == ("Q", None)
    assert [(call.name, call.args, call.result) for call in made.tool_calls] == [
        ("f", {"a": 1}, '{"result": "done"}')
    ]


def test_an_error_is_the_agents_own_and_a_tools_stays_with_its_call(tmp_path: Path) -> None:
    thrown = {"name": "exception", "attributes": [{"key": "exception.message", "value": value("boom")}]}
    failed = {"status": {"code": 2}, "events": [thrown]}
    tool = span("2", "1", 1, 2, attributes={**TOOL, "gen_ai.tool.name": "get"}, **failed)
    root = span("1", None, 0, 9, attributes={**AGENT, "input": "x"})
    made = one(tmp_path, root, tool)
    assert (made.error, made.tool_calls[0].error) == (None, "boom")
    made = one(tmp_path, root | {"status": {"code": "STATUS_CODE_ERROR"}}, tool)
    assert made.error == "the span has status ERROR"


@pytest.mark.parametrize(
    ("scope", "attributes", "setting"),
    [
        ("opentelemetry.instrumentation.openai_v2", {}, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        ("com.anthropic.sdk.python", {}, "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=content"),
        ("opentelemetry.instrumentation.openai.v1", {"llm.request.type": "chat"}, "TRACELOOP_TRACE_CONTENT"),
        ("pydantic-ai", {}, "include_content=True"),
        ("ai", {"ai.operationId": "ai.generateText.doGenerate"}, "recordInputs"),
        ("mine", {"openinference.span.kind": "LLM", "input.value": "__REDACTED__"}, "OPENINFERENCE_HIDE_INPUTS"),
        (SCOPE, {"gen_ai.input.messages_ref": "s3://bucket/1"}, "an upload hook"),
    ],
)  # fmt: skip
def test_missing_contents_are_told_with_the_setting_that_turns_them_on(
    tmp_path: Path, scope: str, attributes: dict[str, Any], setting: str
) -> None:
    call = span("1", None, 0, 9, attributes={**CHAT, "gen_ai.usage.input_tokens": 5, **attributes})
    note, made = items("otlp", write(tmp_path, line(call, scope=scope)))
    assert isinstance(note, Note)
    assert note.text.startswith("no contents were recorded")
    assert setting in note.text
    assert isinstance(made, Trace)
    assert made.usage is not None


def test_what_is_no_trace_of_an_agent_is_left_out_and_counted(tmp_path: Path) -> None:
    web = span("1", None, 0, 9, "GET /", attributes={"http.route": "/"})
    assert items("otlp", write(tmp_path, line(web))) == [
        Skipped("traces in which no span is marked as a model call, a tool or an agent")
    ]
    log = {
        "traceId": "ab" * 16,
        "spanId": "1" * 16,
        "body": {"stringValue": "hello"},
        "eventName": "gen_ai.user.message",
    }
    logs = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [log, {**log, "spanId": ""}]}]}]})
    assert items("otlp", write(tmp_path, logs)) == [
        Skipped("log records of traces that are not in these files")
    ]


def test_the_samples_say_nothing_but_what_is_so() -> None:
    told = {
        file.name: others(items("otlp", file))
        for file in (SAMPLES / "otlp").iterdir()
        if not file.name.endswith(".expected.json")
    }
    noted = {"collector.jsonl", "twice.jsonl", "ai-sdk-7.jsonl", "litellm.jsonl"}
    assert {name for name, found in told.items() if found} == noted


def event(name: str, **attributes: str) -> dict[str, Any]:
    return {
        "name": name,
        "timeUnixNano": str(START),
        "attributes": [{"key": key, "value": value(held)} for key, held in attributes.items()],
    }


def test_strands_writes_parts_of_bedrock_in_events(tmp_path: Path) -> None:
    asked = event("gen_ai.user.message", content='[{"text": "Weather?"}]')
    call = '[{"toolUse": {"toolUseId": "c0", "name": "weather", "input": {"city": "Turin"}}}]'
    result = '[{"toolResult": {"toolUseId": "c0", "status": "success", "content": [{"text": "18C"}]}}]'
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    made = one(
        tmp_path,
        span("1", None, 0, 9, "agent", attributes={"gen_ai.operation.name": "invoke_agent"}, events=[asked]),
        span("2", "1", 1, 2, "chat", attributes=chat, events=[asked, event("gen_ai.choice", message=call)]),
        span(
            "3",
            "1",
            3,
            4,
            "execute_tool weather",
            attributes={**TOOL, "gen_ai.tool.name": "weather"},
            events=[
                event("gen_ai.tool.message", role="tool", content='{"city": "Turin"}', id="c0"),
                event("gen_ai.choice", message='[{"text": "18C"}]', id="c0"),
            ],
        ),
        span(
            "4",
            "1",
            5,
            6,
            "chat",
            attributes=chat,
            events=[
                asked,
                event("gen_ai.assistant.message", content=call),
                event("gen_ai.tool.message", content=result),
                event("gen_ai.choice", message='[{"text": "18 degrees."}]'),
            ],
        ),
    )
    assert (made.input, made.final_response) == ("Weather?", "18 degrees.")
    assert [(call.name, call.args, call.result) for call in made.tool_calls] == [
        ("weather", {"city": "Turin"}, "18C")
    ]


def test_a_list_of_spans_with_integer_ids_is_read(tmp_path: Path) -> None:
    def listed(own: int, parent: int | None, start: int, name: str, **attributes: str) -> dict[str, Any]:
        names = {key.replace("__", "."): held for key, held in attributes.items()}
        return {
            "name": name,
            "context": {"trace_id": 0xAB, "span_id": own},
            "parent_id": parent,
            "start_time": START + start,
            "end_time": START + start + 1000,
            "attributes": {f"gen_ai.{key}": held for key, held in names.items()},
        }

    spans = [
        listed(1, None, 0, "agent", operation__name="invoke_agent", input="Weather?", output="18C"),
        listed(2, 1, 2000, "call", operation__name="execute_tool", tool__name="weather",
               tool__args='{"city": "Turin"}', output="18"),
    ]  # fmt: skip
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"spans": spans}))
    (made,) = traces("otlp", file)
    assert (made.trace_id, made.input, made.final_response) == (f"{0xAB:032x}", "Weather?", "18C")
    assert [(call.name, call.args, call.result) for call in made.tool_calls] == [
        ("weather", {"city": "Turin"}, "18")
    ]
    with collected([str(file)]) as (one_file,):
        assert detect(one_file).NAME == "otlp"


def plain(own: str, parent: str | None, start: int, name: str, **more: Any) -> dict[str, Any]:
    """A span as an exporter of one's own writes it: its fields in snake case, and attributes as they are."""
    return {
        "trace_id": "ab" * 16,
        "span_id": own * 16,
        "parent_span_id": parent * 16 if parent else None,
        "name": name,
        "start_time": START + start * 1_000_000,
        "end_time": START + (start + 1) * 1_000_000,
        "status": {"code": "OK"},
        **more,
    }


def plain_spans() -> list[dict[str, Any]]:
    """An agent whose model's messages are in an event, and the tool that it called."""
    details = {
        "gen_ai.input.messages": json.loads(said("user", "Weather in Turin?")),
        "gen_ai.output.messages": json.loads(asks("weather", {"city": "Turin"}, "c1")),
    }
    event = {"event_name": "gen_ai.client.inference.operation.details", "attributes": details}
    return [
        plain("3", "1", 4, "execute_tool weather", attributes={
            **TOOL, "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": '{"city": "Turin"}', "gen_ai.tool.call.result": "18C"}),
        plain("2", "1", 1, "chat m-1", attributes=CHAT, span_events=[event], scope={"name": SCOPE}),
        plain("1", None, 0, "agent", attributes=AGENT),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", ["lines", "list", "spans"])
def test_a_span_per_record_is_read_like_a_list_under_spans(shape: str, tmp_path: Path) -> None:
    file = tmp_path / "spans.json"
    spans = plain_spans()
    lines = "".join(json.dumps(one) + "\n" for one in spans)
    file.write_text(
        lines if shape == "lines" else json.dumps({"spans": spans} if shape == "spans" else spans)
    )
    with collected([str(file)]) as (one_file,):
        assert detect(one_file).NAME == "otlp"
    (made,) = traces("otlp", file)
    assert made.input == "Weather in Turin?"
    assert [(call.name, call.args, call.result, call.call_id) for call in made.tool_calls] == [
        ("weather", {"city": "Turin"}, "18C", "c1")
    ]


def openinference(kind: str, **attributes: str) -> dict[str, str]:
    """Attributes of OpenInference; in names `__` stands for a dot."""
    named = {key.replace("__", "."): found for key, found in attributes.items()}
    return {"openinference.span.kind": kind, **named}


def test_a_handoff_of_openai_agents_is_the_call_that_the_model_made(tmp_path: Path) -> None:
    call = "message.tool_calls.0.tool_call"
    output, later = f"llm.output_messages.0.{call}", f"llm.input_messages.1.{call}"
    first = {f"{output}.id": "c1", f"{output}.function.name": "transfer_to_refunds"}
    second = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "My money back!",
        "llm.input_messages.1.message.role": "assistant",
        f"{later}.id": "c1",
        f"{later}.function.name": "transfer_to_refunds",
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "c1",
        "llm.input_messages.2.message.content": '{"assistant": "refunds"}',
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "It is on its way.",
    }
    file = write(
        tmp_path,
        line(
            span("1", None, 0, 9, attributes=openinference("AGENT", input__value="My money back!")),
            span("2", "1", 1, 2, attributes=openinference("LLM") | first),
            span("3", "1", 3, 4, "handoff to refunds",
                 attributes=openinference("TOOL", input__value="triage", output__value="refunds")),
            span("4", "1", 5, 6, attributes=openinference("LLM") | second),
        ),
    )  # fmt: skip
    found = items("otlp", file)
    (made,) = [item for item in found if isinstance(item, Trace)]
    assert [(one.name, one.args, one.result) for one in made.tool_calls] == [
        ("transfer_to_refunds", {}, '{"assistant": "refunds"}')
    ]
    assert not [item for item in found if isinstance(item, Note)]


@pytest.mark.parametrize(
    "given",
    [
        {"args": [], "sanitize_inputs_outputs": False, "kwargs": {"query": "roses", "most": 3}},
        {"args": ["roses"], "sanitize_inputs_outputs": True, "kwargs": {"most": 3}},
        {"args": ["roses", 3], "kwargs": {}},
    ],
)
def test_arguments_of_smolagents_have_the_names_of_the_tools_parameters(
    given: dict[str, Any], tmp_path: Path
) -> None:
    tool = openinference("TOOL", tool__name="search", input__value=json.dumps(given), output__value="none")
    tool["tool.parameters"] = json.dumps({"query": {"type": "string"}, "most": {"type": "integer"}})
    made = one(tmp_path, span("1", None, 0, 9, attributes=AGENT), span("2", "1", 1, 2, attributes=tool))
    assert [(call.name, call.args) for call in made.tool_calls] == [("search", {"query": "roses", "most": 3})]
