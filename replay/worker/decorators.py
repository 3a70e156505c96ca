"""What a decorator made of a function: the function inside it, and whether the decorator may run.

A decorator that only retries, times or logs keeps running, and the function inside it is answered. Any other
is taken as part of the tool, and the decorated function is answered as a whole: a decorator may keep answers
from one trial to the next, open a session, or send something.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import logging
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from . import kinds

DEEPEST = 10
"""Decorators around a function that are looked through."""
RETRY_PACKAGES = {"backoff", "opnieuw", "retry", "retrying", "stamina", "tenacity"}
"""Packages whose decorators only call the function again."""
PLUMBING_MODULES = {"asyncio", "functools", "logging", "math", "random", "time", "traceback", "warnings"}
"""Modules that a decorator which only retries, times or logs may use."""
PLUMBING_ATTRIBUTES = {
    "CancelledError", "TimeoutError", "__name__", "__qualname__", "debug", "error", "exception", "getLogger",
    "info", "iscoroutinefunction", "monotonic", "perf_counter", "random", "sleep", "time", "timeout",
    "uniform", "wait_for", "warning",
}  # fmt: skip
"""What such a decorator may use of anything, where it uses asyncio."""
PLUMBING_BUILTINS = {
    "abs", "bool", "callable", "dict", "enumerate", "float", "format", "getattr", "hasattr", "int",
    "isinstance", "issubclass", "iter", "len", "list", "max", "min", "next", "print", "range", "repr",
    "reversed", "round", "str", "sum", "super", "tuple", "type", "zip",
}  # fmt: skip
CHANGING = re.compile("STORE_(GLOBAL|NAME|ATTR|SUBSCR|SLICE)|DELETE_(GLOBAL|NAME|ATTR|SUBSCR)|IMPORT_")
"""Instructions that change something which outlives the call."""
_WRAPPERS = {"FunctionWrapper", "BoundFunctionWrapper"}
_PROXIES = {"CallableObjectProxy", "ObjectProxy"}
"""Classes of `wrapt`: of functions with a function around them, and of what is only passed on."""
CONSTANTS = (str, bytes, int, float, complex, bool, type(None), logging.Logger)


def names_of(function: Any, name: str | None) -> set[str]:
    """Return the names under which a function is found in its modules, beside the one it was found under."""
    spaces = [
        kinds.read(function, "__globals__", dict, {}),
        vars(sys.modules.get(kinds.read(function, "__module__", str, ""), types)),
    ]
    names = {key for space in spaces for key, value in list(space.items()) if value is function}
    names = names or {kinds.read(function, "__name__", str, None)}
    # `functools.wraps` gives a decorated function the name of any function it likes.
    return {each for each in names if isinstance(each, str)} | ({name} if name else set())


def layers_of(function: Any, name: str | None) -> list[Any]:
    """Return a decorated function, the functions that its decorators put around the original, and this.

    Args:
        function: a function, or a callable object such as a decorator that is a class.
        name: what it is called where it was found; None where that is not known.

    Returns:
        The function itself first and its original last; the function by itself where it is not decorated.
    """
    names = names_of(function, name)
    layers, current = [function], function
    while len(layers) < DEEPEST:
        wrapped = _function(_wrapped(current))
        if wrapped is not None and (_calls(current, wrapped) or wrapped.__name__ in names):
            layers.append(wrapped)
            current = wrapped
            continue
        path = _path(current, names)
        if not path:
            break
        layers += path
        current = path[-1]
    return layers


def only_plumbing(layers: list[Any]) -> bool:
    """Return whether all decorators around the original only retry, time or log, and call it."""
    return all(
        type(layer) is types.FunctionType and _is_plumbing(layer, inner)
        for layer, inner in zip(layers, layers[1:])  # noqa: B905, RUF007 - Python 3.9
    )


def inside_proxy(value: Any) -> Any:
    """Return what a proxy of `wrapt` stands for, if it adds nothing but retries, times or logs.

    Any other value is returned as it is, and so is any other proxy.
    """
    if not _is_proxy(value):
        return value
    kind = type(value)
    if kind.__name__ in _WRAPPERS:
        wrapper = getattr(value, "_self_wrapper", None)
        is_plain = type(wrapper) is types.FunctionType and _only_calls(wrapper)
    else:
        is_plain = kind.__name__ in _PROXIES
    return value.__wrapped__ if is_plain else value


def _is_proxy(value: Any) -> bool:
    """Return whether an object is a proxy of `wrapt`."""
    return any(base.__name__ == "ObjectProxy" for base in type(value).__mro__)


def _only_calls(wrapper: types.FunctionType) -> bool:
    return all(map(_is_harmless, _cell_values(wrapper))) and all(
        _is_plumbing_code(code, wrapper.__globals__) for code in _codes(wrapper.__code__)
    )


def _wrapped(function: Any) -> Any:
    if _is_proxy(function):
        # It hides its own attributes behind those of the function.
        return getattr(function, "__wrapped__", None)
    return kinds.read(function, "__dict__", dict, {}).get("__wrapped__")


def _calls(function: Any, wrapped: types.FunctionType) -> bool:
    """Return whether a function refers to the one it wraps, directly or through a global variable."""
    if any(_function(value) is wrapped for value in _references(function)):
        return True
    code, space = (
        kinds.read(function, "__code__", types.CodeType, None),
        kinds.read(function, "__globals__", dict, {}),
    )
    return code is not None and any(
        space.get(name) is wrapped for each in _codes(code) for name in each.co_names
    )


def _path(function: Any, names: set[str], depth: int = 0) -> list[types.FunctionType]:
    """Return the functions on the path to one of these names, through references of functions."""
    for value in _references(function) if depth < DEEPEST else ():
        inner = _function(value)
        if inner is not None and inner.__name__ in names and inner is not function:
            return [inner]
    for value in _references(function) if depth < DEEPEST else ():
        inner = _function(value)
        if inner is not None and inner is not function:
            path = _path(inner, names, depth + 1)
            if path:
                return [inner, *path]
    return []


def _is_plumbing(layer: types.FunctionType, inner: Any) -> bool:
    if str(layer.__globals__.get("__name__", "")).partition(".")[0] in RETRY_PACKAGES:
        return True
    if not any(value is inner for value in _cell_values(layer)):
        return False
    if not all(value is inner or _is_harmless(value) for value in _cell_values(layer)):
        return False
    return all(_is_plumbing_code(code, layer.__globals__) for code in _codes(layer.__code__))


def _is_plumbing_code(code: types.CodeType, space: dict[str, Any]) -> bool:
    modules, attributes = set(), set()
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if CHANGING.match(instruction.opname):
            return False
        if instruction.opname == "STORE_DEREF" and name in code.co_freevars:
            return False
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(name)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = space[name] if name in space else _builtin(name)
            if isinstance(value, types.ModuleType):
                modules.add(value.__name__)
            elif not _is_harmless(value):
                return False
    # Other functions of asyncio start programs and open connections.
    return modules <= PLUMBING_MODULES and ("asyncio" not in modules or attributes <= PLUMBING_ATTRIBUTES)


def _builtin(name: str) -> Any:
    """Return a built-in error, None for a function that changes nothing, and else something harmful."""
    return None if name in PLUMBING_BUILTINS else getattr(builtins, name, object)


def _is_harmless(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return all(_is_harmless(each) for each in value)
    if isinstance(value, type):
        return issubclass(value, BaseException)
    return isinstance(value, CONSTANTS) or getattr(value, "__module__", None) in ("time", "random", "math")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _references(function: Any) -> list[Any]:
    if type(function) is types.FunctionType:
        return _cell_values(function)
    if isinstance(function, type):
        return []
    return [value for _, value in kinds.attributes(function)]


def _cell_values(function: types.FunctionType) -> list[Any]:
    values = []
    for cell in function.__closure__ or ():
        # Of a variable that was not set yet.
        with contextlib.suppress(ValueError):
            values.append(cell.cell_contents)
    return values


def _function(value: Any) -> types.FunctionType | None:
    while type(value) in (functools.partial, types.MethodType, staticmethod, classmethod):
        value = value.func if type(value) is functools.partial else value.__func__
    return value if type(value) is types.FunctionType else None
