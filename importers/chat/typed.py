"""Chat messages decoded into known types: faster than the recogniser reads them.

`typed_chat` takes messages as the chat API writes them: the four roles, content that is text, function calls
each with an id of its own, results of calls before them. Messages with any other key, type or role do not
decode as `ChatMessage`, or are refused; the record they are in then goes through
`replay.messages.read_messages`, which reads every shape. Where messages are taken, both ways give the same
ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from replaydiff.replay.messages import read_args
from replaydiff.replay.model import Message, ToolCall, Witness

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


def _light(kind: type) -> Any:
    """Return a class equal to a dataclass in all but its name, whose values are made in a third of the time.

    All that is done with them is to read their fields and to encode them.
    """
    fields: list[Any] = []
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING:
            fields.append((field.name, Any, msgspec.field(default_factory=field.default_factory)))
        elif field.default is not dataclasses.MISSING:
            fields.append((field.name, Any, field.default))
        else:
            fields.append((field.name, Any))
    return msgspec.defstruct(f"_{kind.__name__}", fields)


_Message, _ToolCall = _light(Message), _light(ToolCall)


class TypedChat(NamedTuple):
    """Messages in the project's own form and their joined tool calls, for reading and encoding alone."""

    messages: tuple[Message, ...]
    tool_calls: tuple[ToolCall, ...]


def typed_chat(found: Sequence[ChatMessage]) -> TypedChat | None:
    """Return messages in the project's own form, with the tool calls and their results.

    Args:
        found: the messages of one conversation, in order.

    Returns:
        What `read_messages` and `join_results` make of them, equal field by field; None where these must
        decide.
    """
    messages = []
    requested: dict[str, Any] = {}
    results: dict[str, str] = {}
    for one in found:
        role, text = one.role, one.content or ""
        if text.startswith("[{"):
            # It may be the text of parts.
            return None
        if role == "assistant":
            if one.tool_call_id is not None:
                return None
            calls = ()
            if one.tool_calls:
                calls = _requests(one.tool_calls)
                count = len(requested) + len(calls)
                requested.update({call.call_id: call for call in calls})
                if len(requested) < count:
                    return None
            messages.append(_Message(role, text, calls))
        elif one.tool_calls is not None:
            return None
        elif role == "tool":
            call_id = one.tool_call_id
            if call_id is None or call_id not in requested or call_id in results:
                return None
            results[call_id] = text
            messages.append(_Message(role, text, (), call_id))
        elif one.tool_call_id is not None:
            return None
        else:
            messages.append(_Message(role, text))
    joined = [_joined(index, call, results) for index, call in enumerate(requested.values())]
    return TypedChat(tuple(messages), tuple(joined))


def _requests(calls: Sequence[_Call]) -> Any:
    return tuple(
        [
            _ToolCall(call.function.name, read_args(call.function.arguments), 0, call.id, answered=False)
            for call in calls
        ]
    )


def _joined(index: int, call: Any, results: Mapping[str, str]) -> Any:
    """The call at its place, with its result."""
    if call.call_id not in results:
        return _ToolCall(call.name, call.args, index, call.call_id, answered=False)
    result = results[call.call_id]
    return _ToolCall(call.name, call.args, index, call.call_id, result, witness=Witness.ID)
