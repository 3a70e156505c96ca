"""What a model call answered: messages, plain text, or the calls that Langfuse itself took out of it.

Langfuse keeps a list of an output's tool calls beside it (`toolCalls`, without their names, and
`toolCallNames`). It knows fewer shapes than are in the wild, and drops the second of two equal calls: the
output counts, and the list where no call can be read from the output.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from replaydiff.importers.langfuse.observations import Observation
from replaydiff.replay.messages import canonical_args, decode, read_args, read_messages, read_text
from replaydiff.replay.model import Json, JsonObject, Message, ToolCall


def said(one: Observation) -> tuple[Message, ...]:
    """The messages that a model call added to the conversation."""
    messages = read_messages(one.output) or ()
    if messages:
        found = _new(messages)
    else:
        text = _text(one.output)
        found = (Message(role="assistant", text=text),) if text else ()
    calls = () if any(message.tool_calls for message in messages) else _listed_calls(one.row)
    if not calls:
        return found
    last = found[-1] if found else Message(role="assistant")
    return (*found[:-1], replace(last, tool_calls=calls))


def _new(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Some SDKs record the whole history as the output: what counts is behind the last user message."""
    last_user = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    return tuple(message for message in messages[last_user + 1 :] if message.role == "assistant")


def _text(output: Json) -> str:
    """Plain text, or the JSON of a structured answer."""
    value = decode(output)
    if isinstance(value, dict) and value:
        return read_text(value) or canonical_args(value)
    return value if isinstance(value, str) else ""


def _listed_calls(row: JsonObject) -> tuple[ToolCall, ...]:
    listed, names = decode(row.get("toolCalls")), decode(row.get("toolCallNames"))
    if not isinstance(listed, list) or not isinstance(names, list) or len(names) < len(listed):
        return ()
    return tuple(_call(name, decode(entry)) for name, entry in zip_longest(names, listed))


def _call(name: Json, entry: Json) -> ToolCall:
    known = entry if isinstance(entry, dict) else {}
    call_id = known.get("id")
    return ToolCall(
        name=str(name),
        args=read_args(known.get("arguments")),
        call_id=call_id if isinstance(call_id, str) and call_id else None,
    )
