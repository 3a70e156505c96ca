"""Replay a conversation: call the agent at each replayed user turn.

The recorded turns of the user come first, word for word. At each, the agent gets the conversation so far,
with what it wrote and called itself, and its tools are answered from the same tape: a recording that an
earlier turn used up is used up. Where a turn does not end well, the trial ends there; and so it does
without a simulated user where the user's next turn does not fit.

With a simulated user (`[user]`) a trial leaves the recording at the first turn whose tool calls are not the
recorded ones, or at which the user's next turn does not fit its answer (`replay.dialogue`): what the user
wrote replied to something else. From there on a model plays the user, until it ends the conversation or has
taken `EXTRA_TURNS` more turns than were recorded. At the last recorded turn that is so only where the agent
asks something.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from replaydiff.replay.agents import Agent, Outcome
from replaydiff.replay.dialogue import misfit
from replaydiff.replay.llm.base import ModelFailure
from replaydiff.replay.model import Item, Message, Rule, ServedCall, Status, Turn, total_usage
from replaydiff.replay.turns import UserTurn, follows_recording, tool_messages, user_turns

if TYPE_CHECKING:
    from replaydiff.replay.gateway.recording import Line


EXTRA_TURNS = 2
"""Turns of the user that a simulated one may have beyond the recorded number."""
_QUESTION = re.compile(r"[?\u061f\uff1f\u037e]")


class User(Protocol):
    """Who speaks for the user once the recorded turns no longer fit."""

    async def reply(self, item: Item, conversation: Sequence[Message]) -> str | None:
        """Return the user's next message; None where the user ends the conversation.

        Raises:
            ModelFailure: there is no message to be had.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The simulated user of a run, and what counts as leaving the recording."""

    user: User
    ignored: Callable[[str], Collection[str]]
    """The arguments of a tool that do not count."""


def is_single_turn(item: Item) -> bool:
    """Return whether the user speaks once at most, so that the item is one call of the agent."""
    # Most traces have one turn, and finding turns takes as long as much of a trial's own work.
    return sum(message.role == "user" for message in item.messages) <= 1


async def converse(
    agent: Agent,
    item: Item,
    index: int,
    line: Line | None = None,
    simulation: Simulation | None = None,
    *,
    with_history: bool = False,
) -> Outcome:
    """Run an item once, turn by turn. The time-out of a trial counts for each of its turns.

    Args:
        agent: the version.
        item: its recorded turns of the user come first.
        index: of the trial.
        line: gets the agent's requests to models.
        simulation: continues where the trial leaves the recording; None: the recorded turns go on.
        with_history: each turn comes after the recorded conversation, not after the version's own.
    """
    if not (item.tape or item.recorded_response):
        # Nothing shows what the user's turns replied to.
        simulation = None
    if simulation is None and is_single_turn(item):
        return await agent.run(item, index, line)
    messages = item.messages or (Message(role="user", text=item.input),)
    turns = user_turns(messages, item.tape, item.metadata)
    if not turns or (len(turns) < 2 and simulation is None):
        return await agent.run(item, index, line)
    talk = _Talk(agent, item, index, line, list(messages[: turns[0].end + 1]))
    try:
        if with_history:
            return await _repeat(talk, turns, messages)
        return await _converse(talk, turns, messages, simulation)
    finally:
        if (end := getattr(agent, "end_conversation", None)) is not None:
            await end(talk.token)


async def _converse(
    talk: _Talk, turns: Sequence[UserTurn], messages: Sequence[Message], simulation: Simulation | None
) -> Outcome:
    """Take the turns of a conversation, one after the other."""
    item = talk.item
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        text = item.input if len(turns) == 1 and item.input else messages[turn.end].text
        outcome = await talk.take(turn.number, text)
        if outcome.status is not Status.OK:
            break
        why = None if following is None else _misfit(messages, turn, following, outcome)
        if simulation is not None and (why or _leaves(talk, turns, turn, simulation)):
            if following is not None or _QUESTION.search(outcome.final_response or ""):
                await _simulate(talk, simulation.user, turns[-1].number + EXTRA_TURNS)
            break
        if why is not None:
            talk.turns[-1] = replace(talk.turns[-1], misfit=why)
            break
        if following is not None:
            talk.messages += [
                message
                for message in messages[turn.end + 1 : following.end + 1]
                if message.role not in ("assistant", "tool")
            ]
    # Of one turn, the outcome is as if there were no turns.
    return talk.done[0] if len(turns) == len(talk.done) == 1 and not talk.failure else talk.outcome()


async def _repeat(talk: _Talk, turns: Sequence[UserTurn], messages: Sequence[Message]) -> Outcome:
    """Take each turn after what was recorded before it: its messages, and the calls that made its state."""
    calls = 0
    for turn in turns:
        talk.messages = list(messages[: turn.end + 1])
        recorded = tuple(
            ServedCall(call=call, rule=Rule.TAPE, from_trace_id=talk.item.trace_id)
            for call in talk.item.tape[:calls]
        )
        calls += turn.calls
        outcome = await talk.take(turn.number, messages[turn.end].text, before=recorded)
        if outcome.status is not Status.OK:
            break
    return talk.outcome()


def _misfit(messages: Sequence[Message], turn: UserTurn, following: UserTurn, outcome: Outcome) -> str | None:
    """Return why the next recorded turn does not fit what the version answered; None where it may."""
    between = messages[turn.end + 1 : following.end + 1]
    recorded = next((message.text for message in reversed(between) if message.role == "assistant"), "")
    users = "\n".join(message.text for message in between if message.role == "user")
    if not recorded or not outcome.final_response:
        return None
    return misfit(recorded, outcome.final_response, users)


def _leaves(talk: _Talk, turns: Sequence[UserTurn], turn: UserTurn, simulation: Simulation) -> bool:
    """Return whether the calls of the turn just taken are not the recorded ones."""
    before = sum(earlier.calls for earlier in turns if earlier.number < turn.number)
    recorded = talk.item.tape[before : before + turn.calls]
    return not follows_recording(talk.done[-1].served, recorded, simulation.ignored)


async def _simulate(talk: _Talk, user: User, last: int) -> None:
    """Go on with a simulated user, up to the turn of this number or until the user ends it."""
    while talk.turns[-1].number < last:
        try:
            text = await user.reply(talk.item, talk.messages)
        except ModelFailure as failure:
            # Not the agent's doing: the trial is tried again, and never graded on half a conversation.
            talk.failure = f"the user could not be simulated: {failure}"
            return
        if text is None:
            return
        talk.messages.append(Message(role="user", text=text))
        outcome = await talk.take(talk.turns[-1].number + 1, text, is_simulated=True)
        if outcome.status is not Status.OK:
            return


@dataclass(slots=True)
class _Talk:
    """A trial's conversation so far."""

    agent: Agent
    item: Item
    index: int
    line: Line | None
    messages: list[Message]
    """Messages and tool calls so far; before a turn is taken, it ends with the user's message."""
    done: list[Outcome] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    failure: str | None = None
    """Why the user's next turn is missing."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """What tells the conversation from others."""

    async def take(
        self,
        number: int,
        text: str,
        *,
        is_simulated: bool = False,
        before: tuple[ServedCall, ...] | None = None,
    ) -> Outcome:
        """Have the agent answer the user's turn; `before` are the calls before it if not the trial's own."""
        served = tuple(call for outcome in self.done for call in outcome.served)
        item = replace(
            self.item,
            input=text,
            messages=tuple(self.messages),
            before=served if before is None else before,
            conversation=self.token,
        )
        outcome = await self.agent.run(item, self.index, self.line)
        self.done.append(outcome)
        self.turns.append(
            Turn(
                number=number,
                calls=len(outcome.served),
                response=outcome.final_response,
                user=text if is_simulated else None,
            )
        )
        if outcome.status is Status.OK:
            self.messages += _turn_messages(outcome, len(served))
        return outcome

    def outcome(self) -> Outcome:
        """Return what the trial came to."""
        whole = _together(self.done, self.turns)
        if self.failure is not None:
            return replace(whole, status=Status.INFRA_ERROR, reason=self.failure, final_response=None)
        return whole


def _turn_messages(outcome: Outcome, before: int) -> list[Message]:
    """Return what the version did at a turn, as messages."""
    calls = [served.call for served in outcome.served]
    return [*tool_messages(calls, before), Message(role="assistant", text=outcome.final_response or "")]


def _together(outcomes: Sequence[Outcome], ended_turns: Sequence[Turn]) -> Outcome:
    """Combine all turns into one outcome: the last one's end, and the sum of what they took."""
    last = outcomes[-1]
    served = [call for outcome in outcomes for call in outcome.served]
    costs = [outcome.cost_usd for outcome in outcomes if outcome.cost_usd is not None]
    latencies = [outcome.latency_ms for outcome in outcomes if outcome.latency_ms is not None]
    return replace(
        last,
        reason=f"at the user's turn {ended_turns[-1].number}: {last.reason}" if last.reason else None,
        served=tuple(
            replace(served_call, call=replace(served_call.call, index=position))
            for position, served_call in enumerate(served)
        ),
        usage=total_usage(outcome.usage for outcome in outcomes),
        # A part of a cost would look like all of it.
        cost_usd=sum(costs) if len(costs) == len(outcomes) else None,
        latency_ms=sum(latencies) if latencies else None,
        started_at=outcomes[0].started_at,
        turns=tuple(ended_turns),
    )
