"""Join traces of one session to conversations: each trace is a turn of the user, with its own calls.

Traces belong to one conversation where source, session and name are the same and

    reference a trace names the one that it continues (session files, which hold each message once).
    history   a trace carries the exchange before its input in its messages: it follows the latest trace that
              asked and answered so, whatever lies between. Of two that follow the same one the later counts
              (the user took the earlier back), and the earlier begins a conversation of its own. So does a
              trace that carries an exchange of which there is no trace.
    summary   its messages begin with a summary of what was said (compaction): it follows the trace before it.
    time      no trace of the session carries any history: they follow each other by their start, as long as
              each begins after the one before it has ended.

Left apart, each trace alone, are sessions of several users, sessions whose traces overlap in time, sessions
that ask the same again and again (trials of a task), and an id on half of the traces of a source (a tenant's,
no session's): the last three only where nothing but time would join them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from replaydiff.replay.messages import canonical_args, conversation
from replaydiff.replay.model import FIRST_TURN, Json, Message, Score, ToolCall, Trace, total_usage
from replaydiff.replay.model.trace import SUMMARY, continuation
from replaydiff.replay.turns import tool_messages, user_turns

TENANT_TRACES = 50
"""From so many traces on, and half of those of its source, an id that only time joins is no session's."""


class Apart(StrEnum):
    """Why the traces of a session are left apart; the value is a clause of a sentence on such sessions."""

    USERS = "have traces of several users"
    OVERLAP = "have traces that overlap in time"
    REPEATED = "ask the same again in most of their traces"
    TENANT = "hold half of all traces, which no conversation does"


class TurnFacts(NamedTuple):
    """What decides where a trace belongs."""

    trace_id: str
    started_at: datetime
    ended_at: datetime | None
    user_id: str | None
    exchange: str
    """The key of its input and answer; see `replay.model.trace.exchange`."""
    follows: str | None
    """Likewise of the exchange before it, as its messages carry it; see `Trace.follows`."""
    source_id: str


def chains(turns: Sequence[TurnFacts], traces_of_source: int) -> list[list[str]] | Apart:
    """Return the conversations of a session, each as the ids of its traces in order, or why there are none.

    Args:
        turns: the traces of one source, session and name, by their start.
        traces_of_source: how many traces their source has in all.
    """
    if len({turn.user_id for turn in turns if turn.user_id}) > 1:
        return Apart.USERS
    if all(turn.follows is None for turn in turns):
        return _by_time(turns, traces_of_source)
    latest: dict[str, str] = {}
    parents: dict[str, str] = {}
    children: dict[str, str] = {}
    previous: str | None = None
    for turn in turns:
        parent = previous if turn.follows == SUMMARY else latest.get(turn.follows or "")
        if parent is not None:
            parents[turn.trace_id] = parent
            children[parent] = turn.trace_id
        latest[turn.exchange] = latest[continuation(turn.source_id)] = previous = turn.trace_id
    conversations: dict[str, list[str]] = {}
    for turn in turns:
        parent = parents.get(turn.trace_id, "")
        follows = children.get(parent) == turn.trace_id
        chain = conversations[turn.trace_id] = conversations[parent] if follows else []
        chain.append(turn.trace_id)
    return [chain for name, chain in conversations.items() if chain[0] == name]


def _by_time(turns: Sequence[TurnFacts], traces_of_source: int) -> list[list[str]] | Apart:
    """Return all traces as one conversation where nothing speaks against it."""
    questions = Counter(turn.exchange[:16] for turn in turns)
    if 2 * len(questions) <= len(turns):
        return Apart.REPEATED
    if len(turns) >= max(TENANT_TRACES, traces_of_source / 2):
        return Apart.TENANT
    end = turns[0].started_at
    for turn in turns:
        if turn.started_at < end:
            return Apart.OVERLAP
        end = max(end, turn.ended_at or turn.started_at)
    return [[turn.trace_id for turn in turns]]


def input_messages(trace: Trace) -> tuple[Message, ...]:
    """Return the conversation up to and with the user's turn that is the trace's input."""
    for end in range(len(trace.messages) - 1, -1, -1):
        message = trace.messages[end]
        if message.role == "user" and message.text == trace.input:
            return trace.messages[: end + 1]
    return conversation(trace.messages).messages


def join(traces: Sequence[Trace]) -> Trace:
    """Return the traces of a conversation as one trace of several turns, under the id of the first.

    Each message and call is in it once: the history that later traces repeat is left out. Of scores and
    metadata of the same name the later trace's count.
    """
    if len(traces) == 1:
        return traces[0]
    first, last = traces[0], traces[-1]
    head = input_messages(first) or (Message(role="user", text=first.input),)
    first_turns = user_turns(head, first.tool_calls)
    messages = [*head[:-1]]
    calls: list[ToolCall] = []
    for trace in traces:
        messages += _turn_messages(trace, len(calls))
        calls += trace.tool_calls
    costs = [trace.cost_usd for trace in traces if trace.cost_usd is not None]
    latencies = [trace.latency_ms for trace in traces if trace.latency_ms is not None]
    metadata: dict[str, Json] = {}
    scores: dict[str, Score] = {}
    for trace in traces:
        metadata |= trace.metadata
        scores |= trace.scores
    return replace(
        last,
        trace_id=first.trace_id,
        continues=first.continues,
        started_at=first.started_at,
        messages=tuple(messages),
        steps=tuple(
            replace(step, index=position, parent=None)
            for position, step in enumerate(step for trace in traces for step in trace.steps)
        ),
        tool_calls=tuple(replace(call, index=position) for position, call in enumerate(calls)),
        usage=total_usage(trace.usage for trace in traces),
        # A part of a cost would look like all of it.
        cost_usd=sum(costs) if len(costs) == len(traces) else None,
        latency_ms=sum(latencies) if latencies else None,
        tags=tuple(dict.fromkeys(tag for trace in traces for tag in trace.tags)),
        scores=scores,
        metadata={**metadata, FIRST_TURN: first_turns[0].number if first_turns else 1},
    )


def _turn_messages(trace: Trace, before: int) -> Iterator[Message]:
    """Yield the user's turn that is a trace's input, and what came of it; so many calls were made before."""
    head = input_messages(trace)
    yield head[-1] if head and head[-1].role == "user" else Message(role="user", text=trace.input)
    calls = trace.tool_calls[sum(turn.calls for turn in user_turns(head, trace.tool_calls)[:-1]) :]
    produced = [message for message in trace.messages[len(head) :] if message.role in ("assistant", "tool")]
    if not _same_calls([call for message in produced for call in message.tool_calls], calls):
        # The messages are what the model was given first; what it did then is in its steps.
        produced = [*tool_messages(calls, before)]
    yield from produced
    answered = produced and produced[-1].role == "assistant" and not produced[-1].tool_calls
    if trace.final_response is not None and not answered:
        yield Message(role="assistant", text=trace.final_response)


def _same_calls(requested: Sequence[ToolCall], recorded: Sequence[ToolCall]) -> bool:
    return [(call.name, canonical_args(call.args)) for call in requested] == [
        (call.name, canonical_args(call.args)) for call in recorded
    ]
