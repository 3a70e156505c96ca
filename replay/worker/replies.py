"""Reading what an agent returned, and writing any value as JSON.

An agent answers with a string; or with a mapping or object that has one of `TEXT_FIELDS`, or `messages` that
end in the answer; optionally `tool_calls` or `steps`, `usage` and `cost_usd`.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import json
import math
from collections.abc import Mapping
from typing import Any

from . import failures

TEXT_FIELDS = ("final_response", "text", "content", "result", "answer", "final_output", "output", "reply")
NAME_FIELDS = ("name", "tool_name", "toolName", "tool")
ARGS_FIELDS = ("args", "arguments", "input", "tool_input", "parameters")
ALLOWED = f"a string, or a mapping or object with {', '.join(TEXT_FIELDS[:-1])} or {TEXT_FIELDS[-1]}"
MISSING = object()


def read_answer(value: Any) -> dict[str, Any]:
    """Return what the agent answered: text, tool calls (None where it does not tell), usage, cost.

    Raises:
        failures.InvalidAnswerError: it is no answer.
    """
    if isinstance(value, str):
        return {"text": str(value), "tool_calls": None, "usage": None, "cost_usd": None}
    if isinstance(value, (bool, int, float, bytes, list, tuple, set, type)) or value is None:
        raise failures.InvalidAnswerError(f"the agent returned {in_words(value)}; allowed is {ALLOWED}")
    calls = _calls(value)
    messages = _field(value, "messages")
    messages = messages if isinstance(messages, (list, tuple)) else ()
    return {
        "text": _answer_text(value, messages, calls),
        "tool_calls": _calls_of_messages(messages) if calls is None and messages else calls,
        "usage": _usage(value),
        "cost_usd": _field(value, "cost_usd", None),
    }


def _usage(value: Any) -> Any:
    usage = _field(value, "usage", None)
    if usage is None:
        # OpenAI Agents keep it with the context of the run.
        usage = _field(_field(value, "context_wrapper", None), "usage", None)
    return usage() if inspect.ismethod(usage) else usage


def read_call(value: Any) -> dict[str, Any] | None:
    """Return a tool call as agents write it: a mapping, an object, or (name, args); None where it is none."""
    if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], str):
        return {"name": value[0], "args": read_args(value[1])}
    source = _field(value, "function", None) or value
    name = next(
        (field_value for field in NAME_FIELDS if isinstance(field_value := _field(source, field), str)), None
    )
    if name is None:
        return None
    args = next(
        (field_value for field in ARGS_FIELDS if (field_value := _field(source, field)) is not MISSING), None
    )
    call = {"name": name, "args": read_args(args)}
    for field in ("id", "result", "error"):
        field_value = _field(value, field)
        if field_value is not MISSING:
            call[field] = field_value
    return call


def read_args(args: Any) -> dict[str, Any]:
    """Return arguments as an object: a JSON string is decoded, other text is kept as `{"_raw": text}`."""
    if isinstance(args, str):
        try:
            decoded = json.loads(args) if args.strip() else {}
        except ValueError:
            decoded = None
        return decoded if isinstance(decoded, dict) else {"_raw": args}
    if args is None:
        return {}
    if type(args) is dict:
        return dict(args)
    args = args if isinstance(args, Mapping) else plain(args)
    return dict(args) if isinstance(args, Mapping) else {"_raw": str(args)}


def _answer_text(value: Any, messages: Any, calls: Any) -> str | None:
    for name in TEXT_FIELDS:
        text = _field(value, name)
        if text is not MISSING and not callable(text):
            return _text(text)
    for message in reversed(messages):
        if _role(message) == "assistant":
            return _text(_field(message, "content", None))
    if calls:
        return None
    fields = list(value) if isinstance(value, Mapping) else list(getattr(value, "__dict__", ()))
    has = f" with {', '.join(map(str, fields[:8]))}" if fields else ""
    raise failures.InvalidAnswerError(f"the agent returned {in_words(value)}{has}; allowed is {ALLOWED}")


def _text(value: Any) -> str | None:
    """Return the text of a field: as it is, the text blocks of a list joined, anything else as JSON.

    Raises:
        failures.InvalidAnswerError: it is a number that is none, or a call that was never awaited.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise failures.InvalidAnswerError(f"the agent's answer is {value}; allowed is {ALLOWED}")
    if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        raise failures.InvalidAnswerError(
            f"the agent's answer is {in_words(value)}, which nobody awaited or read; allowed is {ALLOWED}"
        )
    if isinstance(value, (list, tuple)) and value:
        parts = [part if isinstance(part, str) else _field(part, "text", None) for part in value]
        if any(isinstance(part, str) for part in parts):
            return "".join(part for part in parts if isinstance(part, str))
    return json.dumps(with_text_keys(value), default=plain, ensure_ascii=False)


def _calls(value: Any) -> list[dict[str, Any]] | None:
    """Return the calls in `tool_calls`, `steps`, or `new_items` (OpenAI Agents); None without any."""
    for name in ("tool_calls", "steps"):
        items = _field(value, name)
        if isinstance(items, (list, tuple)):
            return _calls_in(items, steps=name == "steps")
    items = _field(value, "new_items")
    if isinstance(items, (list, tuple)):
        # A handoff is written like a call, and calls no tool.
        calls = [item for item in items if _field(item, "type", None) != "handoff_call_item"]
        raw = [_field(item, "raw_item", None) for item in calls]
        return _calls_in([item for item in raw if _field(item, "type", None) == "function_call"])
    return None


def _calls_in(values: Any, *, steps: bool = False) -> list[dict[str, Any]]:
    """Return the calls among these values. A step is one only where it has arguments, not just a name."""
    calls: list[dict[str, Any]] = []
    for value in values:
        inner = _field(value, "tool_calls", None)
        if isinstance(inner, (list, tuple)):
            calls += _calls_in(inner)
            continue
        call = read_call(value)
        if call and not (steps and all(_field(value, name) is MISSING for name in ARGS_FIELDS)):
            calls.append(call)
    return calls


def _calls_of_messages(messages: Any) -> list[dict[str, Any]]:
    """Return the calls after the last user message: earlier ones are history."""
    last_user = max((index for index, message in enumerate(messages) if _role(message) == "user"), default=-1)
    return _calls_in(
        [
            message
            for message in messages[last_user + 1 :]
            if isinstance(_field(message, "tool_calls", None), list)
        ]
    )


def _role(message: Any) -> str | None:
    """Return OpenAI's `role`, or LangChain's `type`, in OpenAI's words."""
    role = _field(message, "role", None) or _field(message, "type", None)
    return {"ai": "assistant", "human": "user"}.get(role, role) if isinstance(role, str) else None


def _field(value: Any, name: str, default: Any = MISSING) -> Any:
    # Most are dicts, and looking for an abstract class takes longer than all the rest.
    if type(value) is dict or isinstance(value, Mapping):
        return value.get(name, default)
    try:
        return getattr(value, name, default)
    except Exception:
        return default


def in_words(value: Any) -> str:
    """Return what a value is, in words: `None`, `an int (3)`, `a list`, `an Answer`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{article} {name} ({value})" if isinstance(value, (bool, int, float)) else f"{article} {name}"


def plain(value: Any) -> Any:
    """Return a JSON value of anything else: pydantic models, dataclasses, sets, dates, enums; or its text."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if hasattr(value, "__dict__") and not callable(value) and _has_no_text(value):
        return dict(vars(value))
    return str(value)


def _has_no_text(value: Any) -> bool:
    """Return whether `str` would only give the address of the object, which is another one each time."""
    cls: Any = type(value)
    return cls.__str__ is object.__str__ and cls.__repr__ is object.__repr__


def with_text_keys(value: Any) -> Any:
    """Return the value with every key of its mappings as text."""
    if isinstance(value, Mapping):
        return {str(key): with_text_keys(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_text_keys(inner) for inner in value]
    return value
