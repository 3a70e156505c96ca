"""What a traced function was given: `{"question": "…"}`, an object of its parameters.

Recorded spans of one trace → its trace, with notes for a person where contents are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from replaydiff.importers.base import Imported, Note, Skipped
from replaydiff.importers.call_notes import call_notes
from replaydiff.importers.joining import is_order_unknown
from replaydiff.importers.spans import contents, facts
from replaydiff.importers.spans.contents import RAW_REQUEST, RawSpan
from replaydiff.importers.spans.trace import SDK_SCOPE, Span, contents_of, of_spans
from replaydiff.replay.messages import canonical_args, decode, definitions, read_messages, read_text
from replaydiff.replay.model import ORDER_UNKNOWN, SCORED_BY, Json, JsonObject, Score, StepKind, Trace


def argument(value: Json) -> Json:
    """Return what was asked, where a function has a single parameter of any name; else the value unchanged.

    Of several parameters one that is called `question` or the like is found where texts are read.
    """
    if not isinstance(value, dict) or len(value) != 1:
        return value
    if read_messages(value) is not None or read_text(value) is not None:
        return value
    (only,) = value.values()
    return only if isinstance(only, str | list | dict) else value


def arguments(spans: Sequence[Span]) -> str:
    """Return all parameters of the first root as JSON, for a trace whose input is not known."""
    root = next((span for span in spans if span.parent is None), None)
    return canonical_args(root.input) if root and isinstance(root.input, dict) and root.input else ""


def span_notes(trace: Trace, spans: Sequence[Span], unknown: Iterable[Json] = ()) -> Iterator[Note]:
    """Yield what a person should know of the calls of a trace that was made of these spans.

    Args:
        trace: what was made of them.
        spans: the spans.
        unknown: what they have under keys that nothing reads.
    """
    tools = {span.name for span in spans if span.kind is StepKind.TOOL and span.input is None}
    yield from call_notes(trace, (*contents_of(spans), *unknown), without_arguments=tools)


def with_notes(
    trace: Trace | None, spans: Sequence[Span], unknown: Iterable[Json] = ()
) -> Iterator[Imported]:
    """Yield a trace of spans, with the first root's parameters where it has no input; None is skipped.

    `unknown` is what the spans have under keys that nothing reads.
    """
    if trace is None:
        yield Skipped(NO_AGENT)
        return
    yield from span_notes(trace, spans, unknown)
    yield trace if trace.input else replace(trace, input=arguments(spans))


def missing_spans(spans: Sequence[Span]) -> Iterator[Note]:
    """Yield a note where a span's parent is not among them: an export was cut, and calls may be missing."""
    if lacks_parent(spans):
        yield Note(MISSING)


def lacks_parent(spans: Sequence[Span] | Sequence[RawSpan]) -> bool:
    """Return whether a span's parent is not among them."""
    span_ids = {span.id for span in spans}
    return any(span.parent is not None and span.parent not in span_ids for span in spans)


MISSING = (
    "spans are missing (the parent of one is not in these files), so tool calls may be missing too: "
    "export all spans of a trace"
)
NO_AGENT = "traces in which no span is marked as a model call, a tool or an agent"
EVALUATIONS = "traces of evaluators, which judge answers and give none to a user"

LITELLM_ALONE = (
    "model calls of LiteLLM without a span around the agent: each is a trace of its own, with the tool calls "
    "of its history; start a span around the agent's run, or import LiteLLM's logging payloads"
)
_OF_LITELLM = ("litellm_request", RAW_REQUEST)
_DEFINITIONS = (
    "gen_ai.tool.definitions", "llm.tools", "llm.request.functions", "ai.prompt.tools",
    "llm.invocation_parameters", "input.value"
)  # fmt: skip
"""Attributes of a model call under which the offered tools stand."""
_SETTINGS = (
    (SDK_SCOPE, "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=content"),
    ("openinference.", "leaving OPENINFERENCE_HIDE_INPUTS, …_OUTPUTS and …_MESSAGES unset"),
    ("pydantic-ai", "InstrumentationSettings(include_content=True)"),
    ("logfire", "InstrumentationSettings(include_content=True)"),
    ("ai", "experimental_telemetry with recordInputs and recordOutputs"),
)
"""Beginning of an instrumentation's scope → what turns its contents on."""


def trace(
    trace_id: str,
    source: str,
    spans: Sequence[RawSpan],
    scores: dict[str, Score],
    givers: JsonObject | None = None,
) -> Iterator[Imported]:
    """Yield the trace of these spans, or why it is left out.

    Args:
        trace_id: its id.
        source: the importer.
        spans: of the trace.
        scores: that are no spans.
        givers: who gave them, by name, where that is known.

    Raises:
        RecordError: a number in them cannot be read.
    """
    span_ids = {span.id for span in spans}
    ordered = sorted(contents.with_steps(spans), key=lambda span: (span.parent in span_ids, span.started_at))
    interpreted = [understood(span) for span in ordered]
    about = facts.about(ordered)
    about.scores.update(scores)
    if givers:
        about.metadata[SCORED_BY] = givers
    spans_trace = of_spans(trace_id, source, interpreted, about)
    if spans_trace is None:
        yield Skipped(EVALUATIONS if any(span.evaluator for span in interpreted) else NO_AGENT)
        return
    if is_order_unknown(spans_trace.tool_calls):
        spans_trace = replace(spans_trace, metadata={**spans_trace.metadata, ORDER_UNKNOWN: True})
    calls = [span for span in interpreted if span.kind is StepKind.LLM]
    if not spans_trace.input and not any(span.has_content for span in interpreted):
        yield Note(f"no contents were recorded; they are turned on by {_setting(ordered)}")
    elif calls and not spans_trace.input:
        yield Note("no input was recorded: contents may be switched off where the traces are made")
    if definitions.KEY not in spans_trace.metadata and (tools := _tools(ordered)):
        spans_trace = replace(spans_trace, metadata={**spans_trace.metadata, definitions.KEY: tools})
    yield from span_notes(spans_trace, interpreted, unread(zip(ordered, interpreted, strict=True)))
    if spans_trace.tool_calls and all(span.name in _OF_LITELLM for span in ordered):
        yield Note(LITELLM_ALONE)
    yield spans_trace


def unread(spans: Iterable[tuple[RawSpan, Span]]) -> Iterator[Json]:
    """Yield attributes of model calls and agents that were not read and may have tool calls in them."""
    for raw, span in spans:
        if span.kind is StepKind.TOOL:
            continue
        for name, value in raw.attributes.items():
            is_read = value is span.input or value is span.output or name in _DEFINITIONS
            if not is_read and (isinstance(value, list | dict) or str(value).startswith(("[{", "{"))):
                yield {name: decode(value)}


def _tools(spans: Sequence[RawSpan]) -> list[Json]:
    """Return the tools that the model calls were offered."""
    places: list[Json] = []
    for span in spans:
        if facts.kind(span) is StepKind.LLM:
            places += [span.nested(name) for name in _DEFINITIONS]
    return definitions.definitions(*places)


def understood(span: RawSpan) -> Span:
    """Return the content of a recorded span."""
    kind = facts.kind(span)
    is_tool = kind is StepKind.TOOL
    return Span(
        id=span.id,
        parent=span.parent,
        kind=kind,
        name=facts.tool_name(span) if is_tool else span.name,
        started_at=span.started_at,
        ended_at=span.ended_at,
        input=contents.args(span) if is_tool else contents.input_of(span),
        output=contents.result(span) if is_tool else contents.output_of(span),
        call_id=facts.call_id(span) if is_tool else None,
        model=None if is_tool else facts.model(span),
        usage=facts.usage(span),
        cost=facts.cost(span),
        error=facts.error(span),
        evaluator=facts.is_evaluator(span),
        scope=span.scope,
    )


def _setting(spans: Sequence[RawSpan]) -> str:
    """Return the setting that turns content on, by the library that wrote the spans."""
    names = {name for span in spans for name in span.attributes}
    if any(name.startswith("gen_ai.") and name.endswith("_ref") for name in names):
        return "recording them on the spans: an upload hook has put them elsewhere"
    for span in spans:
        if facts.kind(span) is not StepKind.LLM:
            continue
        for scope, setting in _SETTINGS:
            if span.scope.startswith(scope) if scope != "ai" else span.scope == "ai":
                return setting
    if "litellm.call_id" in names:
        return "litellm.turn_off_message_logging = False"
    if any(name.startswith(("traceloop.", "llm.request.type")) for name in names):
        return "TRACELOOP_TRACE_CONTENT=true"
    if "openinference.span.kind" in names:
        return _SETTINGS[1][1]
    return (
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY with "
        "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
    )
