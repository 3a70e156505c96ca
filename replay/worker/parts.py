"""Note when a part of a listed tool's work runs that no recording answers.

A part is a function that the tool's code calls, or another method of its object. An answered tool does not
run, so neither do its parts, unless the agent calls them by itself. What such a part writes through a file or
database that was opened before the trial is seen by no audit event. So it is noted that it ran, and the
engine, which sees the files of a trial, decides whether that was an effect.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import calls, kinds, trampoline

DEEPEST = 4
"""Tables and attributes within each other that are looked into."""
HANDLES = ("_io", "sqlite3")
"""Modules whose objects are open files and databases."""
Note = Callable[[str, bool], None]
KINDS = ("function", "coroutine", "generator")
"""Kinds of functions that are watched. What is sent into an async generator would not reach it."""


class PartOfTool(trampoline.Handler):
    """A function that notes its first call in a trial, and then runs as it was written."""

    answers = False

    def __init__(self, function: types.FunctionType, path: str, note: Note) -> None:
        """Watch a function; `note` gets the path, and whether the function gets an open file or database."""
        self.path, self._function, self._note = path, function, note
        self.written = function.__code__
        self._original = trampoline.copied(function)
        trampoline.replace_code(function, self)
        self._watched = function.__code__

    def arm(self) -> None:
        """Note the next call."""
        if self._function.__code__ is self.written:
            self._function.__code__ = self._watched

    def disarm(self) -> None:
        """Run as written."""
        if self._function.__code__ is self._watched:
            self._function.__code__ = self.written

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a plain function."""
        self._begin(args, kwargs)
        return self._original(*args, **kwargs)

    async def wait(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an async function."""
        self._begin(args, kwargs)
        return await self._original(*args, **kwargs)

    def generate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a generator."""
        self._begin(args, kwargs)
        return (yield from self._original(*args, **kwargs))

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # What a tool calls that may run is its own work.
        if not calls.is_running():
            self.disarm()
            gets_file = any(type(value).__module__ in HANDLES for value in (*args, *kwargs.values()))
            self._note(self.path, gets_file)


def can_be_watched(function: Any) -> bool:
    """Return whether a value is a function of the agent that runs as it was written."""
    if not kinds.has_code(function) or kinds.is_library(str(function.__module__)):
        return False
    return trampoline.kind_of(function.__code__) in KINDS and trampoline.handler_of(function) is None


def used_by(function: types.FunctionType) -> Iterator[types.FunctionType]:
    """Yield the functions of the agent that a function calls, and those that these call, by their names.

    Args:
        function: of a tool, as it was written.
    """
    seen, waiting = {function.__code__}, [function]
    while waiting:
        for called in _called_by(waiting.pop()):
            if can_be_watched(called) and called.__code__ not in seen:
                seen.add(called.__code__)
                waiting.append(called)
                yield called


def _called_by(function: types.FunctionType) -> Iterator[Any]:
    names = kinds.names_in(function.__code__)
    spaces = [{name: function.__globals__.get(name) for name in names}]
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())  # noqa: B905 - Python 3.9
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # of a variable that was not set yet
            spaces.append({name: cell.cell_contents})
    spaces.append({"self": function.__globals__.get(function.__qualname__.partition(".")[0])})
    for space in spaces:
        for value in space.values():
            yield from _functions_in(value, names)


def _functions_in(value: Any, names: set[str], depth: int = 0) -> Iterator[Any]:
    """Yield the functions that code with these names may call of a value that it names."""
    inner: list[Any] = []
    if isinstance(value, (types.FunctionType, types.MethodType, functools.partial, kinds.CACHE)):
        yield getattr(kinds.code_of(value), "func", kinds.code_of(value))
    elif isinstance(value, types.ModuleType):
        inner = [vars(value)[name] for name in names & vars(value).keys()]
    elif kinds.is_table(value):
        inner = list(value.values() if isinstance(value, Mapping) else value)
    else:
        for base in (value if isinstance(value, type) else type(value)).__mro__:
            methods = vars(base).items() if kinds.is_agents(base) else ()
            yield from (kinds.code_of(method) for name, method in methods if name in names)
        if not isinstance(value, type) and kinds.is_agents(type(value)):
            inner = [attribute for name, attribute in kinds.attributes(value) if name in names]
    for member in inner if depth < DEEPEST else ():
        yield from _functions_in(member, names, depth + 1)
