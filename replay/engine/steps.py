"""Step mode: each recorded decision of the model is an item of its own.

*Decision*: what the model did next, given all that it was given: it asked for tools, or it answered. Read
from the trace's `llm` steps where they hold what the model was given; else from the conversation, where every
turn of the assistant is a decision and everything before it was given.

An item `TRACE#3` is the third decision of a trace: its messages are frozen, what was recorded is what it is
compared with, and a version is asked for the next action alone. So it cannot leave the tape, and it needs no
agent code. The decisions of a trace are no independent observations: they are one cluster (`session_id`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from replaydiff.replay.engine.items import SampleSource, Source, item_of_trace
from replaydiff.replay.errors import InputError
from replaydiff.replay.messages import canonical_args, read_messages
from replaydiff.replay.model import (
    Item,
    Lane,
    Message,
    RunRecord,
    Step,
    StepKind,
    ToolCall,
    Trace,
    Trial,
    Usage,
)
from replaydiff.replay.store.conversations import iter_conversations
from replaydiff.replay.store.item_trials import iter_trials
from replaydiff.replay.turns import action, most_done

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MARK = "#"
"""Between a trace's id and the number of a decision, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """What the model was given, and what it did."""

    messages: tuple[Message, ...]
    calls: tuple[ToolCall, ...]
    """The tools it asked for, with what they answered as far as that was recorded."""
    text: str | None
    model: str | None = None
    usage: Usage | None = None


def decisions(trace: Trace) -> list[RecordedDecision]:
    """Return the recorded decisions of a trace, in order."""
    of_steps = [
        decision
        for step in trace.steps
        if step.kind is StepKind.LLM and step.messages and (decision := _of_step(step, trace)) is not None
    ]
    return of_steps or list(_of_conversation(trace))


class StepSource(Source):
    """The decisions of a sample's traces: of each item its trace, and its number in it from 1."""

    _entries: dict[str, tuple[str, int]]

    def __init__(self, con: DuckDBPyConnection, sample: SampleSource) -> None:
        """Find the decisions; `con` may be read-only.

        Raises:
            InputError: no trace holds one.
        """
        self._inner = sample
        self.sample = sample.sample
        counts = {
            trace.trace_id: len(decisions(trace))
            for trace in iter_conversations(con, map(sample.conversation, sample.ids()))
        }
        self._entries = {
            f"{trace_id}{MARK}{number}": (trace_id, number)
            for trace_id, count in counts.items()
            for number in range(1, count + 1)
        }
        if not self._entries:
            raise InputError(
                "no trace of the sample holds what its model was given and did; step mode needs `llm` steps "
                "with their messages, or whole conversations"
            )
        self.left_out = sum(not count for count in counts.values())
        """Traces without any decision."""

    def strata(self) -> dict[str, str]:
        """Return the stratum of each decision's trace."""
        strata = self._inner.strata()
        return {name: strata[trace_id] for name, (trace_id, _) in self._entries.items()}

    def item_traces(self) -> dict[str, str]:
        """Return the trace of each decision."""
        return {name: trace_id for name, (trace_id, _) in self._entries.items()}

    def values(self, con: DuckDBPyConnection, field: str) -> dict[str, str]:
        """Return the field of each decision's trace."""
        values = self._inner.values(con, field)
        return {name: values[trace_id] for name, (trace_id, _) in self._entries.items() if trace_id in values}

    def read(self, con: DuckDBPyConnection, ids: Sequence[str]) -> Iterator[Item]:
        """Read the decisions from the traces in the store."""
        traces = iter_conversations(con, [self.conversation(self._entries[name][0]) for name in ids])
        for name, trace in zip(ids, traces, strict=True):
            number = self._entries[name][1]
            decision = decisions(trace)[number - 1]
            yield replace(
                item_of_trace(trace, self._inner.drawn(trace.trace_id)),
                id=name,
                input=_last_user(decision.messages) or trace.input,
                messages=decision.messages,
                tape=decision.calls,
                model=decision.model or trace.model,
                recorded_response=decision.text,
                session_id=trace.session_id or trace.trace_id,
                metadata={**trace.metadata, "decision": number},
            )

    def conversation(self, trace_id: str) -> Sequence[str]:
        """Return the traces of a drawn conversation."""
        return self._inner.conversation(trace_id)

    def recorded(self, item_id: str, trace: Trace) -> Trace:
        """Return the trace as far as the decision goes."""
        decision = decisions(trace)[self._entries[item_id][1] - 1]
        return replace(
            trace,
            final_response=decision.text,
            tool_calls=decision.calls,
            usage=decision.usage,
            cost_usd=None,
            latency_ms=None,
            error=None,
            scores={},
        )

    def keep(self, con: DuckDBPyConnection) -> None:
        """Store the sample if it was drawn for this run."""
        self._inner.keep(con)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDivergence:
    """The first decision of a trace at which the lanes do another thing."""

    trace_id: str
    decision: int
    """From 1."""
    actions: Mapping[Lane, str]
    """What each lane does there in most trials: `cancel_order(order_id="1")`, or `answers`."""


def step_divergences(con: DuckDBPyConnection, run: RunRecord) -> Iterator[StepDivergence]:
    """Return the first differing decision of each trace in step mode.

    Actions are compared, not their wording. A recording beside its control is not compared.
    """
    actions: dict[tuple[str, int], dict[Lane, str]] = {}
    for item_id, trials in groupby(iter_trials(con, run.id), key=lambda trial: trial.item_id):
        trace_id, _, number = item_id.rpartition(MARK)
        compared = [trial for trial in trials if not (run.has_control and trial.lane == Lane.OLD2)]
        actions[trace_id, int(number)] = _actions(compared)
    diverged: set[str] = set()
    for (trace_id, number), lanes in sorted(actions.items()):
        if trace_id not in diverged and len(set(lanes.values())) > 1:
            diverged.add(trace_id)
            yield StepDivergence(trace_id=trace_id, decision=number, actions=lanes)


def _actions(trials: Sequence[Trial]) -> dict[Lane, str]:
    """Return what each lane does in most of its trials, ignoring errors."""
    actions_by_lane: dict[Lane, list[str]] = {}
    for trial in trials:
        if not trial.status.is_error:
            actions_by_lane.setdefault(trial.lane, []).append(action(trial.served))
    return {lane: most_done(actions) for lane, actions in actions_by_lane.items()}


def _of_step(step: Step, trace: Trace) -> RecordedDecision | None:
    if isinstance(step.output, str):
        response: tuple[Message, ...] = (Message(role="assistant", text=step.output),) if step.output else ()
        response = read_messages(step.output) or response
    else:
        response = read_messages(step.output) or ()
    answer = next((message for message in reversed(response) if message.role == "assistant"), None)
    if answer is None:
        return None
    return _decision(step.messages, [answer], trace, model=step.model, usage=step.usage)


def _of_conversation(trace: Trace) -> Iterator[RecordedDecision]:
    messages = trace.messages
    start = 0
    for by_assistant, turns in groupby(messages, key=lambda message: message.role == "assistant"):
        response = list(turns)
        if by_assistant and start:
            yield _decision(messages[:start], response, trace)
        start += len(response)
    if messages and messages[-1].role != "assistant" and trace.final_response:
        yield _decision(messages, [Message(role="assistant", text=trace.final_response)], trace)


def _decision(
    messages: Sequence[Message],
    response: Sequence[Message],
    trace: Trace,
    *,
    model: str | None = None,
    usage: Usage | None = None,
) -> RecordedDecision:
    calls = [_with_result(call, trace) for message in response for call in message.tool_calls]
    text = "\n".join(message.text for message in response if message.text)
    return RecordedDecision(
        messages=tuple(messages),
        calls=tuple(replace(call, index=index) for index, call in enumerate(calls)),
        text=text if text and not calls else None,
        model=model,
        usage=usage,
    )


def _with_result(call: ToolCall, trace: Trace) -> ToolCall:
    """Return the call with what was recorded for it."""
    args = canonical_args(call.args)
    equal_calls = (
        recorded_call
        for recorded_call in trace.tool_calls
        if recorded_call.name == call.name and canonical_args(recorded_call.args) == args
    )
    return next((recorded_call for recorded_call in equal_calls if recorded_call.answered), call)


def _last_user(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if message.role == "user"), "")
