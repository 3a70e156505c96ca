"""What rewriting a framework's conversation as a chat log needs, whichever framework it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from replaydiff.importers import fields
from replaydiff.importers.base import RecordError
from replaydiff.replay.model import Json, JsonObject


class _Dated(NamedTuple):
    time: datetime
    recorded: Json


def first_of(value: Json) -> JsonObject:
    """Return the first element of a list, where it is an object; else an empty object."""
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def objects(value: Json, what: str) -> list[JsonObject]:
    """Return a list of objects.

    Args:
        value: what was recorded.
        what: the name of its field, for the reason of a reject.

    Raises:
        RecordError: it is no list, or an element is no object.
    """
    if not isinstance(value, list):
        raise RecordError(f"{what} must be a list, not {fields.kind(value)}")
    entries = [entry for entry in value if isinstance(entry, dict)]
    if len(entries) < len(value):
        number = next(number for number, entry in enumerate(value) if not isinstance(entry, dict))
        raise RecordError(f"{what}[{number}] must be an object, not {fields.kind(value[number])}")
    return entries


def list_or_single(value: Json) -> list[Json]:
    """Return a list as it is, and anything else as a list of it alone."""
    return value if isinstance(value, list) else [value]


def answer(text: Json, calls: Sequence[JsonObject] = ()) -> JsonObject:
    """Return a message of the agent, with the tool calls that it requests."""
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


def requested(call: JsonObject, call_id: Json, where: str) -> JsonObject:
    """Return an entry of `tool_calls`.

    Args:
        call: has `name` and `arguments`.
        call_id: its id, where it has one.
        where: where it is, for the reason of a reject.

    Raises:
        RecordError: the call has no name or no arguments.
    """
    name = call.get("name")
    if not isinstance(name, str) or not name or "arguments" not in call:
        raise RecordError(f"a tool call in {where} has no name or no arguments")
    return {"name": name, "args": call["arguments"], "id": call_id}


def within(value: Json, *keys: str) -> Json:
    """Return what is under these keys, each within the one before; None where one of them is no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def model_name(*candidates: Json) -> JsonObject:
    """Return the first of these that is a model's name as a field of a chat log; empty where none is."""
    names = (name for name in candidates if isinstance(name, str) and name not in ("", "unknown"))
    return next(({"model": name} for name in names), {})


def times(messages: Sequence[JsonObject], key: str) -> JsonObject:
    """Return when the first and the last of these messages were written, as fields of a chat log."""
    dated = [
        _Dated(time, message[key]) for message in messages if (time := fields.time(message, key)) is not None
    ]
    if not dated:
        return {}
    dated.sort(key=lambda entry: entry.time)
    return {"created_at": dated[0].recorded, "ended_at": dated[-1].recorded}
