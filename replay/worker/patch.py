"""Patch points: where an agent's tool calls are answered from outside instead of running.

A point is `module:attr[.attr…]` and may be

- a dispatcher: a function whose first parameter is named like a tool's name (`DISPATCHER_NAMES`) and whose
  second like its arguments (`DISPATCHER_ARGS`) or is `**kwargs`; or whose first is the call itself
  (`DISPATCHER_CALLS`: a mapping or object with name and arguments);
- a tool: any other function. Its name is the tool's name; its arguments are those that were passed,
  positional ones by their parameter's name, and no defaults: that is what the model asked for, and what a
  recording holds;
- a method, named through its class (`self` is left out) or through an object;
- a mapping or list of tools, or a tool object with `name` and `func` or `coroutine` (LangChain).

An async function stays async. Whatever else refers to a patched function (`from tools import f`, a table
of tools, a default argument, a framework's registry) is made to refer to the patch: see `holders`.

`answers` brings a recorded answer into the type that the function promises.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import answers, calls, holders, replies, shapes
else:
    calls = sys.modules["_replaydiff_worker_calls"]
    answers = sys.modules["_replaydiff_worker_answers"]
    holders = sys.modules["_replaydiff_worker_holders"]
    replies = sys.modules["_replaydiff_worker_replies"]
    shapes = sys.modules["_replaydiff_worker_shapes"]

Ask = Callable[[str, dict[str, Any]], Any]
"""Tool name and arguments → the answer."""

DISPATCHER_NAMES = {
    "name", "tool", "tool_name", "toolname", "function", "function_name", "func_name", "fn", "fn_name",
}  # fmt: skip
DISPATCHER_ARGS = {
    "args", "arguments", "input", "inputs", "tool_input", "tool_args", "tool_arguments", "function_args",
    "function_arguments", "kwargs", "params", "parameters", "payload",
}  # fmt: skip
DISPATCHER_CALLS = {"call", "tool_call", "function_call", "tool_use", "block", "tool_block"}


def apply(points: list[str], ask: Ask) -> None:
    """Put every patch point's tools in the hands of `ask`.

    Raises:
        shapes.Unusable: a point does not exist, or cannot be patched.
    """
    swaps: list[tuple[Any, Any]] = []
    for point in points:
        module_name, _, attributes = point.partition(":")
        if not attributes:
            raise shapes.Unusable(f"the patch point {point!r} must be written `module:attr`; check `tools`")
        owner: Any = None
        found, path, name = shapes.import_module(module_name, "patch point", "tools"), module_name, ""
        for name in attributes.split("."):
            owner, found = found, shapes.attribute(found, name, path)
            path = f"{path}.{name}"
        swaps += _patch(owner, name, found, point, ask)
    holders.replace_everywhere(swaps)


def _patch(owner: Any, name: str, found: Any, point: str, ask: Ask) -> list[tuple[Any, Any]]:
    """Patch one point; gives what was replaced, with its replacement."""
    if isinstance(found, (MutableMapping, list)):
        places = list(found.items()) if isinstance(found, MutableMapping) else list(enumerate(found))
        swaps = [swap for key, tool in places for swap in _patch_entry(found, key, tool, ask)]
    elif isinstance(found, (tuple, Mapping)):
        raise shapes.Unusable(
            f"the patch point {point} is read-only; make it a list or dict, or name its tools"
        )
    elif _is_tool_object(found):
        swaps = _patch_tool_object(found, ask)
    elif inspect.isclass(found) or not callable(found):
        swaps = []
    else:
        raw = inspect.getattr_static(owner, name)
        of_class = inspect.isclass(owner) and not isinstance(raw, (staticmethod, classmethod))
        new = _replacement(found, None, ask, skip_self=of_class)
        setattr(owner, name, staticmethod(new) if inspect.isclass(owner) and not of_class else new)
        original = getattr(found, "__func__", found) if inspect.isclass(owner) else found
        swaps = [(original, new)]
    if not swaps:
        raise shapes.Unusable(
            f"the patch point {point} is {replies.in_words(found)}; it must be a function, a method, "
            "a tool object, or a dict or list of them"
        )
    return swaps


def _patch_entry(table: Any, key: Any, tool: Any, ask: Ask) -> list[tuple[Any, Any]]:
    """Patch one tool of a table: a function, a tool object, or a mapping with a function in it."""
    name = key if isinstance(key, str) else None
    if _is_tool_object(tool):
        return _patch_tool_object(tool, ask)
    if isinstance(tool, MutableMapping):
        named = tool.get("name")
        name = named if isinstance(named, str) else name
        inner = [(field, value) for field, value in tool.items() if inspect.isroutine(value)]
        swaps = [(value, _replacement(value, name, ask)) for _, value in inner]
        for index, (field, _) in enumerate(inner):
            tool[field] = swaps[index][1]
        return swaps
    if not callable(tool) or inspect.isclass(tool):
        return []
    new = _replacement(tool, name, ask)
    table[key] = new
    return [(tool, new)]


def _is_tool_object(value: Any) -> bool:
    return isinstance(getattr(value, "name", None), str) and any(
        inspect.isroutine(getattr(value, field, None)) for field in ("func", "coroutine")
    )


def _patch_tool_object(tool: Any, ask: Ask) -> list[tuple[Any, Any]]:
    swaps = []
    for field in ("func", "coroutine"):
        function = getattr(tool, field, None)
        if inspect.isroutine(function):
            new = _replacement(function, tool.name, ask, dispatches=False)
            setattr(tool, field, new)
            swaps.append((function, new))
    return swaps


# --- the function in a tool's place ---------------------------------------------------------------


def _replacement(
    original: Callable[..., Any],
    name: str | None,
    ask: Ask,
    *,
    skip_self: bool = False,
    dispatches: bool = True,
) -> Callable[..., Any]:
    """A function that asks instead of running `original`; `name` where a table gives the tool one."""
    signature = _signature(original)
    style = _dispatch_style(signature, skip_self) if dispatches and name is None else None
    convert = answers.converter(original)
    tool_name = name or getattr(original, "__name__", None) or type(original).__name__

    def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if skip_self:
            args = args[1:]
        if style == "name":
            called, given = _split_dispatch(signature, args, kwargs, skip_self)
        elif style == "call":
            called, given = _read_dispatched(args, kwargs)
        else:
            called, given = tool_name, _passed(signature, args, kwargs, skip_self)
        return ask(called, given)

    # The original is kept in `__wrapped__`: whatever else refers to it will refer to the patch.
    def patched(*args: Any, **kwargs: Any) -> Any:
        answer = asked(args, kwargs)
        if isinstance(answer, calls.Live):
            return answer.run(lambda: new.__wrapped__(*args, **kwargs))
        return convert(answer)

    async def patched_async(*args: Any, **kwargs: Any) -> Any:
        answer = asked(args, kwargs)
        if isinstance(answer, calls.Live):
            return await answer.wait(new.__wrapped__(*args, **kwargs))
        return convert(answer)

    new: Any = patched_async if shapes.is_async(original) else patched
    assigned = [field for field in functools.WRAPPER_ASSIGNMENTS if hasattr(original, field)]
    functools.update_wrapper(new, original, assigned=assigned)
    replacement: Callable[..., Any] = new
    return replacement


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _dispatch_style(signature: inspect.Signature | None, skip_self: bool) -> str | None:
    """`name` for (name, args), `call` for (tool_call), None for a tool."""
    parameters = list(signature.parameters.values())[1 if skip_self else 0 :] if signature else []
    if not parameters:
        return None
    first = parameters[0].name.lower().strip("_")
    if len(parameters) > 1 and first in DISPATCHER_NAMES:
        second = parameters[1]
        if second.kind is second.VAR_KEYWORD or second.name.lower().strip("_") in DISPATCHER_ARGS:
            return "name"
    return "call" if first in DISPATCHER_CALLS else None


def _passed(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any], skip_self: bool
) -> dict[str, Any]:
    """The arguments by name, those that were passed and no others."""
    if not args:
        return dict(kwargs)
    if signature is None:
        return {**{f"_{index}": value for index, value in enumerate(args)}, **kwargs}
    try:
        bound = signature.bind_partial(*((None, *args) if skip_self else args), **kwargs).arguments
    except TypeError:
        # The real tool would have refused this call, and its recording, if there is one, holds that error.
        return {**{f"_{index}": value for index, value in enumerate(args)}, **kwargs}
    named: dict[str, Any] = {}
    for index, (name, value) in enumerate(bound.items()):
        kind = signature.parameters[name].kind
        if skip_self and index == 0:
            continue
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return named


def _split_dispatch(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any], skip_self: bool
) -> tuple[str, dict[str, Any]]:
    """Tool name and arguments out of a dispatcher's call (name, args) or (name, **kwargs)."""
    parameters = list(signature.parameters.values())[1 if skip_self else 0 :] if signature else []
    first, second = parameters[0], parameters[1]
    rest = dict(kwargs)
    name = args[0] if args else rest.pop(first.name, None)
    if second.kind is second.VAR_KEYWORD:
        return str(name), rest
    return str(name), replies.read_args(args[1] if len(args) > 1 else rest.get(second.name))


def _read_dispatched(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    call = replies.read_call(args[0] if args else next(iter(kwargs.values()), None))
    if call is None:
        raise TypeError("the dispatcher was called with something that names no tool")
    return call["name"], call["args"]
