"""tau2-bench result files: `{timestamp, info, tasks, simulations}`, each simulation one trace.

Messages are OpenAI's in roles, with `tool_calls: [{id, name, arguments, requestor}]` and results as tool
messages with the call's id. In domains where the simulated user has tools of its own (telecom), calls and
results with `requestor: "user"` are the user's: they are no calls of the agent, and are counted in a note. In
solo mode there is no user: the task's ticket is the input. The rewards are scores, and why the simulation
ended is metadata. The tasks of the file become cases with `replay cases convert FILE --from tau2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.call_notes import ORPHANS, UNKNOWN_CALLS, has_unread_calls, orphan_results
from replaydiff.importers.convert import converted, refused
from replaydiff.importers.reading import Record
from replaydiff.replay.messages import conversation, definitions, read_messages
from replaydiff.replay.model import Json, JsonObject, Score, Trace, objects_in, total_usage

NAME = "tau2"
RECOGNISED_BY = "records have info, tasks and simulations"

_KEYS = {"info", "tasks", "simulations"}
_FAILURES = {
    "too_many_errors", "agent_error", "invalid_agent_message", "infrastructure_error", "unexpected_error",
    "timeout"
}  # fmt: skip
"""Reasons for the end of a simulation that are no end of the conversation."""
_METADATA = ("task_id", "trial", "seed", "termination_reason", "mode", "user_cost")
USERS_CALLS = (
    "tool calls of the simulated user, which are no calls of the agent, were left out of the trace's calls"
)


def recognises(record: Json) -> float:
    """Recognise a record by the lists that only such a file has together."""
    return 0.98 if isinstance(record, dict) and record.keys() >= _KEYS else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Read one trace for each simulation."""
    return converted(NAME, files, _traces)


def _traces(record: Json, file: InputFile) -> Iterator[Imported]:
    record = fields.object_of(record, "a result file")
    if not isinstance(record.get("simulations"), list):
        raise RecordError("there are no simulations in it: looked for info, tasks and simulations")
    info = fields.mapping(record, "info")
    tickets = {
        str(task["id"]): ticket
        for task in fields.sequence(record, "tasks")
        if isinstance(task, dict) and "id" in task and isinstance(ticket := task.get("ticket"), str)
    }
    if not record["simulations"]:
        yield Skipped("result files without simulations")
    for number, simulation in enumerate(fields.sequence(record, "simulations"), start=1):
        try:
            simulation = fields.object_of(simulation, "a simulation")
            trace, of_user = _trace(simulation, info, tickets)
        except RecordError as error:
            yield refused(NAME, file, Record(number, simulation), str(error))
            continue
        if of_user:
            yield Note(USERS_CALLS)
        listed = _flat(fields.sequence(simulation, "messages"))
        requested = sum(map(len, map(_listed_calls, listed)))
        replies: list[Json] = [message for message in listed if message.get("role") == "assistant"]
        if requested - of_user > len(trace.tool_calls) or has_unread_calls(replies, trace):
            yield Note(UNKNOWN_CALLS)
        if orphan_results(trace.messages, trace.tool_calls):
            yield Note(ORPHANS)
        yield trace


def _trace(simulation: JsonObject, info: JsonObject, tickets: Mapping[str, str]) -> tuple[Trace, int]:
    """Return the trace of a simulation, and how many calls the simulated user made.

    Args:
        simulation: the record of it.
        info: what the file says of agent and domain.
        tickets: id of a task → what an agent without a user was asked.
    """
    trace_id = fields.text(simulation, "id")
    started_at = fields.time(simulation, "start_time", "timestamp")
    if trace_id is None or started_at is None:
        raise RecordError(f"the simulation has no {'id' if trace_id is None else 'start_time'}")
    listed = _flat(fields.sequence(simulation, "messages"))
    parts = [part for message in listed if (part := _agents_part(message))]
    ticket = tickets.get(str(simulation.get("task_id")))
    if ticket is not None and not any(part["role"] == "user" for part in parts):
        after = next(
            (position for position, part in enumerate(parts) if part["role"] != "system"), len(parts)
        )
        parts.insert(after, {"role": "user", "content": ticket})
    messages = read_messages([*parts]) or ()
    if not messages:
        raise RecordError("the simulation has no messages")
    run = conversation(messages)
    environment, agent = fields.mapping(info, "environment_info"), fields.mapping(info, "agent_info")
    domain = fields.text(environment, "domain_name")
    task = fields.text(simulation, "task_id")
    duration = fields.number(simulation, "duration")
    ended = fields.text(simulation, "termination_reason")
    metadata: JsonObject = {
        **fields.mapping(simulation, "metadata"),
        **{key: simulation[key] for key in _METADATA if simulation.get(key) not in (None, "")},
    }
    if domain:
        metadata["domain"] = domain
    definitions.put(metadata, {"tools": environment.get("tool_defs")})
    trace = Trace(
        trace_id=trace_id,
        source=NAME,
        started_at=started_at,
        ended_at=fields.time(simulation, "end_time"),
        name=f"tau2-{domain}" if domain else "tau2",
        session_id=f"{domain}-{task}" if domain and task else task,
        model=fields.text(agent, "llm"),
        input=run.input,
        messages=messages,
        final_response=run.final_response,
        tool_calls=run.tool_calls,
        usage=total_usage(
            fields.usage(message.get("usage")) for message in listed if message.get("role") == "assistant"
        ),
        cost_usd=fields.number(simulation, "agent_cost"),
        latency_ms=None if duration is None else duration * 1000,
        error=f"the simulation ended with {ended}" if ended in _FAILURES else None,
        scores=_scores(fields.mapping(simulation, "reward_info")),
        metadata=metadata,
    )
    return trace, sum(
        call.get("requestor") == "user" for message in listed for call in _listed_calls(message)
    )


def _flat(listed: Sequence[Json]) -> list[JsonObject]:
    """Return the messages; one may contain several tool results."""
    messages: list[JsonObject] = []
    for message in listed:
        message = fields.object_of(message, "a message")
        inner = message.get("tool_messages")
        messages += (
            [inner_message for inner_message in inner if isinstance(inner_message, dict)]
            if isinstance(inner, list)
            else [message]
        )
    return messages


def _agents_part(message: JsonObject) -> JsonObject | None:
    """Return the message as the agent saw or wrote it; None for results of the user's own tools."""
    role = message.get("role")
    if role == "tool":
        if message.get("requestor") == "user":
            return None
        return {
            "role": "tool",
            "tool_call_id": message.get("id"),
            "content": message.get("content"),
            "is_error": message.get("error") is True,
        }
    calls = [call for call in _listed_calls(message) if call.get("requestor") != "user"]
    if not message.get("content") and not calls:
        return None
    part: JsonObject = {"role": role, "content": message.get("content")}
    return {**part, "tool_calls": list(calls)} if calls else part


def _listed_calls(message: JsonObject) -> list[JsonObject]:
    return objects_in(message.get("tool_calls"))


def _scores(reward: JsonObject) -> dict[str, Score]:
    """Return the reward, and its parts (`reward_db`)."""
    scores: dict[str, Score] = {}
    total = fields.number(reward, "reward")
    if total is not None:
        scores["reward"] = total
    parts = reward.get("reward_breakdown")
    for name in parts if isinstance(parts, dict) else ():
        part = fields.number(fields.mapping(reward, "reward_breakdown"), name)
        if part is not None:
            scores[f"reward_{name.lower()}"] = part
    return scores
