"""A conversation as one run: what was asked, which tools were called and what they said, what was answered.

*Input*: the last user turn that the agent answered; where no turn was answered, the last one. A chat log
often ends in a user's "thanks" that nobody answered: that is no input.
*Tool calls*: every call of the whole conversation, each once, in the order in which the model asked. A log
of several turns is one run, so the calls of all its turns are its calls.
*Result of a call*: joined by call id *and* order. Call ids repeat in real data (one public file has the id
`call_id` on every call), so an id alone never joins and nothing is dropped because its id was seen:

    request  a(id=1), b(id=1)     result id=1 -> a     result id=1 -> b

A result answers the earliest open call with its id in the newest request that has one; a result without an
id, or with one that no call has, the earliest open call of its name, else the earliest open call without id.
*Final response*: the agent's last text after the input, if it did not go on to call a tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay.model import Json, Message, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What `conversation` made of a list of messages."""

    input: str
    """Text of the user's turn that was answered; empty where there is none."""
    messages: tuple[Message, ...]
    """The messages up to and with that turn: what a replay starts from."""
    tool_calls: tuple[ToolCall, ...]
    """The calls of the whole conversation, with their results."""
    final_response: str | None


def conversation(messages: Sequence[Message], *, asked_only: bool = False) -> Conversation:
    """Read messages as one run.

    `asked_only` says that the answer is recorded elsewhere: the last user turn is then the input, answered
    here or not.
    """
    end = _asked(messages, asked_only)
    return Conversation(
        input=messages[end].text if end is not None else "",
        messages=tuple(messages[: end + 1]) if end is not None else tuple(messages),
        tool_calls=join_results(messages),
        final_response=final_response(messages if end is None else messages[end + 1 :]),
    )


def _asked(messages: Sequence[Message], asked_only: bool) -> int | None:
    """Where the user's turn stands that is the input."""
    answered, last = asked_only, None
    for index in range(len(messages) - 1, -1, -1):
        role = messages[index].role
        if role == "user":
            if answered:
                return index
            last = index if last is None else last
        answered = answered or role == "assistant"
    return last


def final_response(messages: Sequence[Message]) -> str | None:
    """The last text of the agent in these messages; None where it ended on a tool call."""
    for message in reversed(messages):
        if message.role == "tool":
            return None
        if message.role == "assistant":
            return message.text if message.text and not message.tool_calls else None
    return None


def join_results(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The tool calls of a conversation, in the order of request, with the results that were recorded."""
    calls: list[ToolCall] = []
    open_calls: list[list[int]] = []
    for message in messages:
        if message.tool_calls:
            start = len(calls)
            calls.extend(
                replace(call, index=start + offset) for offset, call in enumerate(message.tool_calls)
            )
            open_calls.append(list(range(start, len(calls))))
        elif message.role == "tool":
            place = _place(message, calls, open_calls)
            if place is not None:
                calls[place] = answered(calls[place], message)
    return tuple(calls)


def answered(call: ToolCall, message: Message) -> ToolCall:
    """The call with the result of a `tool` message."""
    result: Json = message.text if message.data is None else message.data
    error = (message.text or "the tool failed") if message.is_error else None
    return replace(call, result=result, error=error, answered=True)


def _place(message: Message, calls: list[ToolCall], open_calls: list[list[int]]) -> int | None:
    """The open call that a result answers; it is taken out of `open_calls`."""
    wanted = message.tool_call_id
    rules = (
        (lambda call: call.call_id == wanted) if wanted is not None else None,
        (lambda call: call.name == message.name and _may_lack_id(call, wanted)) if message.name else None,
        lambda call: _may_lack_id(call, wanted),
    )
    for rule in rules:
        if rule is None:
            continue
        for request in reversed(open_calls):
            for index in request:
                if rule(calls[index]):
                    request.remove(index)
                    if not request:
                        open_calls.remove(request)
                    return index
    return None


def _may_lack_id(call: ToolCall, wanted: str | None) -> bool:
    """A result without id may answer any call; one with an id only a call that has none."""
    return wanted is None or call.call_id is None
