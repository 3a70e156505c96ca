"""The functions inside a decorated one, down to the original, whose name and signature are the tool's.

A decorator counts as part of the tool: it may keep answers from one trial to the next, open a session, or
send something. The decorated function is answered, and so are those inside it, which other code may call.
Only packages that call a function again run around the answer.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from typing import Any

from . import kinds

DEEPEST = 10
"""Decorators around a function that are looked through."""
RETRY_PACKAGES = {"backoff", "opnieuw", "retry", "retrying", "stamina", "tenacity"}
"""Packages whose decorators only call the function again."""


def layers_of(function: Any, name: str | None) -> list[Any]:
    """Return a decorated function, the functions that its decorators put around the original, and this.

    Args:
        function: a function, or a callable object such as a decorator that is a class.
        name: what it is called where it was found; None where that is not known.

    Returns:
        The function itself first and its original last; the function by itself where it is not decorated.
    """
    names = _names_of(function, name)
    layers = [function]
    while len(layers) < DEEPEST:
        inner = _function(_wrapped(layers[-1]))
        if inner is not None and (inner in _inside(layers[-1]) or inner.__name__ in names):
            layers.append(inner)
            continue
        path = _path(layers[-1], names)
        if not path:
            break
        layers += path
    return layers


def only_retries(layers: list[Any]) -> bool:
    """Return whether all decorators around the original only call it again."""
    return all(
        kinds.has_code(layer)
        and str(layer.__globals__.get("__name__", "")).partition(".")[0] in RETRY_PACKAGES
        for layer in layers[:-1]
    )


def inside_proxy(value: Any) -> Any:
    """Return what a proxy of `wrapt` stands for, such as a function in its decorator; else the value."""
    for _ in range(DEEPEST):
        if not any(base.__name__ == "ObjectProxy" for base in type(value).__mro__):
            break
        # A class of this name may be another package's.
        value = kinds.read(value, "__wrapped__", object, value)
    return value


def _names_of(function: Any, name: str | None) -> set[str]:
    """Return the names under which a function is in its modules, beside the one it was found under."""
    spaces = [
        kinds.read(function, "__globals__", dict, {}),
        vars(sys.modules.get(kinds.read(function, "__module__", str, ""), types)),
    ]
    names = {key for space in spaces for key, value in list(space.items()) if value is function}
    names = names or {kinds.read(function, "__name__", str, None)}
    # `functools.wraps` gives a decorated function the name of any function it likes.
    return {entry for entry in names if isinstance(entry, str)} | ({name} if name else set())


def _wrapped(function: Any) -> Any:
    return kinds.read(function, "__dict__", dict, {}).get("__wrapped__")


def _path(function: Any, names: set[str], depth: int = 0) -> list[types.FunctionType]:
    """Return the functions on the path to one of these names, through references of functions."""
    functions = (
        [candidate for candidate in _inside(function) if candidate is not function] if depth < DEEPEST else []
    )
    for inner in functions:
        if inner.__name__ in names:
            return [inner]
    for inner in functions:
        path = _path(inner, names, depth + 1)
        if path:
            return [inner, *path]
    return []


def _inside(function: Any) -> list[types.FunctionType]:
    """Return the functions in the variables of a closure, or in the attributes of an object."""
    values: list[Any] = []
    if kinds.has_code(function):
        for cell in function.__closure__ or ():
            # Of a variable that was not set yet.
            with contextlib.suppress(ValueError):
                values.append(cell.cell_contents)
    elif not isinstance(function, type):
        values = [value for _, value in kinds.attributes(function)]
    return [inner for inner in map(_function, values) if inner is not None]


def _function(value: Any) -> types.FunctionType | None:
    while type(value) in (functools.partial, types.MethodType, staticmethod, classmethod):
        value = value.func if type(value) is functools.partial else value.__func__
    return value if type(value) is types.FunctionType else None
