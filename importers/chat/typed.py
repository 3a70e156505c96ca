"""Chat messages decoded into known types, in a quarter of the time that the recogniser takes.

`typed_messages` takes messages as the chat API writes them: the four roles, content that is text, function
calls with ids. Messages with any other key, type or role do not decode as `ChatMessage`, or are refused; the
record they are in then goes through `replay.messages.read_messages`, which reads every shape. Where messages
are taken, both ways give the same ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

import msgspec

from replaydiff.replay.messages import read_args
from replaydiff.replay.model import Message, ToolCall

_Id = Annotated[str, msgspec.Meta(min_length=1)]


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    id: _Id
    type: Literal["function"]
    function: _Function


class ChatMessage(msgspec.Struct, forbid_unknown_fields=True):
    """One message of the chat API; what may be null has no meaning where it is null."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None
    tool_calls: list[_Call] | None = None
    tool_call_id: _Id | None = None
    refusal: None = None
    function_call: None = None
    audio: None = None


_Message = msgspec.defstruct(
    "_Message",
    [
        (field.name, Any) if field.default is dataclasses.MISSING else (field.name, Any, field.default)
        for field in dataclasses.fields(Message)
    ],
)
"""A `Message` in all but its class, and made in a third of the time: all that is done with it is to read its
fields and to encode it."""


def typed_messages(found: Sequence[ChatMessage]) -> tuple[Message, ...] | None:
    """Return messages in the project's own form, for reading and encoding alone.

    Args:
        found: the messages of one conversation, in order.

    Returns:
        What `read_messages` makes of them, equal field by field; None where that must decide.
    """
    messages = []
    for one in found:
        role, text = one.role, one.content or ""
        if text.startswith("[{"):
            # It may be the text of parts.
            return None
        if role == "assistant":
            if one.tool_call_id is not None:
                return None
            messages.append(_Message(role, text, _requests(one.tool_calls)))
        elif one.tool_calls is not None:
            return None
        elif role == "tool":
            if one.tool_call_id is None:
                return None
            messages.append(_Message(role, text, (), one.tool_call_id))
        elif one.tool_call_id is not None:
            return None
        else:
            messages.append(_Message(role, text))
    return cast("tuple[Message, ...]", tuple(messages))


def _requests(calls: Sequence[_Call] | None) -> tuple[ToolCall, ...]:
    return tuple(
        [
            ToolCall(
                name=call.function.name,
                args=read_args(call.function.arguments),
                call_id=call.id,
                answered=False,
            )
            for call in calls or ()
        ]
    )
