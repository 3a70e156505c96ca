"""Find what looks like a requested tool call in a record, whether or not its shape is known.

`count_requests` counts entries where calls usually are. This looks everywhere in and around messages: under
keys that nothing reads (`"calls": [{"name": …, "args": …}]`), and under known keys whose value has another
shape, such as a call whose name or arguments have another key. What is found here and is no call of the trace
was left out, and the import notes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from replaydiff.replay.messages.content import is_request_type, part_kind, read_answered_call, read_result
from replaydiff.replay.messages.decode import decode, read_args
from replaydiff.replay.model import Json, JsonObject

_NAMES = ("name", "tool_name", "toolName", "function_name", "function", "tool")
_ARGUMENTS = (
    *("arguments", "args", "input", "parameters", "tool_input", "toolInput", "tool_kwargs"),
    "server_tool_call",
)
_NOT_RECORDED: JsonObject = {"": None}
"""In place of arguments that are missing: equal to those of no call."""
_OF_CALLS = re.compile("call|tool|function|action", re.IGNORECASE)
"""What a key that calls stand under has in it."""
_OF_DEFINITIONS = {"description", "input_schema", "inputSchema", "parameters_json_schema", "strict"}
"""Keys that a definition of a tool has, and a call of it has not."""
_CHAT_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name"}
_WRAPPERS = ("function", "custom", "functionCall", "function_call", "toolUse")
"""Where a call may have its name and its arguments, in an object of their own."""
_FOR_CALLS = {"functionCall", "function_call", "toolUse"}
_ITEM = {"call_id", "name", "arguments"}
"""Keys of a requested call that is an item of the Responses API."""
_IDS = ("id", "call_id", "tool_call_id", "toolCallId", "toolUseId")
_BESIDE = {"caller", "extra_content", "metadata", "cache_control", "provider_specific_fields"}
"""Objects of a call that are not its arguments."""
_OF_SCHEMAS = {"properties", "$schema", "type"}
_OF_SPANS = {"startTime", "start_time", "started_at", "traceId", "trace_id"}
_OF_MESSAGES = {"role", "content", "parts"}
_ASIDE = {
    "metadata", "usage", "tools", "tool_definitions", "invocation_params", "response_metadata", "result"
}  # fmt: skip
"""Keys below which there are no requests of the model."""
_DEEPEST = 12


def likely_requests(value: Json) -> Iterator[tuple[str, JsonObject]]:
    """Return the name and the arguments of each object that looks like a requested tool call.

    The name is empty where it is under a key that is not known. Arguments that are missing, where a call of
    this shape has at least empty ones, are given as `{"": None}`.

    Args:
        value: messages, or the input or output of a model call, as they were recorded.
    """
    return _likely(decode(value), _Context.ELSEWHERE, 0)


class _Context(IntEnum):
    """The path to a value, and the shape around it."""

    ELSEWHERE = 0
    MESSAGE = 1
    """In a message, or below a key for calls."""
    CALLS = 2
    """Under a key for calls."""


def _likely(value: Json, context: _Context, depth: int) -> Iterator[tuple[str, JsonObject]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for entry in value:
            inner = _decoded(entry, context)
            if isinstance(inner, dict | list) and not _is_read(inner):
                yield from _likely(inner, context, depth + 1)
        return
    if not isinstance(value, dict) or value.get("role") in ("tool", "function"):
        return
    if read_result(value) is not None:
        return
    is_request = (
        is_request_type(part_kind(value)) or not _FOR_CALLS.isdisjoint(value) or value.keys() >= _ITEM
    )
    if (is_request or context) and (request := _as_request(value, is_request or context is _Context.CALLS)):
        yield request
        return
    inside = _Context.MESSAGE if context or not _OF_MESSAGES.isdisjoint(value) else _Context.ELSEWHERE
    for key, inner in value.items():
        if key in _ASIDE:
            continue
        inner_context = _Context.CALLS if _OF_CALLS.search(key) else inside
        if key == "content" and isinstance(inner, str) and inner.startswith("[{") and '"type"' in inner:
            inner = decode(inner)
        inner = _decoded(inner, max(inner_context, context))
        if isinstance(inner, dict | list):
            yield from _likely(inner, inner_context, depth + 1)


def _decoded(value: Json, context: _Context) -> Json:
    """Return what a JSON text holds, where calls are expected."""
    is_text = isinstance(value, str) and context is _Context.CALLS and value.startswith(("[{", "{"))
    return decode(value) if is_text else value


def _is_read(value: Json) -> bool:
    """Return whether it is a message as the chat API writes it, of which every call is read.

    Most messages are.
    """
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("role"), str)
        or not value.keys() <= _CHAT_KEYS
    ):
        return False
    content, calls = value.get("content"), value.get("tool_calls")
    if not (content is None or isinstance(content, str)):
        return False
    return calls is None or (isinstance(calls, list) and all(map(_is_read_call, calls)))


def _is_read_call(call: Json) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and "name" in function and "arguments" in function


def _as_request(value: JsonObject, is_listed: bool) -> tuple[str, JsonObject] | None:
    """Return the tool call that an object looks like.

    `is_listed` says that nothing but a call is expected there.
    """
    if not value.keys().isdisjoint(_OF_DEFINITIONS | _OF_SPANS):
        return None
    call = read_answered_call(value)[0]
    if call is not None:
        return call.name, call.args or _under_foreign_keys(value) or _missing(value)
    name = next((text for key in _NAMES if isinstance(text := value.get(key), str) and text), None)
    if name is not None:
        for key in _ARGUMENTS:
            arguments = value.get(key)
            if isinstance(arguments, str) and arguments.lstrip().startswith(("{", '"{')):
                return name, read_args(arguments)
            if isinstance(arguments, dict):
                is_schema = key == "parameters" and (
                    not arguments or not arguments.keys().isdisjoint(_OF_SCHEMAS)
                )
                return None if is_schema else (name, arguments)
    return _under_unknown_key(value) if is_listed else None


def _missing(value: JsonObject) -> JsonObject:
    """Return the value that replaces the arguments of a call without any, in a shape that has them.

    Gemini leaves empty arguments out, and the start of a call in a stream of Bedrock has none yet.
    """
    is_chat = "function_call" in value and not value.keys().isdisjoint(("role", "content"))
    has_them = is_chat or is_request_type(part_kind(value))
    return (
        dict(_NOT_RECORDED)
        if has_them and all(holder.keys().isdisjoint(_ARGUMENTS) for holder in _holders(value))
        else {}
    )


def _under_unknown_key(value: JsonObject) -> tuple[str, JsonObject] | None:
    """Return a call whose name or arguments are under a key that is not known.

    It has an id, as no piece of a stream and no definition of a tool has, or is under a key for calls alone.
    """
    holders = _holders(value)
    if not any(isinstance(value.get(key), str) for key in _IDS) and _FOR_CALLS.isdisjoint(value):
        return None
    name = next(
        (text for holder in holders for key in _NAMES if isinstance(text := holder.get(key), str)), ""
    )
    arguments = [holder[key] for holder in holders for key in _ARGUMENTS if key in holder]
    if name:
        guessed = {} if arguments else _under_foreign_keys(value)
        if not guessed and not arguments and isinstance(value.get("function"), dict):
            guessed = dict(_NOT_RECORDED)
        return (name, guessed) if guessed else None
    objects = [text for holder in arguments if isinstance(text := decode(holder), dict)]
    if not objects and value.get("type") == "function":
        objects.append(dict(_NOT_RECORDED))
    return ("", objects[0]) if objects else None


def _under_foreign_keys(value: JsonObject) -> JsonObject:
    """Return the only object in a call that has no arguments, or an empty one."""
    for holder in _holders(value):
        if holder.keys().isdisjoint(_ARGUMENTS):
            others = [decode(inner) for key, inner in holder.items() if key not in (*_WRAPPERS, *_BESIDE)]
            inner_objects = [inner for inner in others if isinstance(inner, dict) and inner]
            if len(inner_objects) == 1:
                return inner_objects[0]
    return {}


def _holders(value: JsonObject) -> list[JsonObject]:
    """Return the call, and the objects in which it may have its name and its arguments."""
    return [value, *(inner for key in _WRAPPERS if isinstance(inner := value.get(key), dict))]
