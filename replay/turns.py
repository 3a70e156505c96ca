"""The user's turns of a conversation: which of them a replay goes through, and what was done at each.

A trace of several turns is one run, and its tool calls are those of all its turns. So all turns are replayed
whose calls were recorded with it: the user's turns are frozen, word for word, and between them is what
the version itself answered and called. Earlier turns are passed as they were recorded; a trace of one turn
that only carries the history of others is replayed from its own turn.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TypeVar

from replaydiff.replay.messages import canonical_args, final_response
from replaydiff.replay.model import FIRST_TURN, Item, Json, Message, ServedCall, Status, ToolCall, Trial, Turn
from replaydiff.replay.tape import show_call

_Call = TypeVar("_Call")

ANSWERS = "answers"
"""What is done where no tool is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """A turn that is replayed."""

    number: int
    """Its place among all turns of the user, from 1."""
    end: int
    """The index of its last message."""
    calls: int
    """Recorded calls that followed it."""


def user_turns(
    messages: Sequence[Message], tape: Sequence[ToolCall], metadata: Mapping[str, Json] = MappingProxyType({})
) -> tuple[UserTurn, ...]:
    """Return the turns to replay of a conversation; its last turn is always among them.

    Args:
        messages: up to and with the last turn of the user.
        tape: the calls that were recorded with it.
        metadata: names the first turn to replay of joined traces (`FIRST_TURN`); else the calls show it.
    """
    positions = [position for position, message in enumerate(messages) for _ in message.tool_calls]
    ends = _ends(messages)
    begun = metadata.get(FIRST_TURN)
    if not isinstance(begun, int):
        recorded_calls = _recorded_before(
            [call for message in messages for call in message.tool_calls], tape, most=len(positions)
        )
        positions = positions[len(positions) - recorded_calls :]
        begun = sum(end < positions[0] for end in ends) if recorded_calls else len(ends)
    begun = min(begun, len(ends))
    turns = []
    for number, end in enumerate(ends, 1):
        following = ends[number] if number < len(ends) else None
        if number >= begun:
            after = sum(end < position < following for position in positions) if following is not None else 0
            turns.append(UserTurn(number=number, end=end, calls=after))
    if turns:
        last = turns.pop()
        calls = sum(turn.calls for turn in turns)
        turns.append(UserTurn(number=last.number, end=last.end, calls=max(len(tape) - calls, 0)))
    return tuple(turns)


def reached(item: Item, trial: Trial) -> tuple[Item, Trial]:
    """Return what a trial is graded on that ended where a recorded turn of the user no longer fitted.

    Of a recording that is what was recorded up to there. A case says what is expected at its end, so there
    the trial counts as stopped.
    """
    if trial.misfit is None:
        return item, trial
    if item.expectation is not None:
        return item, replace(trial, status=Status.DIVERGED, reason=trial.misfit)
    turns = user_turns(item.messages, item.tape, item.metadata)
    number = trial.turns[-1].number
    calls = sum(turn.calls for turn in turns if turn.number <= number)
    end = next((turn.end for turn in turns if turn.number == number), len(item.messages))
    following = next((turn.end for turn in turns if turn.number > number), end)
    response = final_response(item.messages[end + 1 : following])
    return replace(item, tape=item.tape[:calls], recorded_response=response), trial


def calls_by_turn(
    item: Item, trial: Trial, expected: Sequence[_Call]
) -> Iterator[tuple[int, Sequence[_Call], Sequence[ToolCall]]]:
    """Yield number, expected calls and calls of each recorded turn of a trial of several.

    Args:
        item: its recording shows at which turn each expected call belongs.
        trial: without several turns it yields nothing.
        expected: as many as were recorded, else it yields nothing.
    """
    if len(trial.turns) < 2 or len(expected) != len(item.tape):
        return
    recorded = {turn.number: turn.calls for turn in user_turns(item.messages, item.tape, item.metadata)}
    at = first = 0
    for turn in trial.turns:
        calls = recorded.get(turn.number)
        if calls is None or turn.user is not None:
            return
        served = trial.served[at : at + turn.calls]
        yield turn.number, expected[first : first + calls], [answered.call for answered in served]
        at, first = at + turn.calls, first + calls


def tool_messages(calls: Sequence[ToolCall], first: int = 0) -> Iterator[Message]:
    """Yield calls as an agent's message with its results; `first` is the number of the first one's id."""
    if not calls:
        return
    named = tuple(replace(call, call_id=f"call_{first + position}") for position, call in enumerate(calls))
    yield Message(role="assistant", tool_calls=named)
    for call in named:
        text = call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False)
        yield Message(
            role="tool",
            text=call.error or text,
            tool_call_id=call.call_id,
            name=call.name,
            is_error=call.error is not None,
        )


def conversed(messages: Sequence[Message], turns: Sequence[Turn]) -> tuple[Message, ...]:
    """Return the conversation before the last turn of a trial, with the trial's own answers in it.

    Where the trial kept no answer of a turn (an observed one), the recorded messages are used.

    Args:
        messages: those of the item, up to and with the last turn of the user.
        turns: those of the trial; without any, all messages stay as they are.
    """
    ends = dict(enumerate(_ends(messages), 1))
    reached = [turn for turn in turns if turn.number in ends or turn.user is not None]
    if not reached or reached[0].user is not None:
        return tuple(messages)
    messages_so_far = list(messages[: ends[reached[0].number] + 1])
    for turn, following in pairwise(reached):
        if following.user is not None:
            messages_so_far += [
                Message(role="assistant", text=turn.response or ""),
                Message(role="user", text=following.user),
            ]
            continue
        between = messages[ends[turn.number] + 1 : ends[following.number] + 1]
        if turn.response is not None:
            messages_so_far.append(Message(role="assistant", text=turn.response))
            between = [message for message in between if message.role not in ("assistant", "tool")]
        messages_so_far += between
    return tuple(messages_so_far)


def actions_by_turn(trial: Trial) -> dict[int, str]:
    """Return what a trial did at each turn that it finished; of one turn, at turn 1."""
    if not trial.turns:
        return {} if trial.status.is_error else {1: action(trial.served)}
    actions, calls = {}, 0
    for number, turn in enumerate(trial.turns, 1):
        # An error at the last turn hides what would have been done there.
        if number < len(trial.turns) or not trial.status.is_error:
            actions[turn.number] = action(trial.served[calls : calls + turn.calls])
        calls += turn.calls
    return actions


def simulated_turns(numbers: Sequence[int]) -> str:
    """Return name the turns of a simulated user: `simulated user, turns 4–6`; empty without any."""
    if not numbers:
        return ""
    first, last = min(numbers), max(numbers)
    return f"simulated user, turn {first}" if first == last else f"simulated user, turns {first}–{last}"


def follows_recording(
    served: Sequence[ServedCall], recorded: Sequence[ToolCall], ignored: Callable[[str], Collection[str]]
) -> bool:
    """Return whether the calls of a turn are the recorded ones, in any order.

    Args:
        served: the calls that were made.
        recorded: those of the recording.
        ignored: returns the arguments of a tool that do not count.
    """

    def named(calls: Iterable[ToolCall]) -> Counter[tuple[str, str]]:
        return Counter((call.name, canonical_args(call.args, ignored(call.name))) for call in calls)

    return named(answered.call for answered in served) == named(recorded)


def action(served: Sequence[ServedCall]) -> str:
    """Return what was done, in words: `cancel_order(order_id="1")`, or `answers`. Not its wording."""
    return ", ".join(show_call(answered.call.name, answered.call.args) for answered in served) or ANSWERS


def most_done(actions: Sequence[str]) -> str:
    """Return what was done in most trials."""
    return max(sorted(actions), key=actions.count)


def _ends(messages: Sequence[Message]) -> list[int]:
    """Return the position of the last message of each user turn."""
    return [
        position
        for position, message in enumerate(messages)
        if message.role == "user" and (position + 1 == len(messages) or messages[position + 1].role != "user")
    ]


def _recorded_before(requested: Sequence[ToolCall], tape: Sequence[ToolCall], *, most: int) -> int:
    """Return how many of the last calls of a conversation are the first ones of a recording."""
    for count in range(min(most, len(tape)), 0, -1):
        if all(
            _is_recorded_call(requested_call, taped_call)
            for requested_call, taped_call in zip(requested[most - count :], tape, strict=False)
        ):
            return count
    return 0


def _is_recorded_call(requested: ToolCall, recorded: ToolCall) -> bool:
    ids = (requested.call_id, recorded.call_id)
    return (
        requested.name == recorded.name
        and (None in ids or ids[0] == ids[1])
        and canonical_args(requested.args) == canonical_args(recorded.args)
    )
