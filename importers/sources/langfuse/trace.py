"""One trace from its rows.

Input and final response are the roots' own, where they can be understood; else the last user message of the
first model call, and the last text of a model call that asked for no tool. What a trace says of itself (name,
user, session, release, environment, tags) is taken from its trace row, else from the roots, else from any
observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, Note, RecordError
from replaydiff.importers.call_notes import call_notes
from replaydiff.importers.joining import calls_of_turn, is_order_unknown
from replaydiff.importers.sources.langfuse.observation import (
    Observation,
    correction,
    mark_runs,
    observations,
    score_rows,
    scored_by,
    scores,
    tool_calls,
    whole_answer,
)
from replaydiff.importers.sources.langfuse.observation import produced as answer
from replaydiff.importers.sources.langfuse.rows import TYPES, TraceRows, table
from replaydiff.importers.spans.trace import is_empty
from replaydiff.replay.messages import (
    canonical_args,
    conversation,
    decode,
    definitions,
    final_response,
    read_messages,
    read_text,
)
from replaydiff.replay.model import (
    CORRECTION,
    ORDER_UNKNOWN,
    SCORE_SCALES,
    SCORED_BY,
    Json,
    JsonObject,
    Message,
    Step,
    StepKind,
    Trace,
    total_usage,
)

DEFAULT_ENVIRONMENT = "default"
"""What Langfuse writes where none was set."""
_ABOUT = frozenset(
    {
        "id", "traceId", "projectId", "parentObservationId", "type", "name", "startTime",
        "endTime", "completionStartTime", "createdAt", "updatedAt", "level", "statusMessage",
        "version", "release", "environment", "tags", "bookmarked", "public", "userId",
        "sessionId", "traceName", "isRootObservation", "metadata", "modelParameters", "usage",
        "usageDetails", "costDetails", "prompt", "toolDefinitions",
    }
)  # fmt: skip
"""Fields of an observation that hold no tool calls."""
NOT_PRODUCTION = ("sdk-experiment", "langfuse-")
"""Environments of evaluations and experiments, or how their names begin."""


def environment(group: TraceRows) -> str | None:
    """Return the environment of a trace; None where none was set."""
    name = next(
        (row["environment"] for row in (*group.traces, *group.observations) if row.get("environment")), None
    )
    return str(name) if name not in (None, DEFAULT_ENVIRONMENT) else None


def items(
    group: TraceRows, source: str, scales: Mapping[str, Sequence[float]] | None = None
) -> Iterator[Imported]:
    """Yield the trace of these rows, and what a person should know of it.

    Args:
        group: its rows.
        source: the importer.
        scales: score → lowest and highest value, as the project configures them.

    Raises:
        RecordError: a time or number in them cannot be read.
    """
    if not group.observations:
        yield Note(
            "no observations of the trace are there, so its tool calls are not known; export the "
            "observations, too, and import both"
        )
    for name in sorted({str(row.get("type", "SPAN")).upper() for row in group.observations} - TYPES):
        yield Note(f"observations of a type that is not known here ({name}) are taken as spans")
    all_observations = observations(group.observations)
    trace = _trace(group, source, all_observations)
    in_scales: JsonObject = {name: [*scale] for name, scale in (scales or {}).items() if name in trace.scores}
    if in_scales:
        trace = replace(trace, metadata={**trace.metadata, SCORE_SCALES: in_scales})
    generations = [row for row in group.observations if row.get("type") == "GENERATION"]
    contents = [value for row in generations for key, value in row.items() if key not in _ABOUT]
    tools = {
        observation.runs
        for observation in all_observations
        if observation.runs and observation.tool_args is None
    }
    yield from call_notes(trace, contents, without_arguments=tools)
    yield trace


def _trace(group: TraceRows, source: str, all_observations: Sequence[Observation]) -> Trace:
    roots = [observation for observation in all_observations if observation.is_root]
    trace_row = group.traces[-1] if group.traces else {}
    holders = [
        trace_row,
        *(observation.row for observation in roots),
        *(observation.row for observation in all_observations),
    ]
    model_calls = [observation for observation in all_observations if observation.is_model_call]
    received = {call.id: read_messages(call.input) or () for call in model_calls}
    produced = {call.id: answer(call) for call in model_calls}
    mark_runs(all_observations, produced)
    started_at = _first_time(all_observations, roots, trace_row)
    # A tool whose parent was not exported stands at the top, too, and says nothing of the whole.
    tops = [observation for observation in roots if observation.runs is None]
    ended_at = _ended(all_observations, roots)
    metadata = _metadata(trace_row, tops)
    if (version := _first_text(holders, "version")) is not None:
        metadata.setdefault("version", version)
    metadata |= _notes(group, roots)
    if definitions.KEY not in metadata:
        definitions.put(metadata, *_offered(model_calls))
    metadata |= _prompts(model_calls)
    calls = tool_calls(all_observations, received, produced)
    if is_order_unknown(calls):
        metadata[ORDER_UNKNOWN] = True
    question = _input(trace_row, tops, received)
    answered = _final_response(trace_row, tops, model_calls, produced)
    messages = _conversation(trace_row, roots, model_calls, received, produced, question, answered)
    models = [call.model for call in model_calls if call.model]
    costs = [call.cost for call in model_calls if call.cost is not None]
    return Trace(
        trace_id=group.trace_id,
        source=source,
        started_at=started_at,
        ended_at=ended_at,
        incomplete=_never_ended(roots, ended_at),
        updated_at=_updated(group),
        name=_first_text([trace_row], "name")
        or _first_text(holders, "traceName")
        or (roots[0].name if roots else None),
        session_id=_first_text(holders, "sessionId"),
        user_id=_first_text(holders, "userId"),
        environment=environment(group),
        release=_first_text(holders, "release"),
        model=models[-1] if models else None,
        tags=_tags(holders),
        input=question,
        messages=messages,
        final_response=answered,
        steps=tuple(_steps(all_observations, received)),
        tool_calls=calls or calls_of_turn(messages),
        usage=total_usage(call.usage for call in model_calls),
        cost_usd=sum(costs) if costs else fields.number(trace_row, "totalCost"),
        latency_ms=fields.elapsed_ms(started_at, ended_at),
        error=next((observation.error for observation in roots if observation.error), None)
        or (None if answered else _failed_call(model_calls)),
        scores=scores(group),
        metadata=metadata,
    )


def _notes(group: TraceRows, roots: Sequence[Observation]) -> JsonObject:
    """Return what people and judges said of a trace, beside the scores themselves."""
    notes: JsonObject = {
        CORRECTION: correction(group, {observation.id for observation in roots}),
        SCORED_BY: scored_by(group) or None,
        "comments": _comments(group.comments) or None,
    }
    return {name: value for name, value in notes.items() if value is not None}


def _prompts(model_calls: Sequence[Observation]) -> JsonObject:
    """Return the prompts of Langfuse's prompt management that the agent used: the first, and the version of
    each.
    """
    versions: JsonObject = {}
    for call in model_calls:
        name = fields.text(call.row, "promptName")
        if not call.in_tool and name is not None:
            versions.setdefault(name, fields.text(call.row, "promptVersion"))
    if not versions:
        return {}
    name, version = next(iter(versions.items()))
    first: JsonObject = {"prompt_name": name, "prompt_version": version}
    return {**first, "prompts": versions} if len(versions) > 1 else first


def _offered(model_calls: Sequence[Observation]) -> Iterator[Json]:
    """Yield where the tools stand that the model calls were offered."""
    for call in model_calls:
        yield from (call.input, call.attributes.get("gen_ai.tool.definitions"))
        yield list(definitions.by_name(call.row.get("toolDefinitions")))


def _first_time(
    all_observations: Sequence[Observation], roots: Sequence[Observation], trace_row: JsonObject
) -> datetime:
    if roots or all_observations:
        return min(observation.started_at for observation in roots or all_observations)
    at = fields.time(trace_row, "timestamp")
    if at is None:
        raise RecordError("the trace has neither observations nor a timestamp")
    return at


def _ended(all_observations: Sequence[Observation], roots: Sequence[Observation]) -> datetime | None:
    """Return when the last root ended; for one that never ended, the server reports its start."""
    last = max(
        (observation.ended_at for observation in all_observations if observation.ended_at), default=None
    )
    return max(
        (
            observation.ended_at
            for observation in roots
            if observation.ended_at
            and not (observation.ended_at == observation.started_at and last != observation.ended_at)
        ),
        default=None,
    )


def _never_ended(roots: Sequence[Observation], ended_at: datetime | None) -> bool:
    """Return whether no root has ended, or none was sent where the rows say which they are."""
    unmarked = any("isRootObservation" in root.row for root in roots)
    return bool(roots) and (ended_at is None or (unmarked and not any(root.marked_root for root in roots)))


def _updated(group: TraceRows) -> datetime | None:
    """Return when anything of the trace last changed."""
    rows = (*group.observations, *group.traces, *score_rows(group), *group.comments)
    return max((at for row in rows if (at := fields.time(row, "updatedAt"))), default=None)


def _comments(rows: Sequence[JsonObject]) -> list[Json]:
    """Return what people wrote about the trace, oldest first."""
    ordered = sorted(rows, key=lambda row: str(row.get("createdAt", "")))
    names = {"content": "text", "authorUserId": "author", "createdAt": "at"}
    return [{new: row[old] for old, new in names.items() if old in row} for row in ordered]


def _first_text(rows: Sequence[JsonObject], key: str) -> str | None:
    for row in rows:
        text = fields.text(row, key)
        if text is not None:
            return text
    return None


def _tags(rows: Sequence[JsonObject]) -> tuple[str, ...]:
    for row in rows:
        tags = decode(row.get("tags"))
        if isinstance(tags, list) and tags:
            return tuple(str(tag) for tag in tags)
    return ()


def _metadata(trace_row: JsonObject, roots: Sequence[Observation]) -> JsonObject:
    metadata: JsonObject = {}
    for root in reversed(roots):
        metadata.update(root.metadata)
    noise = {"attributes", "resourceAttributes", "scope"}
    metadata.update(
        {key: decode(value) for key, value in table(trace_row, "metadata").items() if key not in noise}
    )
    return metadata


def _input(
    trace_row: JsonObject, roots: Sequence[Observation], received: dict[str, tuple[Message, ...]]
) -> str:
    for value in (trace_row.get("input"), *(root.input for root in roots)):
        if is_empty(value):
            continue
        messages = read_messages(value)
        text = conversation(messages, input_only=True).input if messages else read_text(value)
        if text:
            return text
    return next(
        (conversation(messages, input_only=True).input for messages in received.values() if messages), ""
    )


def _final_response(
    trace_row: JsonObject,
    roots: Sequence[Observation],
    model_calls: Sequence[Observation],
    produced: dict[str, tuple[Message, ...]],
) -> str | None:
    for value in (whole_answer(trace_row.get("output")), *(root.output for root in reversed(roots))):
        if is_empty(value):
            continue
        messages = read_messages(value)
        text = read_text(value)
        if messages and not (text and not messages[-1].text and len(messages) == 1):
            last = messages[-1]
            return last.text or None if last.role == "assistant" and not last.tool_calls else None
        if text is None:
            decoded = decode(value)
            text = canonical_args(decoded) if isinstance(decoded, dict) else str(value)
        return text
    agent_calls = [call for call in model_calls if not call.in_tool] or model_calls
    for call in sorted(agent_calls, key=lambda call: call.ended_at or call.started_at)[::-1]:
        if text := final_response(produced[call.id]):
            return text
    return None


def _failed_call(model_calls: Sequence[Observation]) -> str | None:
    """Return the error of the last model call, where the agent gave no answer after it."""
    agent_calls = [call for call in model_calls if not call.in_tool]
    return agent_calls[-1].error if agent_calls else None


def _conversation(
    trace_row: JsonObject,
    roots: Sequence[Observation],
    model_calls: Sequence[Observation],
    received: dict[str, tuple[Message, ...]],
    produced: dict[str, tuple[Message, ...]],
    question: str,
    answered: str | None,
) -> tuple[Message, ...]:
    """Return the longest message list of the trace, with what was answered to it; else input and final
    response.
    """
    agent_calls = [call for call in model_calls if not call.in_tool] or model_calls
    lists = [(*received[call.id], *produced[call.id]) for call in agent_calls]
    longest = max(lists, key=len, default=())
    of_trace = trace_row.get("input"), whole_answer(trace_row.get("output"))
    for state_input, state_output in (of_trace, *((root.input, root.output) for root in roots)):
        state = read_messages(state_output) or ()
        if not any(message.role == "user" for message in state):
            # All that a run added, where its model calls were given what is new alone.
            state = (*(read_messages(state_input) or ()), *state) if state else ()
        if len(state) >= len(longest):
            longest = state
    if any(message.role == "user" for message in longest):
        return longest
    if longest:
        return (Message(role="user", text=question), *longest) if question else longest
    texts = (("user", question), ("assistant", answered or ""))
    return tuple(Message(role=role, text=text) for role, text in texts if text)


def _steps(
    all_observations: Sequence[Observation], received: dict[str, tuple[Message, ...]]
) -> Iterator[Step]:
    index_of = {observation.id: index for index, observation in enumerate(all_observations)}
    for index, observation in enumerate(all_observations):
        kind = (
            StepKind.LLM
            if observation.type == "GENERATION"
            else StepKind.TOOL
            if observation.runs
            else StepKind.AGENT
            if observation.type == "AGENT"
            else StepKind.UNCLASSIFIED
        )
        yield Step(
            index=index,
            kind=kind,
            name=observation.name or observation.type.lower(),
            parent=index_of.get(observation.parent) if observation.parent else None,
            messages=received.get(observation.id, ()),
            output=decode(observation.output) if kind is StepKind.LLM else observation.output,
            model=observation.model,
            usage=observation.usage,
            started_at=observation.started_at,
            ended_at=observation.ended_at,
            error=observation.error,
            source_span_id=observation.id,
        )
