"""One trace from its runs and the feedback on them.

The root is the agent, whatever its type is. Its messages are the state of a whole LangGraph thread, so tool
calls are those of the model calls below it; only where the root came alone, those after the last question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, Note, Skipped
from replaydiff.importers.sources.langsmith.runs import LangsmithRun
from replaydiff.importers.spans.interpret import argument, with_notes
from replaydiff.importers.spans.trace import About, Span, of_spans
from replaydiff.replay.messages import decode, read_messages, read_text
from replaydiff.replay.model import CORRECTION, SCORED_BY, Json, JsonObject, Score, StepKind, Usage, as_object

EVALUATION = "traces of evaluations on a dataset"
"""Why a trace is left out."""
ROOT_ALONE = "the root run came alone: tool calls are those in its messages, without times"
_KINDS = {"llm": StepKind.LLM, "tool": StepKind.TOOL}
_NOISE = ("ls_", "langgraph_", "LANGSMITH_", "LANGCHAIN_", "checkpoint_", "__")
_FIELDS = {
    "thread_id", "session_id", "conversation_id", "user_id", "revision_id", "environment", "usage_metadata"
}  # fmt: skip
"""Names within metadata that are a field of a trace already."""


def trace_items(
    trace_id: str,
    runs: Sequence[LangsmithRun],
    feedback: Sequence[JsonObject],
    source: str,
    *,
    all_environments: bool,
) -> Iterator[Imported]:
    """Yield the trace, with what a person should know of it, or why it is left out.

    Raises:
        RecordError: a number in it cannot be read.
    """
    ordered = sorted(runs, key=lambda run: run.order)
    root = next((run for run in ordered if run.parent is None), ordered[0])
    if root.example_id is not None and not all_environments:
        yield Skipped(EVALUATION)
        return
    spans = [_span(run) for run in ordered]
    trace = of_spans(trace_id, source, spans, _about(root, ordered, feedback))
    if trace is not None:
        trace = replace(trace, incomplete=root.pending)
        if len(spans) == 1 and spans[0].kind is StepKind.AGENT and trace.tool_calls:
            yield Note(ROOT_ALONE)
    yield from with_notes(trace, spans, [run.unknown for run in ordered if run.unknown])


def _span(run: LangsmithRun) -> Span:
    kind = _KINDS.get(run.type, StepKind.UNCLASSIFIED)
    is_tool = kind is StepKind.TOOL
    if kind is StepKind.UNCLASSIFIED and run.parent is None:
        kind = StepKind.AGENT
    output = _output(run.outputs)
    return Span(
        id=run.id,
        parent=run.parent,
        kind=kind,
        name=run.name,
        started_at=run.started_at,
        ended_at=run.ended_at,
        input=argument(run.inputs) if kind is StepKind.AGENT else _prompt(run.inputs),
        output=output,
        call_id=_call_id(run, output) if is_tool else None,
        model=_model(run) if kind is StepKind.LLM else None,
        usage=run.usage or (_usage(run) if kind is StepKind.LLM else None),
        cost=run.cost,
        error=run.error or (_tool_error(output) if is_tool else None),
    )


def _prompt(inputs: Json) -> Json:
    """Return what a model was given; models that know no messages are given `prompts`."""
    prompts = as_object(inputs).get("prompts")
    return prompts[0] if isinstance(prompts, list) and len(prompts) == 1 else inputs


def _output(outputs: Json) -> Json:
    """Return what came out: of `{"output": …}` that a tracer puts around it, and of the text of a
    completion.
    """
    if isinstance(outputs, dict) and outputs.keys() == {"output"}:
        return outputs["output"]
    first = _generation(outputs)
    if first and "message" not in first and isinstance(first.get("text"), str):
        return first["text"]
    return outputs


def _generation(outputs: Json) -> JsonObject:
    """Return the first answer of a model call of LangChain."""
    generations = as_object(outputs).get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    return as_object(generations)


def _message(outputs: Json) -> JsonObject:
    """Return the message that a model call of LangChain answered, flat or serialised."""
    message = as_object(_generation(outputs).get("message"))
    inner = message.get("kwargs")
    return inner if isinstance(inner, dict) else message


def _call_id(run: LangsmithRun, output: Json) -> str | None:
    """Return the id of the call that a tool ran for."""
    call_id = run.extra.get("tool_call_id") or as_object(output).get("tool_call_id")
    return call_id if isinstance(call_id, str) else None


def _tool_error(output: Json) -> str | None:
    """Return a failure that LangGraph turned into a message for the model."""
    messages = read_messages(output) or ()
    failed = len(messages) == 1 and messages[0].is_error
    return (messages[0].text or "the tool failed") if failed else None


def _model(run: LangsmithRun) -> str | None:
    invocation = as_object(run.extra.get("invocation_params"))
    response = as_object(_message(run.outputs).get("response_metadata"))
    names = (
        run.metadata.get("ls_model_name"),
        invocation.get("model"),
        invocation.get("model_name"),
        response.get("model_name"),
        response.get("model"),
        as_object(run.outputs).get("model"),
        as_object(run.inputs).get("model"),
    )
    return next((name for name in names if isinstance(name, str) and name), None)


def _usage(run: LangsmithRun) -> Usage | None:
    """Return token counts from the model's response, if the server has none."""
    outputs = as_object(run.outputs)
    message = _message(run.outputs)
    candidates = (
        message.get("usage_metadata"),
        run.metadata.get("usage_metadata"),
        outputs.get("usage_metadata"),
        as_object(outputs.get("llm_output")).get("token_usage"),
        as_object(message.get("response_metadata")).get("token_usage"),
        outputs.get("usage"),
    )
    usages = (_langchain_usage(candidate) or fields.usage(candidate) for candidate in candidates)
    return next(filter(None, usages), None)


def _langchain_usage(value: Json) -> Usage | None:
    """Return LangChain's own counts, whose input includes cached tokens."""
    if not isinstance(value, dict) or not isinstance(value.get("input_token_details"), dict):
        return None
    details = as_object(value.get("input_token_details"))
    return Usage(
        input_tokens=fields.count(value, "input_tokens"),
        output_tokens=fields.count(value, "output_tokens"),
        cache_read_tokens=fields.count(details, "cache_read"),
        cache_write_tokens=fields.count(details, "cache_creation"),
    )


def _about(root: LangsmithRun, runs: Sequence[LangsmithRun], feedback: Sequence[JsonObject]) -> About:
    metadata = {
        key: value
        for key, value in root.metadata.items()
        if key not in _FIELDS and not key.startswith(_NOISE)
    }
    project = root.project_name or root.project
    if project is not None:
        metadata.setdefault("project", project)
    corrected = _correction(root, feedback)
    if corrected is not None:
        metadata[CORRECTION] = corrected
    if givers := _scored_by(feedback):
        metadata[SCORED_BY] = givers
    return About(
        name=root.name or None,
        session_id=next((run.session for run in runs if run.session), None),
        user_id=next((run.user for run in runs if run.user), None),
        environment=root.environment,
        release=next((run.release for run in runs if run.release), None),
        tags=root.tags,
        scores=_scores([*runs, root], feedback),
        metadata=metadata,
    )


def _scores(runs: Sequence[LangsmithRun], feedback: Sequence[JsonObject]) -> dict[str, Score]:
    """Return feedback by key: each value as it was given, else what the statistics of the runs say.

    Of two of one key the later one counts.
    """
    scores: dict[str, Score] = {}
    for run in runs:
        for key, statistics in run.feedback.items():
            value = _typical(statistics)
            if value is not None:
                scores[key] = value
    for row in sorted(feedback, key=_changed):
        score_value = next(
            (
                row[name]
                for name in ("score", "value")
                if isinstance(row.get(name), bool | int | float | str) and row[name] != ""
            ),
            None,
        )
        if isinstance(score_value, bool | int | float | str):
            is_plain = isinstance(score_value, bool | str)
            scores[str(row.get("key"))] = score_value if is_plain else float(score_value)
    return scores


def _scored_by(feedback: Sequence[JsonObject]) -> JsonObject:
    """Return who gave the feedback, by key, as far as it says; the later one counts."""
    givers: JsonObject = {}
    for row in sorted(feedback, key=_changed):
        giver = fields.giver(as_object(row.get("feedback_source")).get("type"))
        givers.pop(str(row.get("key")), None)
        if giver is not None:
            givers[str(row.get("key"))] = giver
    return givers


def _correction(root: LangsmithRun, feedback: Sequence[JsonObject]) -> str | None:
    """Return the answer that a person wrote in place of the trace's own; of several the latest."""
    texts = []
    for row in sorted(feedback, key=_changed):
        value = decode(row.get("correction")) if row.get("run_id") == root.id else None
        if isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        text = read_text(value)
        if text:
            texts.append(text)
    return texts[-1] if texts else None


def _changed(feedback: JsonObject) -> str:
    return str(feedback.get("modified_at") or feedback.get("created_at") or "")


def _typical(statistics: Json) -> Score | None:
    """Return the mean of numbers, else the label that was given most often."""
    average, labels = (as_object(statistics).get(key) for key in ("avg", "values"))
    if isinstance(average, int | float):
        return float(average)
    counted = {key: n for key, n in as_object(labels).items() if isinstance(n, int)}
    return max(counted, key=lambda key: counted[key], default=None)
