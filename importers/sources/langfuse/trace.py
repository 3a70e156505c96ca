"""One trace from its rows.

Input and final response are the roots' own, where they can be understood; else the last user message of the
first model call, and the last text of a model call that asked for no tool. What a trace says of itself (name,
user, session, release, environment, tags) is taken from its trace row, else from the roots, else from any
observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, Note, RecordError
from replaydiff.importers.call_notes import call_notes
from replaydiff.importers.joining import calls_of_turn
from replaydiff.importers.sources.langfuse.observation import (
    Observation,
    correction,
    mark_runs,
    observations,
    score_rows,
    scores,
    tool_calls,
)
from replaydiff.importers.sources.langfuse.observation import produced as answer
from replaydiff.importers.sources.langfuse.rows import TraceRows, table
from replaydiff.replay.messages import (
    canonical_args,
    conversation,
    decode,
    definitions,
    final_response,
    read_messages,
    read_text,
)
from replaydiff.replay.model import CORRECTION, Json, JsonObject, Message, Step, StepKind, Trace, total_usage

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
    """The environment of a trace; None where none was set."""
    found = next(
        (row["environment"] for row in (*group.traces, *group.observations) if row.get("environment")), None
    )
    return str(found) if found not in (None, DEFAULT_ENVIRONMENT) else None


def items(group: TraceRows, source: str) -> Iterator[Imported]:
    """The trace of these rows, and what a person should know of it.

    Raises:
        RecordError: a time or number in them cannot be read.
    """
    if not group.observations:
        yield Note(
            "no observations of the trace are there, so its tool calls are not known; export the "
            "observations, too, and import both"
        )
    found = observations(group.observations)
    made = _trace(group, source, found)
    generations = [row for row in group.observations if row.get("type") == "GENERATION"]
    contents = [value for row in generations for key, value in row.items() if key not in _ABOUT]
    tools = {one.runs for one in found if one.runs and one.tool_args is None}
    yield from call_notes(made, contents, without_arguments=tools)
    yield made


def _trace(group: TraceRows, source: str, found: Sequence[Observation]) -> Trace:
    roots = [one for one in found if one.is_root]
    own = group.traces[-1] if group.traces else {}
    holders = [own, *(one.row for one in roots), *(one.row for one in found)]
    given = {one.id: read_messages(one.input) or () for one in found if one.is_model_call}
    produced = {one.id: answer(one) for one in found if one.is_model_call}
    mark_runs(found, produced)
    started_at = _first_time(found, roots, own)
    # A tool whose parent was not exported stands at the top, too, and says nothing of the whole.
    tops = [one for one in roots if one.runs is None]
    ended_at = _ended(found, roots)
    metadata = _metadata(own, tops)
    version = _first_text(holders, "version")
    if version is not None:
        metadata.setdefault("version", version)
    corrected = correction(group, {one.id for one in roots})
    if corrected is not None:
        metadata[CORRECTION] = corrected
    if group.comments:
        metadata["comments"] = _comments(group.comments)
    if definitions.KEY not in metadata and (tools := _tools(found)):
        metadata[definitions.KEY] = tools
    question, answered = _input(own, tops, given), _final_response(own, tops, found, produced)
    messages = _conversation(own, roots, found, given, produced, question, answered)
    models = [one.model for one in found if one.is_model_call and one.model]
    costs = [one.cost for one in found if one.is_model_call and one.cost is not None]
    return Trace(
        trace_id=group.trace_id,
        source=source,
        started_at=started_at,
        ended_at=ended_at,
        incomplete=_never_ended(roots, ended_at),
        updated_at=_updated(group),
        name=_first_text([own], "name")
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
        steps=tuple(_steps(found, given)),
        tool_calls=tool_calls(found, given, produced) or calls_of_turn(messages),
        usage=total_usage(one.usage for one in found if one.is_model_call),
        cost_usd=sum(costs) if costs else fields.number(own, "totalCost"),
        latency_ms=fields.elapsed_ms(started_at, ended_at),
        error=next((one.error for one in roots if one.error), None)
        or (None if answered else _failed_call(found)),
        scores=scores(group),
        metadata=metadata,
    )


def _tools(found: Sequence[Observation]) -> list[Json]:
    """The tools that the model calls were offered."""
    places: list[Json] = []
    for one in found:
        if one.is_model_call:
            places += [one.input, one.attributes.get("gen_ai.tool.definitions")]
            places.append(list(definitions.by_name(one.row.get("toolDefinitions"))))
    return definitions.definitions(*places)


def _first_time(found: Sequence[Observation], roots: Sequence[Observation], own: JsonObject) -> datetime:
    if roots or found:
        return min(one.started_at for one in roots or found)
    at = fields.time(own, "timestamp")
    if at is None:
        raise RecordError("the trace has neither observations nor a timestamp")
    return at


def _ended(found: Sequence[Observation], roots: Sequence[Observation]) -> datetime | None:
    """Return when the last root ended; for one that never ended, the server reports its start."""
    last = max((one.ended_at for one in found if one.ended_at), default=None)
    return max(
        (
            one.ended_at
            for one in roots
            if one.ended_at and not (one.ended_at == one.started_at and last != one.ended_at)
        ),
        default=None,
    )


def _never_ended(roots: Sequence[Observation], ended_at: datetime | None) -> bool:
    """No root has ended; or none came at all, where the rows say which they are: it was never sent."""
    unmarked = any("isRootObservation" in root.row for root in roots)
    return bool(roots) and (ended_at is None or (unmarked and not any(root.marked_root for root in roots)))


def _updated(group: TraceRows) -> datetime | None:
    """When anything of the trace last changed."""
    rows = (*group.observations, *group.traces, *score_rows(group), *group.comments)
    return max((at for row in rows if (at := fields.time(row, "updatedAt"))), default=None)


def _comments(rows: Sequence[JsonObject]) -> list[Json]:
    """What people wrote about the trace, oldest first."""
    ordered = sorted(rows, key=lambda row: str(row.get("createdAt", "")))
    names = {"content": "text", "authorUserId": "author", "createdAt": "at"}
    return [{new: row[old] for old, new in names.items() if old in row} for row in ordered]


def _first_text(rows: Sequence[JsonObject], key: str) -> str | None:
    for row in rows:
        found = fields.text(row, key)
        if found is not None:
            return found
    return None


def _tags(rows: Sequence[JsonObject]) -> tuple[str, ...]:
    for row in rows:
        found = decode(row.get("tags"))
        if isinstance(found, list) and found:
            return tuple(str(tag) for tag in found)
    return ()


def _metadata(own: JsonObject, roots: Sequence[Observation]) -> JsonObject:
    found: JsonObject = {}
    for one in reversed(roots):
        found.update(one.metadata)
    noise = {"attributes", "resourceAttributes", "scope"}
    found.update({key: decode(value) for key, value in table(own, "metadata").items() if key not in noise})
    return found


def _is_empty(value: Json) -> bool:
    return value is None or value == "" or value == {} or value == [] or value == "null"


def _input(own: JsonObject, roots: Sequence[Observation], given: dict[str, tuple[Message, ...]]) -> str:
    for value in (own.get("input"), *(root.input for root in roots)):
        if _is_empty(value):
            continue
        messages = read_messages(value)
        text = conversation(messages, input_only=True).input if messages else read_text(value)
        if text:
            return text
    return next(
        (conversation(messages, input_only=True).input for messages in given.values() if messages), ""
    )


def _final_response(
    own: JsonObject,
    roots: Sequence[Observation],
    found: Sequence[Observation],
    produced: dict[str, tuple[Message, ...]],
) -> str | None:
    for value in (own.get("output"), *(root.output for root in reversed(roots))):
        if _is_empty(value):
            continue
        messages = read_messages(value)
        if messages:
            last = messages[-1]
            return last.text or None if last.role == "assistant" and not last.tool_calls else None
        text = read_text(value)
        if text is None:
            decoded = decode(value)
            text = canonical_args(decoded) if isinstance(decoded, dict) else str(value)
        return text
    calls = [one for one in found if one.is_model_call]
    own_calls = [one for one in calls if not one.in_tool] or calls
    for one in sorted(own_calls, key=lambda one: one.ended_at or one.started_at)[::-1]:
        if text := final_response(produced[one.id]):
            return text
    return None


def _failed_call(found: Sequence[Observation]) -> str | None:
    """The error of the last model call, where the agent gave no answer after it."""
    own = [one for one in found if one.is_model_call and not one.in_tool]
    return own[-1].error if own else None


def _conversation(
    own: JsonObject,
    roots: Sequence[Observation],
    found: Sequence[Observation],
    given: dict[str, tuple[Message, ...]],
    produced: dict[str, tuple[Message, ...]],
    question: str,
    answered: str | None,
) -> tuple[Message, ...]:
    """The longest message list of the trace, with what was answered to it; else input and final response."""
    calls = [one for one in found if one.is_model_call]
    own_calls = [one for one in calls if not one.in_tool] or calls
    lists = [(*given[one.id], *produced[one.id]) for one in own_calls]
    longest = max(lists, key=len, default=())
    for holder in (own, *(root.row for root in roots)):
        state = read_messages(holder.get("output")) or ()
        if not any(message.role == "user" for message in state):
            # All that a run added, where its model calls were given what is new alone.
            state = (*(read_messages(holder.get("input")) or ()), *state) if state else ()
        if len(state) >= len(longest):
            longest = state
    if any(message.role == "user" for message in longest):
        return longest
    if longest:
        return (Message(role="user", text=question), *longest) if question else longest
    texts = (("user", question), ("assistant", answered or ""))
    return tuple(Message(role=role, text=text) for role, text in texts if text)


def _steps(
    found: Sequence[Observation],
    given: dict[str, tuple[Message, ...]],
) -> Iterator[Step]:
    index_of = {one.id: index for index, one in enumerate(found)}
    for index, one in enumerate(found):
        kind = (
            StepKind.LLM
            if one.type == "GENERATION"
            else StepKind.TOOL
            if one.runs
            else StepKind.AGENT
            if one.type == "AGENT"
            else StepKind.UNCLASSIFIED
        )
        yield Step(
            index=index,
            kind=kind,
            name=one.name or one.type.lower(),
            parent=index_of.get(one.parent) if one.parent else None,
            messages=given.get(one.id, ()),
            output=decode(one.output) if kind is StepKind.LLM else one.output,
            model=one.model,
            usage=one.usage,
            started_at=one.started_at,
            ended_at=one.ended_at,
            error=one.error,
            source_span_id=one.id,
        )
