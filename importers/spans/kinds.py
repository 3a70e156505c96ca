"""What a span is: a model call, the run of a tool, an agent, or something else."""

from __future__ import annotations

import re

from replaydiff.importers.spans.raw import RawSpan
from replaydiff.replay.messages import decode
from replaydiff.replay.model import StepKind

EVALUATOR = "EVALUATOR"
_WORDS = {
    StepKind.LLM: {
        "chat",
        "generate_content",
        "text_completion",
        "completion",
        "llm",
        "generation",
        "chat_model",
        "call_llm",
    },
    StepKind.TOOL: {"execute_tool", "tool"},
    StepKind.AGENT: {"invoke_agent", "invoke_workflow", "create_agent", "agent", "workflow"},
}
"""Words of the GenAI conventions, OpenInference, Traceloop, Langfuse, MLflow and Braintrust."""
_NAMED = (
    "openinference.span.kind",
    "langfuse.observation.type",
    "gen_ai.operation.name",
    "traceloop.span.kind",
    "llm.request.type",
    "mlflow.spanType",
)
_VERCEL_CALL = re.compile(r"ai\.\w+\.do(Generate|Stream)")
_VERCEL_WRAPPER = re.compile(r"ai\.(generate|stream)(Text|Object)")
_ONLY_OF_MODELS = (
    "gen_ai.request.model",
    "gen_ai.response.model",
    "llm.model_name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
)
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_TOOL_PREFIX = re.compile(r"^(execute_tool |running tool:? |tools/call |tool\.)")
_CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id", "tool.id", "tool_call_id")


def kind(span: RawSpan) -> StepKind:
    """What the instrumentor calls it, else what its attributes make of it."""
    vercel = span.attributes.get("ai.operationId")
    if isinstance(vercel, str):
        if vercel == "ai.toolCall":
            return StepKind.TOOL
        if _VERCEL_CALL.match(vercel) or _VERCEL_WRAPPER.match(vercel):
            return StepKind.LLM
        return StepKind.OTHER
    for name in _NAMED:
        word = span.attributes.get(name)
        if isinstance(word, str) and word:
            return _of_word(word)
    braintrust = _braintrust_type(span)
    if braintrust:
        return _of_word(braintrust)
    if span.first("gen_ai.tool.name", "tool_arguments") is not None or _TOOL_PREFIX.match(span.name):
        return StepKind.TOOL
    if span.first(*_ONLY_OF_MODELS) is not None:
        # Older Pydantic AI names a model on its agents too; those have the whole conversation, or a result.
        whole = span.first("pydantic_ai.all_messages", "all_messages_events", "final_result", "agent_name")
        return StepKind.LLM if whole is None else StepKind.AGENT
    if span.first("gen_ai.agent.name", "agent_name", "agent.name") is not None:
        return StepKind.AGENT
    return StepKind.OTHER


def _of_word(word: str) -> StepKind:
    return next((kind for kind, words in _WORDS.items() if word.lower() in words), StepKind.OTHER)


def is_evaluator(span: RawSpan) -> bool:
    """Whether it judges an answer: no part of the agent."""
    kind = str(span.attributes.get("openinference.span.kind", "")).upper()
    return kind == EVALUATOR or _braintrust_type(span) == "score"


def _braintrust_type(span: RawSpan) -> str:
    found = decode(span.attributes.get("braintrust.span_attributes"))
    return str(found.get("type") or "") if isinstance(found, dict) else ""


def tool_name(span: RawSpan) -> str:
    """The name of the tool that a tool span ran."""
    named = span.first(*_TOOL_NAMES)
    return named if isinstance(named, str) else _TOOL_PREFIX.sub("", span.name)


def call_id(span: RawSpan) -> str | None:
    """The id of the call that a tool span ran for."""
    found = span.first(*_CALL_IDS)
    return str(found) if isinstance(found, str | int) else None
