"""Agent trajectories in ATIF (Agent Trajectory Interchange Format, 1.0 to 1.8), as Harbor writes them.

One trajectory is one trace: all its turns, as with a chat log. Steps of sub-agents (`extra.is_sidechain`, and
`subagent_trajectories`) are no part of it. Steps that a continued trajectory copied from the one before it
(`is_copied_context`) stay as its history; their calls are calls of the earlier one.

With the whole folder of a Harbor job, the rewards in each trial's `result.json` are its trajectory's scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import PurePath

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.call_notes import ORPHANS, UNKNOWN_CALLS, has_unread_calls, orphan_results
from replaydiff.importers.convert import converted
from replaydiff.importers.reading import Record, records
from replaydiff.replay.messages import conversation, definitions, read_messages
from replaydiff.replay.model import Json, JsonObject, Score, Trace, Usage, as_object, total_usage

NAME = "atif"
RECOGNISED_BY = "records have schema_version ATIF-v1.x and steps"

_RESULT = "result.json"
_HARBOR_FILES = {_RESULT, "config.json", "reward.json", "lock.json"}
"""Files of a Harbor job that are no trajectories."""
_FAILED = ("is_error", "tool_result_is_error")
_NO_CALL = "step "
"""Beginning of the ids of results that answer no call."""
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}
SUB_AGENTS = "steps of sub-agents were left out: their result is that of the call that started them"
COPIED = "steps copied from an earlier trajectory are history, and their calls not calls of the trace"
Rewards = Mapping[str, JsonObject]
"""Folder of a trial → its result."""


def recognises(record: Json) -> float:
    """Recognise a record by the version of the schema."""
    if not isinstance(record, dict):
        return 0.0
    if str(record.get("schema_version", "")).startswith("ATIF-"):
        return 0.98
    return 0.9 if _is_result(record) else 0.0


def _is_result(record: JsonObject) -> bool:
    return record.keys() >= {"trial_name", "task_name", "agent_info"}


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Read one trace for each trajectory."""
    results = {
        str(PurePath(file.name).parent): record.value
        for file in files
        if PurePath(file.name).name == _RESULT
        for record in records(file)
        if isinstance(record, Record) and isinstance(record.value, dict)
    }
    return converted(NAME, files, partial(_read, results))


def _trial(file: InputFile) -> str:
    return str(PurePath(file.name).parent.parent)


def _read(rewards: Rewards, record: Json, file: InputFile) -> Iterator[Imported]:
    record = fields.object_of(record, "a trajectory")
    listed = record.get("steps")
    if not isinstance(listed, list):
        if PurePath(file.name).name in _HARBOR_FILES or _is_result(record):
            yield Skipped("results and settings of Harbor, which are no trajectories")
            return
        raise RecordError("there are no steps in it: looked for schema_version ATIF-v1.x and steps")
    steps = [_step(listed_step, number) for number, listed_step in enumerate(listed, start=1)]
    main_steps = [step for step in steps if fields.mapping(step, "extra").get("is_sidechain") is not True]
    if len(main_steps) < len(steps) or fields.sequence(record, "subagent_trajectories"):
        yield Note(SUB_AGENTS)
    new = [step for step in main_steps if step.get("is_copied_context") is not True]
    if len(new) < len(main_steps):
        yield Note(COPIED)
    # The agent lies in the trial's folder: TRIAL/agent/trajectory.json.
    trial = rewards.get(_trial(file), {})
    started_at = fields.time(next((step for step in new if step.get("timestamp")), {}), "timestamp")
    if started_at is None:
        yield Note("no time in the trajectory: the file's modification time was taken")
        started_at = file.modified_at
    trace = _trace(record, main_steps, new, trial, started_at)
    if len(new) == len(main_steps) and orphan_results(
        (message for message in trace.messages if not (message.tool_call_id or "").startswith(_NO_CALL)),
        trace.tool_calls,
    ):
        yield Note(ORPHANS)
    if has_unread_calls(main_steps, trace):
        yield Note(UNKNOWN_CALLS)
    yield trace


def _step(step: Json, number: int) -> JsonObject:
    step = fields.object_of(step, f"steps[{number - 1}]")
    if str(step.get("source")) not in _ROLES:
        raise RecordError(f"steps[{number - 1}].source must be system, user or agent")
    return step


def _trace(
    record: JsonObject,
    main_steps: Sequence[JsonObject],
    new: Sequence[JsonObject],
    trial: JsonObject,
    started_at: datetime,
) -> Trace:
    agent = fields.mapping(record, "agent")
    messages = read_messages([message for step in main_steps for message in _messages(step)]) or ()
    run = conversation(messages)
    calls = run.tool_calls
    if len(new) < len(main_steps):
        calls = conversation(
            read_messages([message for step in new for message in _messages(step)]) or ()
        ).tool_calls
    times = [time for step in new if (time := fields.time(step, "timestamp")) is not None]
    ended_at = max(times, default=None)
    models = [name for step in new if (name := fields.text(step, "model_name"))]
    usage, cost = _totals(record, new)
    return Trace(
        trace_id=_trace_id(record, main_steps, new),
        source=NAME,
        started_at=started_at,
        ended_at=ended_at,
        name=fields.text(agent, "name"),
        session_id=fields.text(record, "session_id"),
        release=fields.text(agent, "version"),
        model=models[-1] if models else fields.text(agent, "model_name"),
        input=run.input,
        messages=messages,
        final_response=run.final_response,
        tool_calls=calls,
        usage=usage,
        cost_usd=cost,
        latency_ms=fields.elapsed_ms(started_at, ended_at),
        error=_error(trial),
        scores=_scores(trial),
        metadata=_metadata(record, agent, trial),
    )


def _trace_id(record: JsonObject, main_steps: Sequence[JsonObject], new: Sequence[JsonObject]) -> str:
    """Return the trajectory's id. A run may have several trajectories; a later one copies the steps
    before.
    """
    recorded_id = fields.text(record, "trajectory_id")
    if recorded_id is not None:
        return recorded_id
    session = fields.text(record, "session_id")
    if session is None:
        raise RecordError("the trajectory has no session_id and no trajectory_id")
    copied = len(main_steps) - len(new)
    return f"{session}:{copied + 1}" if copied else session


def _messages(step: JsonObject) -> Iterator[JsonObject]:
    """Yield the message of a step, its tool calls, and their results."""
    calls = [_call(call) for call in fields.sequence(step, "tool_calls")]
    if step.get("message") not in (None, "", []) or calls:
        yield {"role": _ROLES[str(step["source"])], "content": step.get("message"), "tool_calls": list(calls)}
    for number, result in enumerate(fields.sequence(fields.mapping(step, "observation"), "results")):
        result = fields.object_of(result, "a result")
        # Without calls the environment answers nobody: the id keeps it from answering an earlier call.
        call_id = result.get("source_call_id") or (
            None if calls else f"{_NO_CALL}{step.get('step_id')} {number}"
        )
        if result.get("content") is not None or not result.get("subagent_trajectory_ref"):
            yield {
                "role": "tool",
                "tool_call_id": call_id,
                "content": result.get("content"),
                "is_error": _failed(fields.mapping(result, "extra")),
            }


def _call(call: Json) -> JsonObject:
    call = fields.object_of(call, "a tool call")
    name = fields.text(call, "function_name")
    if name is None:
        raise RecordError("a tool call has no function_name")
    return {"name": name, "args": call.get("arguments"), "id": call.get("tool_call_id")}


def _failed(extra: JsonObject) -> bool:
    """Return whether a result is an error, as the converters of Harbor mark it."""
    inner = as_object(extra.get("tool_result_metadata"))
    return any(
        holder.get(key) is True for holder in (extra, inner) for key in ("is_error", "tool_result_is_error")
    )


def _totals(record: JsonObject, new: Sequence[JsonObject]) -> tuple[Usage | None, float | None]:
    """Return tokens and cost of the trajectory, else of its steps."""
    whole = fields.mapping(record, "final_metrics")
    listed = [fields.mapping(step, "metrics") for step in new]
    usage = fields.tokens(
        whole, ("total_prompt_tokens",), ("total_completion_tokens",), ("total_cached_tokens",)
    )
    costs = [cost for metrics in listed if (cost := fields.number(metrics, "cost_usd")) is not None]
    cost = fields.number(whole, "total_cost_usd")
    return (
        usage or total_usage(map(fields.usage, listed)),
        cost if cost is not None else sum(costs) if costs else None,
    )


def _error(trial: JsonObject) -> str | None:
    failed = fields.mapping(trial, "exception_info")
    return fields.text(failed, "exception_message") or fields.text(failed, "exception_type")


def _scores(trial: JsonObject) -> dict[str, Score]:
    return fields.scores({"scores": fields.mapping(trial, "verifier_result").get("rewards")})


def _metadata(record: JsonObject, agent: JsonObject, trial: JsonObject) -> JsonObject:
    """Return what the trajectory and its trial say of themselves; runs are paired by `task_id`."""
    metadata: JsonObject = {**fields.mapping(record, "extra")}
    for name, value in (
        ("notes", record.get("notes")),
        ("continued_in", record.get("continued_trajectory_ref")),
        ("task_id", trial.get("task_name")),
        ("trial_name", trial.get("trial_name")),
    ):
        if value not in (None, ""):
            metadata[name] = value
    definitions.put(metadata, agent.get("tool_definitions"))
    return metadata
