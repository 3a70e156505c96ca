"""The tool calls of a trace from its two witnesses: what the model asked for, and what ran.

Requests are read from the outputs of model calls, in their order there (history repeats earlier requests in
the inputs). A tool's run is joined to the first open request with its call id and name, else with its name
and arguments, else with its name. A request without a run takes its result from the tool messages that later
model calls were given. A run that nobody asked for is a call too, at its start.

Where both know something, arguments are the model's and the result is the tool's. An empty object on the
run's side says nothing (some SDKs record it for everything).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from importers.fields import elapsed_ms
from importers.langfuse.observations import Observation
from replay.messages import canonical_args, decode, join_results, read_args, read_messages
from replay.model import Json, JsonObject, Message, ToolCall


@dataclass(slots=True)
class _Asked:
    """A requested call, when it was asked, and the run that answered it."""

    call: ToolCall
    at: datetime
    run: Observation | None = None


def tool_calls(
    found: Sequence[Observation], given: dict[str, tuple[Message, ...]], said: dict[str, tuple[Message, ...]]
) -> tuple[ToolCall, ...]:
    """The calls of a trace, each once.

    `given` and `said` are the messages a model call was asked with and answered, by observation id.
    """
    asked = [
        _Asked(call, one.started_at)
        for one in found
        if one.is_model_call
        for message in said.get(one.id, ())
        for call in message.tool_calls
    ]
    runs = tool_runs(found, {entry.call.name for entry in asked})
    loose = _join(asked, runs)
    results = _results_in_history(given)
    calls = [(entry.at, _answered(entry, results)) for entry in asked]
    calls.extend((run.started_at, _of_run(run, name)) for run, name in loose)
    calls.sort(key=lambda pair: pair[0])
    return tuple(replace(call, index=index) for index, (_, call) in enumerate(calls))


def tool_runs(found: Sequence[Observation], asked_for: set[str]) -> list[tuple[Observation, str]]:
    """Observations that are runs of tools, with the tool's name; older SDKs leave only its name on a span."""
    runs = []
    for one in found:
        name = one.tool_name
        if name is None and one.type == "SPAN" and one.name in asked_for and not one.is_root:
            name = one.name
        if name:
            runs.append((one, name))
    return runs


def _join(asked: list[_Asked], runs: list[tuple[Observation, str]]) -> list[tuple[Observation, str]]:
    """Give each request its run; what is left over."""
    left = list(runs)
    for rule in (_same_id, _same_args, _same_name):
        unmatched = []
        for run, name in left:
            entry = next(
                (entry for entry in asked if entry.run is None and rule(entry.call, run, name)), None
            )
            if entry is None:
                unmatched.append((run, name))
            else:
                entry.run = run
        left = unmatched
    return left


def _same_id(call: ToolCall, run: Observation, name: str) -> bool:
    return call.name == name and call.call_id is not None and call.call_id == run.call_id


def _same_args(call: ToolCall, run: Observation, name: str) -> bool:
    return call.name == name and canonical_args(call.args) == canonical_args(_args(run))


def _same_name(call: ToolCall, _run: Observation, name: str) -> bool:
    return call.name == name


def _args(run: Observation) -> JsonObject:
    """Arguments as a run recorded them, out of the wrappers that SDKs put around them."""
    args = read_args(run.input)
    if args.keys() == {"input"}:
        inner = decode(args["input"])
        return inner if isinstance(inner, dict) else args
    if args.keys() == {"args", "kwargs"} and not args["args"] and isinstance(args["kwargs"], dict):
        return args["kwargs"]
    return args


def _result(run: Observation) -> Json:
    """What a run recorded as its result: out of the quotes of one more encoding, or of a tool message."""
    output = run.output
    if output == {} or output == "{}":
        return None
    if isinstance(output, str) and output.strip().startswith('"'):
        return decode(output)
    messages = read_messages(output) or ()
    if len(messages) == 1 and messages[0].role == "tool":
        return messages[0].text if messages[0].data is None else messages[0].data
    return output


def _of_run(run: Observation, name: str) -> ToolCall:
    result = _result(run)
    return ToolCall(
        name=name,
        args=_args(run),
        call_id=run.call_id,
        result=result,
        error=run.error,
        answered=result is not None or run.error is not None or run.input is not None,
        started_at=run.started_at,
        duration_ms=elapsed_ms(run.started_at, run.ended_at),
    )


Key = tuple[str, str | None, str]


def _key(call: ToolCall) -> Key:
    return call.name, call.call_id, canonical_args(call.args)


def _results_in_history(given: dict[str, tuple[Message, ...]]) -> dict[Key, list[ToolCall]]:
    """Answered calls in what model calls were given; of all histories the one that has most of a call."""
    found: dict[Key, list[ToolCall]] = {}
    for messages in given.values():
        own: dict[Key, list[ToolCall]] = defaultdict(list)
        for call in join_results(messages):
            if call.answered:
                own[_key(call)].append(call)
        for key, calls in own.items():
            if len(calls) > len(found.get(key, ())):
                found[key] = calls
    return {key: calls[::-1] for key, calls in found.items()}


def _answered(entry: _Asked, results: dict[Key, list[ToolCall]]) -> ToolCall:
    waiting = results.get(_key(entry.call))
    told = waiting.pop() if waiting else None
    run = entry.run
    if run is None:
        if told is None:
            return entry.call
        return replace(entry.call, result=told.result, error=told.error, answered=True)
    ran = _of_run(run, entry.call.name)
    result = ran.result if ran.result is not None or told is None else told.result
    return replace(
        ran,
        args=entry.call.args or ran.args,
        call_id=entry.call.call_id or ran.call_id,
        result=result,
        error=ran.error or (told.error if told else None),
        answered=ran.answered or told is not None,
    )
