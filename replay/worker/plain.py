"""Patch points that are functions of modules, and whether they still are what was patched.

To find the tools of a patch point takes as long as all else that a worker does for a quick trial. A function
that a module holds, patched itself, leads nowhere else: to see that it is still there, with the same code, is
to find it again.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import discovery, trampoline
else:
    trampoline = sys.modules["_replaydiff_worker_trampoline"]


class PlainPoints:
    """The functions behind all patch points, where each point is one of a module."""

    def __init__(self, points: list[str]) -> None:
        """Know nothing of what the points hold.

        Args:
            points: all patch points, `module:attr[.attr…]`; none where there are others than these.
        """
        self._points = points
        self._functions: list[tuple[types.ModuleType, str, types.FunctionType, types.CodeType]] = []
        """Module, name, function and its code; empty where a point leads to anything else."""
        self._modules: list[tuple[str, Any]] = []

    def keep(self, found: discovery.Discovery, modules: Iterable[str]) -> None:
        """Take in what was just patched.

        Args:
            found: what the points lead to.
            modules: names of the modules that hold tools.
        """
        self._functions = []
        if found.tables or found.caches or found.partials or found.classes or found.aliases:
            return
        names = {*modules, *(point.partition(":")[0] for point in self._points)}
        self._modules = [(name, sys.modules.get(name)) for name in names]
        functions = []
        for point in self._points:
            name, _, attribute = point.partition(":")
            module = sys.modules.get(name)
            if type(module) is not types.ModuleType:
                return
            function = vars(module).get(attribute)
            if type(function) is not types.FunctionType or trampoline.handler_of(function) is None:
                return
            if hasattr(function, "registry"):
                # `functools.singledispatch` chooses among functions, and may get more of them.
                return
            functions.append((module, attribute, function, function.__code__))
        self._functions = functions

    def are_kept(self) -> bool:
        """Whether every point is known to be what it was; it is not where one is more than a function."""
        # Loops: this is looked at twice for each trial, and generators take twice as long.
        for name, module in self._modules:
            if sys.modules.get(name) is not module:
                return False
        for module, name, function, code in self._functions:
            # A module of another class may look its names up elsewhere.
            is_plain = type(module) is types.ModuleType and vars(module).get(name) is function
            if not is_plain or function.__code__ is not code:
                return False
        return bool(self._functions)
