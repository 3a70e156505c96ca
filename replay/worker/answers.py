"""A recorded answer in the type that the patched function's return annotation promises.

| annotation | a recorded text | another recorded value |
|---|---|---|
| `str`, `str \\| None` | unchanged | its JSON text; None stays |
| `bool`, `int`, `float`, `None`, `list`, `dict`, … | decoded, where it is JSON of such a value | unchanged |
| a dataclass or pydantic model, also within a list or dict | decoded and built | built |
| a union without `str` | as its first member that the JSON text fits | as its first member that fits |
| `Any`, a union with `str` and others, none | unchanged | unchanged |

What does not fit is answered as it was recorded: an older recording, a shortened one, an error text.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Collection
from typing import Any

_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_SCALARS: dict[Any, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (float, int)}
"""Annotation → the types of values that fit it."""
_PYTHON = {"True": True, "False": False, "None": None}
"""What `str` makes of values, as some agents log them."""


def converter(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what converts a recorded answer to the type that the function's annotation promises."""
    annotation = _returned(function)
    form = _form(annotation)
    if form == "text":
        return _as_text
    return functools.partial(_as_value, annotation) if form == "json" else lambda answer: answer


def promised(function: Callable[..., Any]) -> str | None:
    """Return `text` or `json`: what the function's annotation promises; None where it promises neither."""
    return _form(_returned(function))


def _returned(function: Callable[..., Any]) -> Any:
    """Return the annotated return type; `Any` where there is none, or where it cannot be resolved."""
    try:
        inspect.unwrap(function)  # raises where it never ends, as below
        return typing.get_type_hints(function).get("return", Any)
    except Exception:
        return Any


def _form(annotation: Any) -> str | None:
    members = _members(annotation)
    if members == [str]:
        return "text"
    return "json" if all(_is_value(member) for member in members) else None


def _members(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows, without `None`."""
    if typing.get_origin(annotation) in _UNIONS:
        return [member for alternative in typing.get_args(annotation) for member in _members(alternative)]
    return [] if annotation is type(None) else [annotation]


def _is_model(origin: Any) -> bool:
    return dataclasses.is_dataclass(origin) or hasattr(origin, "model_validate")


def _is_value(member: Any) -> bool:
    """Return whether JSON writes the values of a type as something other than text."""
    origin = typing.get_origin(member) or member
    if not isinstance(origin, type) or issubclass(origin, (str, bytes)):
        return False
    return origin in _SCALARS or _is_model(origin) or issubclass(origin, Collection)


def _as_text(answer: Any) -> Any:
    return answer if answer is None or isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _as_value(annotation: Any, answer: Any) -> Any:
    value = answer
    if isinstance(answer, str):
        try:
            value = _PYTHON[answer] if answer in _PYTHON else json.loads(answer)
        except ValueError:
            return answer
    members = _members(annotation)
    if value is None or any(_fits(member, value) for member in members):
        return _built(members, value)
    return answer


def _fits(member: Any, value: Any) -> bool:
    origin = typing.get_origin(member) or member
    if origin in _SCALARS:
        return type(value) in _SCALARS[origin]
    return _is_value(member) and isinstance(value, (dict, list))


def _model(model: Any, value: Any) -> Any:
    """Return an object of a dataclass or pydantic model; the value where it is older than the class."""
    try:
        return model.model_validate(value) if hasattr(model, "model_validate") else model(**value)
    except Exception:
        return value


def _built(members: list[Any], value: Any) -> Any:
    """Return a value as the first of the types that can be built of it; itself where none can."""
    for member in members:
        if not _fits(member, value):
            continue
        origin, inner = typing.get_origin(member) or member, typing.get_args(member)
        if _is_model(origin):
            model = _model(origin, value)
            if model is not value:
                return model
        elif isinstance(value, dict) and len(inner) == 2:
            return {key: _built(_members(inner[1]), entry) for key, entry in value.items()}
        elif isinstance(value, list):
            values = [_built(_members(inner[0]), entry) for entry in value] if len(inner) == 1 else value
            return origin(values) if origin in (tuple, set, frozenset) else values
    return value
