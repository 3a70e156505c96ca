"""One patched tool: it asks for the recorded result of a call instead of running.

A function is

- a dispatcher, if its first parameter is named like a tool's name (`DISPATCHER_NAMES`) and its second like
  its arguments (`DISPATCHER_ARGS`) or is `**kwargs`; or if its first is the call itself (`DISPATCHER_CALLS`:
  a mapping or object with name and arguments); each after parameters such as `registry`
  (`DISPATCHER_CONTEXT`);
- else a tool: its name is the tool's name; its arguments are those that were passed, positional ones by their
  parameter's name, without `self` and without defaults: that is what the model requested, and what a
  recording contains.

`answers` converts a recorded answer to the type that the function's annotation promises.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

from . import answers, calls, discovery, kinds, replies, shapes, trampoline

DISPATCHER_NAMES = {
    "name", "tool", "tool_name", "toolname", "function", "function_name", "func_name", "fn", "fn_name",
}  # fmt: skip
DISPATCHER_ARGS = {
    "args", "arguments", "input", "inputs", "tool_input", "tool_args", "tool_arguments", "function_args",
    "function_arguments", "kwargs", "params", "parameters", "payload",
}  # fmt: skip
DISPATCHER_CALLS = {"call", "tool_call", "function_call", "tool_use", "block", "tool_block"}
DISPATCHER_CONTEXT = {
    "tools", "registry", "tool_registry", "tool_map", "tools_map", "toolbox", "toolset", "handlers",
    "functions", "available_tools", "available_functions", "session", "client", "agent", "ctx", "context",
    "state", "deps",
}  # fmt: skip
"""Parameters of a dispatcher before those of the call: where it looks tools up."""


FRAMEWORK_ARGS = {"callbacks", "config", "run_manager"}
"""Arguments that LangChain gives to a tool's own method, and no model does."""


class Tool(trampoline.Answering):
    """The replacement of a patched function: it requests the recorded result instead."""

    def __init__(
        self,
        target: discovery.ToolFunction,
        original: Callable[..., Any],
        ask: calls.Ask,
        settled: Collection[str] = (),
    ) -> None:
        """Make what answers a function.

        Args:
            target: the function, as it was discovered.
            original: runs what the function ran before it was patched.
            ask: answers a call.
            settled: names of tools whose results the settings describe, whatever an annotation promises.
        """
        super().__init__(original, ask)
        # Code that searches all objects for the tool by its name must not find this one.
        self.original.__name__ = f"original {self.original.__name__}"
        self.family = target.family
        self._settled = settled
        self.like: Any = target.like or target.function
        """The function whose name and signature are the tool's."""
        self._signature = trampoline.signature_of(self.like)
        self._is_method = target.is_method
        self._has_self = target.is_method and not target.hides_self
        self._takes_input = target.takes_input
        self._is_in_fields = self._has_self and _takes_nothing(self._signature)
        """Where the tool is a class, the fields of its object are the arguments."""
        self._is_member = target.is_member
        self._parameters = _parameters(self._signature, self._has_self)
        self._dispatched = _dispatch_style(self._parameters)
        self._function_name = target.bound_to or self.like.__name__
        self._convert = answers.converter(self.like)
        self.promised = answers.promised(self.like)
        self._is_awaited = shapes.is_async(original)
        self.paths: dict[str, None] = {}
        """Where the function was discovered, as in `app:TOOLS['cancel'].runner`."""
        self.name: str | None = None
        """The tool's name, where a table or object gives it one."""
        self.owners: dict[int, tuple[Any, str | None]] | None = {}
        """Objects whose method is the tool, each with the tool's name; None: every object's is."""
        self.join(target)

    def join(self, target: discovery.ToolFunction) -> None:
        """Take in one more way in which the function was discovered."""
        self.paths[target.path] = None
        if target.owner is None:
            self.name = target.name if self.name is None else self.name
            self.owners = None
        elif self.owners is not None:
            earlier = self.owners.get(id(target.owner), (None, None))[1]
            self.owners[id(target.owner)] = (target.owner, earlier or target.name)

    @property
    def style(self) -> str | None:
        """Return `name` for a dispatcher (name, args), `call` for (tool_call), None for a tool."""
        named = self.name or next((name for _, name in (self.owners or {}).values()), None)
        return None if named or self._is_member else self._dispatched

    @property
    def names(self) -> list[str]:
        """Return the tool names of the patch point; for a dispatcher the function's with `(name, args)`."""
        if self.style:
            return [f"{self._function_name}(name, args)"]
        names = {name for _, name in (self.owners or {}).values()} if self.owners else {self.name}
        return sorted(name or self._function_name for name in names)

    def _runs(self, args: tuple[Any, ...]) -> bool:
        """Return whether a call is none of a tool: of another object, or by the tool itself while it runs."""
        if calls.is_running(self.family):
            return True
        if self.owners is None:
            return False
        owner = args[0] if args else None
        if id(owner) in self.owners:
            return False
        # A copy of a tool has its name, too; an installed package uses other objects itself.
        return self._is_of_library() or (
            self._function_name in kinds.METHODS and kinds.name_of(owner) is None
        )

    def _is_of_library(self) -> bool:
        module = getattr(self.original, "__globals__", {}).get("__name__")
        return module is not None and kinds.is_library(str(module))

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.PatchedCall | None:
        """Return the tool call; None where it is of another object, or by the tool itself while it runs."""
        if self._runs(args):
            return None
        name, owner = self.name, args[0] if args else None
        if self.owners and args:
            # A copy of a tool object has the tool's name, too.
            name = self.owners[id(owner)][1] if id(owner) in self.owners else kinds.name_of(owner)
        if self._is_method:
            args = args[1:]
        style = self.style
        if style == "name":
            called, arguments = _split_dispatch(self._parameters, args, kwargs)
        elif style == "call":
            called, arguments = _read_dispatched(self._parameters, args, kwargs)
        elif self._takes_input:
            called, arguments = name or self._function_name, replies.read_args([*args, *kwargs.values()][-1])
        else:
            called = name or self._function_name
            arguments = trampoline.passed(self._signature, args, kwargs, has_self=self._has_self)
            if self._is_member:
                arguments = _unpacked(_without_framework(arguments), args)
            if self._is_in_fields and self.owners is None:
                arguments = kinds.fields_passed_to(owner)
        call = calls.PatchedCall(called, arguments, self.family, awaits=self._is_awaited)
        if called not in self._settled:
            # What the settings say of a tool's result has been applied, and goes before the annotation.
            call.convert = self._convert
        return call


def _without_framework(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments without those that a framework, and no model, passed."""
    of_models = (str, int, float, list, dict, type(None))
    return {
        name: value
        for name, value in arguments.items()
        if name not in FRAMEWORK_ARGS or isinstance(value, of_models)
    }


def _takes_nothing(signature: inspect.Signature | None) -> bool:
    return signature is not None and len(signature.parameters) == 1


def _unpacked(arguments: dict[str, Any], args: tuple[Any, ...]) -> dict[str, Any]:
    """Return the arguments out of a tool object's only argument, where it got them all in one."""
    if len(args) == 1 and len(arguments) == 1:
        ((name, value),) = arguments.items()
        if name.strip("_").lower() in DISPATCHER_ARGS and isinstance(value, (Mapping, str)):
            unpacked = replies.read_args(value)
            return arguments if "_raw" in unpacked else unpacked
    return arguments


def _parameters(signature: inspect.Signature | None, skip_self: bool) -> list[inspect.Parameter]:
    """Return the parameters of a tool, without `self`."""
    return list(signature.parameters.values())[1 if skip_self else 0 :] if signature else []


def _context(parameters: list[inspect.Parameter]) -> list[str]:
    """Return the names of the parameters before those of a dispatcher's call."""
    return [
        parameter.name
        for parameter in itertools.takewhile(
            lambda parameter: parameter.name in DISPATCHER_CONTEXT, parameters
        )
    ]


def _dispatch_style(parameters: list[inspect.Parameter]) -> str | None:
    """Return `name` for (name, args), `call` for (tool_call), None for a tool."""
    parameters = parameters[len(_context(parameters)) :]
    if not parameters:
        return None
    first = parameters[0].name.lower().strip("_")
    if len(parameters) > 1 and first in DISPATCHER_NAMES:
        second = parameters[1]
        if second.kind is second.VAR_KEYWORD or second.name.lower().strip("_") in DISPATCHER_ARGS:
            return "name"
    return "call" if first in DISPATCHER_CALLS else None


def _without_context(
    parameters: list[inspect.Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a dispatcher was called with, but for what it looks tools up in."""
    context = _context(parameters)
    return args[len(context) :], {name: value for name, value in kwargs.items() if name not in context}


def _split_dispatch(
    parameters: list[inspect.Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return tool name and arguments of a dispatcher's call (name, args) or (name, **kwargs)."""
    args, named = _without_context(parameters, args, kwargs)
    first, second = parameters[len(_context(parameters)) :][:2]
    name = args[0] if args else named.pop(first.name, None)
    if second.kind is second.VAR_KEYWORD:
        return str(name), named
    return str(name), replies.read_args(args[1] if len(args) > 1 else named.get(second.name))


def _read_dispatched(
    parameters: list[inspect.Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return tool name and arguments of a dispatcher's call (tool_call)."""
    args, kwargs = _without_context(parameters, args, kwargs)
    call = replies.read_call(args[0] if args else next(iter(kwargs.values()), None))
    if call is None:
        raise TypeError("the dispatcher was called with something that names no tool")
    return call["name"], call["args"]
