"""Spans that others published, where they are at hand: REPLAY_TEST_FORMAT_SAMPLES=/path/to/samples.

Some are bare attributes, without ids or times: those are put into a span first.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.base import Skipped
from replaydiff.importers.collect import collected, detect
from replaydiff.replay.model import Trace, Usage
from tests.importers.reading import items, traces

FOLDER = Path(os.environ.get("REPLAY_TEST_FORMAT_SAMPLES", ""))
pytestmark = pytest.mark.skipif(
    "REPLAY_TEST_FORMAT_SAMPLES" not in os.environ, reason="REPLAY_TEST_FORMAT_SAMPLES names no folder"
)

PARIS = "The weather in Paris is currently rainy with a temperature of 57°F."


def calls(trace: Trace) -> list[tuple[Any, ...]]:
    return [(call.name, call.args, call.call_id, call.result, call.error) for call in trace.tool_calls]


def of_attributes(folder: Path, name: str) -> Trace:
    """The trace of a span that has these attributes and nothing else."""
    found = json.loads((FOLDER / name).read_text())
    span = {
        "name": found.get("name", "span"),
        "context": {"trace_id": "0x" + "ab" * 16, "span_id": "0x" + "cd" * 8},
        "kind": "SpanKind.CLIENT",
        "parent_id": None,
        "start_time": "2026-11-01T10:00:00Z",
        "end_time": "2026-11-01T10:00:01Z",
        "attributes": found.get("attributes", found),
    }
    file = folder / "span.json"
    file.write_text(json.dumps(span))
    (made,) = traces("otlp", file)
    return made


@pytest.mark.parametrize(
    "name", ["generated-util-genai-otlp.jsonl", "generated-util-genai-otlp-base64-variant.json"]
)
def test_otlp_of_util_genai(name: str) -> None:
    (trace,) = traces("otlp", FOLDER / "otel" / name)
    assert trace.trace_id == "8150a19244687264ae79198ce520854a"
    assert (trace.name, trace.model) == ("invoke_agent weather-agent", "claude-sonnet-4-6")
    assert (trace.session_id, trace.release, trace.environment) == ("conv-42", "1.2.3", "production")
    assert (trace.input, trace.final_response) == ("Weather in Paris?", "It is 18C and cloudy in Paris.")
    assert trace.usage == Usage(input_tokens=300, output_tokens=44)
    assert calls(trace) == [
        ("get_weather", {"city": "Paris"}, "toolu_1", '{"temp_c":18,"sky":"cloudy"}', None),
        ("get_forecast", {"city": "Paris"}, "toolu_2", None, "upstream timed out"),
    ]
    assert [step.kind for step in trace.steps] == ["agent", "llm", "tool", "tool", "llm"]
    assert trace.steps[1].messages[0].role == "system"
    assert trace.error is None


def test_the_example_of_the_protocol_has_no_agent_in_it() -> None:
    (found,) = items("otlp", FOLDER / "otel" / "opentelemetry-proto-example-trace.json")
    assert found == Skipped("traces in which no span is marked as a model call, a tool or an agent")


@pytest.mark.parametrize(
    "name",
    [
        "otel/otel_genai_client_span_tool_calls.json",
        "otel/otel_genai_deprecated_client_span_tool_calls.json",
        "openinference/openinference_client_span_tool_calls.json",
        "openinference/openinference_client_span_input_output_only.json",
    ],
)
def test_a_model_call_after_a_tool(name: str, tmp_path: Path) -> None:
    trace = of_attributes(tmp_path, name)
    assert (trace.input, trace.final_response) == ("Weather in Paris?", PARIS)
    assert trace.model == "gpt-4-0613"
    assert trace.usage == Usage(input_tokens=97, output_tokens=52)
    assert calls(trace) == [("get_weather", {"location": "Paris"}, "1234", "rainy, 57°F", None)]
    assert [message.role for message in trace.messages] == ["user", "assistant", "tool", "assistant"]
    assert trace.messages[1].text == "Absolutely! Let me check the weather for you."


def test_a_tools_execution(tmp_path: Path) -> None:
    trace = of_attributes(tmp_path, "otel/otel_genai_tool_execution_span.json")
    ((name, args, call_id, result, error),) = calls(trace)
    assert (name, args, call_id, error) == ("get_weather", {"city": "New York"}, "1234", None)
    assert json.loads(result)["status"] == "success"
    assert (trace.input, trace.final_response) == ("", None)


def test_messages_of_the_conventions(tmp_path: Path) -> None:
    trace = of_attributes(tmp_path, "otel/semconv-genai-tool-round-trip.messages.json")
    assert (trace.input, trace.final_response) == ("Weather in Paris?", PARIS)
    assert calls(trace) == [
        ("get_weather", {"location": "Paris"}, "call_VSPygqKTWdrhaFErNvMV18Yl", "rainy, 57°F", None)
    ]


def test_flattened_attributes_of_traceloop(tmp_path: Path) -> None:
    trace = of_attributes(tmp_path, "otel/traceloop-v0.40-flattened-attributes.synthetic.json")
    assert (trace.name, trace.user_id, trace.model) == ("weather", "u-1", "gpt-4o-2024-08-06")
    assert (trace.input, trace.final_response) == ("Weather in Paris?", "18C in Paris.")
    assert trace.usage == Usage(input_tokens=44, output_tokens=7)
    assert calls(trace) == [("get_weather", {"city": "Paris"}, "call_1", "18C", None)]


def test_spans_of_phoenix() -> None:
    (trace,) = traces("phoenix", FOLDER / "openinference" / "phoenix-get-spans-first6.json")
    assert (trace.trace_id, trace.name, trace.model) == ("fixture-trace-1", "pxi.turn", "claude-fable-5")
    assert (trace.session_id, trace.user_id) == ("fixture-session", "user@example.com")
    assert trace.input == "can you save this trace to a dataset?"
    assert trace.final_response is not None
    assert trace.final_response.startswith("Done! I created the dataset")
    assert [(name, call_id) for name, _, call_id, _, _ in calls(trace)] == [
        ("list_datasets", "call-04"),
        ("list_datasets", "call-05"),
        ("ask_user", "call-06"),
    ]
    first, second, third = trace.tool_calls
    assert (first.args, second.args) == ({}, {"after": "fixture-cursor"})
    assert "dataset_alpha" in str(first.result)
    assert "dataset_gamma" in str(second.result)
    # Cut from a longer trace: the question to the user was not answered yet.
    assert (third.answered, list(third.args)) == (False, ["questions"])
    assert trace.usage == Usage(
        input_tokens=99396, output_tokens=689, cache_read_tokens=97162, cache_write_tokens=2228
    )
    assert trace.latency_ms == 35_000


@pytest.mark.parametrize("name", ["generateText", "generateText-doGenerate"])
def test_generate_text_of_vercel(name: str) -> None:
    haiku, sum_ = traces("otlp", FOLDER / "other" / f"vercel-aisdk-v6-ai-{name}.json")
    assert haiku.name == "test-generate-text"
    assert haiku.input == "Write a haiku about programming."
    assert haiku.final_response is not None
    assert haiku.final_response.startswith("Lines of code align")
    assert haiku.usage == Usage(input_tokens=14, output_tokens=20)
    assert haiku.metadata == {"testCategory": "text-generation", "customField": "custom-value"}
    assert (sum_.input, sum_.final_response) == ("And what is 3 + 3?", "3 + 3 equals 6.")
    assert sum_.usage == Usage(input_tokens=50, output_tokens=9)
    assert [message.text for message in sum_.messages][-2:] == ["And what is 3 + 3?", "3 + 3 equals 6."]
    wanted = "gpt-4o-mini-2024-07-18" if name.endswith("doGenerate") else "gpt-4o-mini"
    assert {haiku.model, sum_.model} == {wanted}


def test_stream_text_of_vercel() -> None:
    (trace,) = traces("otlp", FOLDER / "other" / "vercel-aisdk-v6-ai-streamText.json")
    assert (trace.input, trace.name) == ("Write a short poem about TypeScript.", "test-stream-text")
    assert trace.final_response is not None
    assert trace.final_response.startswith("In code’s embrace")
    assert trace.usage == Usage(input_tokens=15, output_tokens=112)
    assert trace.latency_ms == pytest.approx(5392.741)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("otel/generated-util-genai-otlp.jsonl", "otlp"),
        ("otel/generated-util-genai-otlp-base64-variant.json", "otlp"),
        ("otel/opentelemetry-proto-example-trace.json", "otlp"),
        ("other/vercel-aisdk-v6-ai-generateText.json", "otlp"),
        ("openinference/phoenix-get-spans-first6.json", "phoenix"),
    ],
)
def test_auto_tells_them_apart(name: str, source: str) -> None:
    with collected([str(FOLDER / name)]) as (file,):
        assert source == detect(file).NAME
