"""The tool calls of a trace from its two records: what the model requested, and what ran.

Requests are read from the outputs of model calls, in their order there. A request that only the history of
a later model call has is taken from there (streams are often traced without their calls). A tool's run is
paired with an open request by, in this order:

1. the call id, of the span or of the tool message that it returned;
2. the arguments: equal; or the only argument's bare value; or equal but for arguments that were added;
3. the history: a later model call was given this result for that request;
4. the position: it is the only run of this tool left, and there is one request left;
5. the name alone, in order of time.

A request without a run takes its result from the history. A run that nobody requested is a call too, at its
start. Nothing shows the order of several with equal starts (`is_order_unknown`): they come by name and
arguments, so that equal runs have equal paths.

Where both know something, arguments are the model's and the result is the tool's, unless the pairing rests on
the name alone and the history has the result. `ToolCall.witness` keeps which rule paired them, and
`ToolCall.conflict` what contradicts it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from replaydiff.importers.fields import elapsed_ms
from replaydiff.replay.messages import RAW, canonical_args, decode, join_results, read_args, read_messages
from replaydiff.replay.messages.decode import as_json
from replaydiff.replay.model import Json, JsonObject, Message, ToolCall, Witness
from replaydiff.replay.model.light import light_dataclass

_PYTHON_CALL = {"args", "kwargs"}
_OF_SMOLAGENTS = {"sanitize_inputs_outputs"}
"""What smolagents itself gives to each tool beside its arguments."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """A tool that ran."""

    name: str
    args: JsonObject
    call_id: str | None
    result: Json
    error: str | None
    recorded: bool
    """What went in, came out or went wrong was recorded, not only that it ran."""
    started_at: datetime
    ended_at: datetime | None


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """A model call: when it was made, the messages that it was given, and those that it produced."""

    started_at: datetime
    received: Sequence[Message]
    produced: Sequence[Message]


@dataclass(slots=True)
class _Request:
    """A requested call, when it was requested, and what answered it."""

    call: ToolCall
    at: datetime
    run: ToolRun | None = None
    witness: Witness | None = None
    in_history: ToolCall | None = None
    """The call with its result, as a later model call received it."""


def joined_calls(turns: Sequence[ModelTurn], runs: Sequence[ToolRun]) -> tuple[ToolCall, ...]:
    """Return the calls of a trace, each once, in the order in which they were requested.

    Args:
        turns: the model calls of the trace, by their start.
        runs: the tools that ran, by their start.
    """
    requested = _requests(turns)
    _look_up(requested, turns)
    loose = _join(requested, runs)
    calls = [(entry.at, _answered(entry, requested)) for entry in requested]
    calls.extend((run.started_at, _of_run(run)) for run in sorted(loose, key=_run_order))
    calls.sort(key=lambda pair: pair[0])
    return tuple(replace(call, index=index) for index, (_, call) in enumerate(calls))


def _run_order(run: ToolRun) -> tuple[datetime, bool, str, str]:
    """Return the order of runs that no model call requested: what took no time came before what did."""
    took_time = run.ended_at is None or run.ended_at > run.started_at
    return run.started_at, took_time, run.name, canonical_args(run.args)


def is_order_unknown(calls: Sequence[ToolCall]) -> bool:
    """Return whether nothing shows which of some different calls came first.

    Args:
        calls: those of a trace, as `joined_calls` returns them.
    """
    return any(
        first.witness is None
        and second.witness is None
        and first.started_at is not None
        and first.started_at == second.started_at
        and (first.duration_ms == 0) == (second.duration_ms == 0)
        and _same_call(first) != _same_call(second)
        for first, second in pairwise(calls)
    )


def calls_of_turn(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls after the user's last message, with their results."""
    return join_results(messages[_turn_start(messages) :])


def tool_run(
    name: str,
    arguments: Json,
    output: Json,
    *,
    call_id: str | None,
    error: str | None,
    started_at: datetime,
    ended_at: datetime | None,
) -> ToolRun:
    """Return the run of a tool from what was recorded of it."""
    result = run_result(output)
    return ToolRun(
        name=name,
        args=run_args(arguments),
        call_id=call_id or _result_id(output),
        result=result,
        error=error,
        recorded=result is not None or error is not None or arguments is not None,
        started_at=started_at,
        ended_at=ended_at,
    )


def run_args(value: Json) -> JsonObject:
    """Return arguments as a run recorded them, out of the wrappers that SDKs put around them.

    An empty object says nothing: some SDKs record it for everything.
    """
    args = read_args(value)
    if args.keys() == {"input"}:
        inner = decode(args["input"])
        return inner if isinstance(inner, dict) else args
    if not _PYTHON_CALL <= args.keys() <= _PYTHON_CALL | _OF_SMOLAGENTS:
        return args
    return args["kwargs"] if not args["args"] and isinstance(args["kwargs"], dict) else args


def run_result(value: Json) -> Json:
    """Return what a run recorded as its result: out of the quotes of one more encoding, or of a tool
    message.
    """
    if isinstance(value, str) and value.strip().startswith('"'):
        return decode(value)
    message = _tool_message(value)
    if message is not None:
        return message.text if message.data is None else message.data
    return value


def _tool_message(value: Json) -> Message | None:
    messages = read_messages(value) or ()
    return messages[0] if len(messages) == 1 and messages[0].role == "tool" else None


def _result_id(value: Json) -> str | None:
    message = _tool_message(value)
    return message.tool_call_id if message is not None else None


def _requests(turns: Sequence[ModelTurn]) -> list[_Request]:
    """Return the requested calls, including those that are only in the history of a later model call."""
    produced = [call for turn in turns for message in turn.produced for call in message.tool_calls]
    produced_ids = {(call.name, call.call_id) for call in produced if call.call_id}
    produced_counts = Counter(_same_call(call) for call in produced)
    requests: list[_Request] = []
    for number, turn in enumerate(turns):
        missing: Counter[tuple[str, str]] = Counter()
        for call in _of_this_turn(turn.received):
            key = _same_call(call)
            missing[key] += 1
            if (call.name, call.call_id) in produced_ids or missing[key] <= produced_counts[key]:
                continue
            produced_counts[key] += 1
            if call.call_id:
                produced_ids.add((call.name, call.call_id))
            requests.append(_Request(call, turns[max(number - 1, 0)].started_at))
    # What a history alone has was requested before what the same model call requested itself.
    requests += [
        _Request(call, turn.started_at)
        for turn in turns
        for message in turn.produced
        for call in message.tool_calls
    ]
    return sorted(requests, key=lambda entry: entry.at)


def _of_this_turn(received: Sequence[Message]) -> Iterator[ToolCall]:
    """Yield the calls after the user's last message; those before it are of earlier runs."""
    for message in received[_turn_start(received) :]:
        yield from message.tool_calls


def _turn_start(messages: Sequence[Message]) -> int:
    return max((at for at, message in enumerate(messages, start=1) if message.role == "user"), default=0)


def _same_call(call: ToolCall) -> tuple[str, str]:
    return call.name, canonical_args(call.args)


Key = tuple[str, str | None, str]


def _key(call: ToolCall) -> Key:
    return call.name, call.call_id, canonical_args(call.args)


def _look_up(requested: Sequence[_Request], turns: Sequence[ModelTurn]) -> None:
    """Give each request its result in the histories; of all histories the one that has most of a call."""
    calls_by_key: dict[Key, list[ToolCall]] = {}
    for turn in turns:
        turn_calls: dict[Key, list[ToolCall]] = defaultdict(list)
        # What a model call produced has results of the tools that ran at the provider.
        for call in join_results((*turn.received, *turn.produced)):
            if call.answered:
                turn_calls[_key(call)].append(call)
        for key, calls in turn_calls.items():
            if len(calls) > len(calls_by_key.get(key, ())):
                calls_by_key[key] = calls
    waiting = {key: iter(calls) for key, calls in calls_by_key.items()}
    for entry in requested:
        entry.in_history = next(waiting.get(_key(entry.call), iter(())), None)


Rule = Callable[[_Request, ToolRun], bool]


def _join(requested: Sequence[_Request], runs: Sequence[ToolRun]) -> list[ToolRun]:
    """Give each request its run; return what is left over."""
    open_by_name: dict[str, list[_Request]] = defaultdict(list)
    for entry in requested:
        open_by_name[entry.call.name].append(entry)
    left = list(runs)
    for rule, witness in _RULES:
        left = [run for run in left if not _takes(open_by_name[run.name], run, rule, witness)]
    counts = Counter(run.name for run in left)
    alone = {
        name
        for name, count in counts.items()
        if count == 1 and sum(entry.run is None for entry in open_by_name[name]) == 1
    }
    return [
        run
        for run in left
        if not _takes(
            open_by_name[run.name],
            run,
            lambda _entry, _run: True,
            Witness.POSITION if run.name in alone else Witness.NAME,
        )
    ]


def _takes(requested: Sequence[_Request], run: ToolRun, rule: Rule, witness: Witness) -> bool:
    """Pair a run with the first open request that fits; of equal ones, with that whose result is the same."""
    fitting = [entry for entry in requested if entry.run is None and rule(entry, run)]
    if not fitting:
        return False
    entry = next((entry for entry in fitting if _same_result(entry, run)), fitting[0])
    entry.run, entry.witness = run, witness
    return True


def _same_args(entry: _Request, run: ToolRun) -> bool:
    return canonical_args(entry.call.args) == canonical_args(run.args)


def _bare_value(entry: _Request, run: ToolRun) -> bool:
    """Return whether the run recorded the value of its only argument, and not its name."""
    bare = run.args.get(RAW, run.args.get("input")) if len(run.args) == 1 else None
    values = list(entry.call.args.values())
    return bare is not None and len(values) == 1 and (values[0] == bare or str(values[0]) == bare)


def _more_args(entry: _Request, run: ToolRun) -> bool:
    """Return whether the run has the requested arguments, and others that the agent added."""
    args = entry.call.args
    if not args or not args.keys() < run.args.keys():
        return False
    return canonical_args(args) == canonical_args({name: run.args[name] for name in args})


def _same_result(entry: _Request, run: ToolRun) -> bool:
    recorded = entry.in_history
    return recorded is not None and run.result is not None and _plain(recorded.result) == _plain(run.result)


_RULES: tuple[tuple[Rule, Witness], ...] = (
    (lambda entry, run: entry.call.call_id is not None and entry.call.call_id == run.call_id, Witness.ID),
    (_same_args, Witness.ARGUMENTS),
    (_bare_value, Witness.ARGUMENTS),
    (_more_args, Witness.ARGUMENTS),
    (_same_result, Witness.HISTORY),
)


def _plain(value: Json) -> str:
    """Return a result as text that is equal for equal results, whether they were recorded as text or as
    data.
    """
    value = decode(value)
    return " ".join(value.split()) if isinstance(value, str) else as_json(value)


def _of_run(run: ToolRun) -> ToolCall:
    return ToolCall(
        name=run.name,
        args=run.args,
        call_id=run.call_id,
        result=run.result,
        error=run.error,
        answered=run.recorded,
        started_at=run.started_at,
        duration_ms=elapsed_ms(run.started_at, run.ended_at),
    )


def _answered(entry: _Request, requested: Iterable[_Request]) -> ToolCall:
    run, recorded = entry.run, entry.in_history
    if run is None:
        return entry.call if recorded is None else _from_history(entry.call, recorded)
    ran = _of_run(run)
    if recorded is None or (recorded.result is None and recorded.error is None):
        return replace(
            ran,
            args=entry.call.args or ran.args,
            call_id=entry.call.call_id or ran.call_id,
            witness=entry.witness,
            conflict=_changed_args(entry, run),
        )
    weak = entry.witness in (Witness.NAME, Witness.POSITION) and recorded.witness is Witness.ID
    swapped = recorded.witness is Witness.ID and _is_swapped(entry, run, requested)
    is_wrong_run = swapped or (weak and not _same_result(entry, run))
    by_history = is_wrong_run or run.result in (None, {}, "{}")
    return replace(
        ran,
        args=entry.call.args or ran.args,
        call_id=entry.call.call_id or ran.call_id,
        result=recorded.result if by_history else ran.result,
        error=recorded.error if is_wrong_run else ran.error or recorded.error,
        answered=True,
        witness=Witness.HISTORY if by_history or weak else entry.witness,
        conflict=_SWAPPED if swapped else _disagreement(entry, run),
    )


_SWAPPED = "the tool's span has the result that the conversation has for another call of this tool"


def _from_history(call: ToolCall, recorded: ToolCall) -> ToolCall:
    witness = recorded.witness if recorded.witness in (Witness.NAME, Witness.POSITION) else Witness.HISTORY
    return replace(call, result=recorded.result, error=recorded.error, answered=True, witness=witness)


def _is_swapped(entry: _Request, run: ToolRun, requested: Iterable[_Request]) -> bool:
    """Return whether the run has another call's result by the history, and not its own."""
    if run.result is None or run.error is not None or _same_result(entry, run):
        return False
    return any(
        request is not entry and request.call.name == entry.call.name and _same_result(request, run)
        for request in requested
    )


def _changed_args(entry: _Request, run: ToolRun) -> str | None:
    """Return a note if the tool ran with other arguments than were requested, where both are known."""
    if not run.args or not entry.call.args or entry.witness is Witness.ARGUMENTS:
        return None
    if any(rule(entry, run) for rule in (_same_args, _bare_value, _more_args)):
        return None
    return "the tool's span has other arguments than the model requested"


def _disagreement(entry: _Request, run: ToolRun) -> str | None:
    """Return what the span and the conversation say differently of one call."""
    recorded = entry.in_history
    if recorded is None or run.error is not None or recorded.error is not None or run.result is None:
        return _changed_args(entry, run)
    span, shown = decode(run.result), decode(recorded.result)
    # One that is text may be a rendering of the other; two structures are not.
    if isinstance(span, dict) and isinstance(shown, dict) and span and _plain(span) != _plain(shown):
        return "the tool's span and the conversation have different results"
    return _changed_args(entry, run)
