"""Find what looks like a requested tool call in a record, whether or not its shape is known.

`count_requests` counts entries where calls usually are. This looks everywhere in and around messages: under
keys that nothing reads (`"calls": [{"name": …, "args": …}]`), and under known keys whose value has another
shape. What is found here and is no call of the trace was left out, and the import notes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaydiff.replay.messages.content import read_result
from replaydiff.replay.messages.decode import decode, read_args
from replaydiff.replay.model import Json, JsonObject

_NAMES = ("name", "tool_name", "toolName", "function_name", "function", "tool")
_ARGUMENTS = ("arguments", "args", "input", "parameters", "tool_input", "toolInput")
_OF_CALLS = re.compile("call|tool|function|action", re.IGNORECASE)
"""What a key that calls stand under has in it."""
_OF_DEFINITIONS = {"description", "input_schema", "inputSchema", "parameters_json_schema", "strict"}
"""Keys that a definition of a tool has, and a call of it has not."""
_CHAT_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name"}
_OF_SCHEMAS = {"properties", "$schema", "type"}
_OF_SPANS = {"startTime", "start_time", "started_at", "traceId", "trace_id"}
_ASIDE = {
    "metadata",
    "usage",
    "tools",
    "tool_definitions",
    "invocation_params",
    "response_metadata",
    "result",
}
"""Keys below which there are no requests of the model."""
_DEEPEST = 12


def likely_requests(value: Json) -> Iterator[tuple[str, JsonObject]]:
    """Yield the name and the arguments of each object that looks like a requested tool call.

    Args:
        value: messages, or the input or output of a model call, as they were recorded.
    """
    return _likely(decode(value), False, 0)


def _likely(value: Json, is_near: bool, depth: int) -> Iterator[tuple[str, JsonObject]]:
    """The same; `is_near` says that the value stands in a message, or under a key for calls."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list) and not _is_read(one):
                yield from _likely(one, is_near, depth + 1)
        return
    if not isinstance(value, dict) or value.get("role") in ("tool", "function"):
        return
    if is_near and (found := _as_request(value)) is not None:
        yield found
        return
    if read_result(value) is not None:
        return
    in_message = is_near or "role" in value or "content" in value
    for key, inner in value.items():
        if isinstance(inner, dict | list) and key not in _ASIDE:
            yield from _likely(inner, in_message or _OF_CALLS.search(key) is not None, depth + 1)


def _is_read(value: Json) -> bool:
    """Whether it is a message as the chat API writes it, of which every call is read. Most messages are."""
    if not isinstance(value, dict) or "role" not in value or not value.keys() <= _CHAT_KEYS:
        return False
    content, calls = value.get("content"), value.get("tool_calls")
    if not (content is None or isinstance(content, str)):
        return False
    return calls is None or (
        isinstance(calls, list) and all(isinstance(call, dict) and "function" in call for call in calls)
    )


def _as_request(value: JsonObject) -> tuple[str, JsonObject] | None:
    name = next((found for key in _NAMES if isinstance(found := value.get(key), str) and found), None)
    if name is None or not value.keys().isdisjoint(_OF_DEFINITIONS | _OF_SPANS):
        return None
    for key in _ARGUMENTS:
        given = value.get(key)
        if isinstance(given, str) and given.lstrip().startswith(("{", '"{')):
            return name, read_args(given)
        if isinstance(given, dict):
            is_schema = key == "parameters" and (not given or not given.keys().isdisjoint(_OF_SCHEMAS))
            return None if is_schema else (name, given)
    return None
