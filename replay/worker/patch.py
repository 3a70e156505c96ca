"""Patch points: where an agent's tool calls are answered from outside instead of running.

A point is `module:attr[.attr…]` and may be

- a dispatcher or a tool: a function (`tool` has what distinguishes them);
- a method, named through its class (overriding subclasses are patched as well) or through an object; a class
  whose instances are tools; an object that is one;
- a table of tools in any shape and depth. What is added to it later is patched before the next trial.

A point without a colon is a framework, whose adapter in `frameworks` replaces the framework's code.

`discovery` finds the functions behind a point, and their code is replaced (`trampoline`) by a `tool.Tool`, so
every reference to them reaches it. No safety rests on it: what passes the patch points runs within the
boundary of the operating system.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import calls, discovery, imports, replies, shapes, tool, trampoline
from .frameworks import base


class Home(NamedTuple):
    """Where a patched function is defined."""

    module: str
    file: str
    qualified_name: str
    tool: str | None


class Patches:
    """The patch points of an agent, and all that was patched for them."""

    def __init__(self, config: Mapping[str, Any], asking: calls.Asking) -> None:
        """Make it ready to apply.

        Args:
            config: `tools`, the points: `module:attr[.attr…]`, or names of frameworks; `live`, names of the
                tools that may run; `settled`, those whose results the settings describe; `ignore`, paths of
                values in tables that are no tools (see `discovery.is_ignored`). Of another process, whose
                tools are patched here as their modules are executed, also `homes`.
            asking: answers tool calls.

        Raises:
            shapes.Unusable: a framework is not supported, not installed or of another version.
        """
        self._config = {name: list(config[name]) for name in ("tools", "live", "settled", "ignore")}
        self.points = [point for point in config["tools"] if ":" in point]
        self._live, self._settled = set(config["live"]), frozenset(config["settled"])
        self._asking = asking
        self.tools: list[tool.Tool] = []
        self._homes = {Home(*home) for home in config.get("homes", ())}
        """Where the functions are defined that another process has patched."""
        self._executed: list[types.ModuleType] | None = None if "homes" in config else []
        """Modules that were executed before the points were patched; None after that."""
        self.beside: dict[types.CodeType, str] = {}
        """Code of tool objects that is not answered, each with the path of its function."""
        self._caches: list[Any] = []
        self._functions: list[tuple[Any, str, types.FunctionType]] = []
        """Owner, name and function of each point, where all of them are functions."""
        self._lock = threading.RLock()
        self.frameworks = [
            base.adapter(point)(asking, self._live) for point in config["tools"] if ":" not in point
        ]
        for framework in self.frameworks:
            framework.check()

    def config(self) -> dict[str, Any]:
        """Return what another process must patch."""
        return {**self._config, "homes": sorted(self.homes(), key=str)}

    # --- what is answered --------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Return the names of the tools that are answered."""
        named = {name for answered_tool in self.tools for name in answered_tool.names}
        return sorted({*named, *(name for framework in self.frameworks for name in framework.names)})

    @property
    def paths(self) -> list[str]:
        """Return where each function was found that is answered; of a framework, its tools' names."""
        answered = [
            answered_tool for answered_tool in self.tools if not self._live.issuperset(answered_tool.names)
        ]
        paths = dict.fromkeys(path for answered_tool in answered for path in answered_tool.paths)
        return [*paths, *(name for framework in self.frameworks for name in framework.names)]

    def returns(self) -> dict[str, str]:
        """Return what annotations promise: tool → `text` or `json`; `*` for the tools of a dispatcher."""
        return {
            name: answered_tool.promised
            for answered_tool in self.tools
            if answered_tool.promised is not None
            for name in (("*",) if answered_tool.style else answered_tool.names)
        }

    @property
    def steering(self) -> set[str]:
        """Return names that only steer the agent, by what frameworks say; they call no tool."""
        return {name for framework in self.frameworks for name in framework.steering}

    def prefers_async(self, agent: Any) -> bool:
        """Return whether an agent that can be called either way must be awaited."""
        return any(framework.prefers_async(agent) for framework in self.frameworks)

    def homes(self) -> set[Home]:
        """Return where the patched functions are defined."""
        homes = set(self._homes)
        for answered_tool in self.tools:
            function = answered_tool.like
            file = imports.real_path(function.__code__.co_filename)
            name = None if answered_tool.style else answered_tool.names[0]
            homes.add(Home(str(function.__module__), file, function.__qualname__, name))
        return homes

    def names_and_files(self) -> list[str]:
        """Return names and files of the modules that hold points or patched functions."""
        names = {point.partition(":")[0] for point in self.points}
        names |= {name for framework in self.frameworks for name in framework.modules}
        homes = self.homes()
        names |= {home.module for home in homes}
        return sorted({*names, *map(imports.file_of, names), *(home.file for home in homes)} - {""})

    # --- when something is patched -----------------------------------------------------------------

    def apply(self) -> None:
        """Patch every point's tools; what is patched already stays so.

        Raises:
            shapes.Unusable: a point does not exist, or a tool of it cannot be patched.
        """
        with self._lock:
            for framework in self.frameworks:
                framework.renew()
            discovered = self._discover(import_modules=True)
            self._install(discovered)
            self._keep_functions()
            if self._executed is None:
                return
            executed, self._executed = self._executed, None
            for module in executed:
                if sys.modules.get(module.__name__) is not module:
                    self._patch_module(module)

    def apply_in_fork(self) -> None:
        """Patch what a process has that was forked while the agent was imported, and what it imports."""
        if self._executed is None:
            return
        self._executed, self._lock = None, threading.RLock()
        for name in {point.partition(":")[0] for point in self.points} & sys.modules.keys():
            self._patch_module(sys.modules[name])

    def renew(self) -> None:
        """Patch, before a trial, what took a tool's place, and empty caches of other trials' answers."""
        with self._lock:
            for owner, name, function in self._functions:
                if getattr(owner, name, None) is not function or trampoline.handler_of(function) is None:
                    self._functions = []
                    break
            if not self._functions or self.frameworks:
                self.apply()
        for cache in self._caches:
            cache.cache_clear()

    def after_execution(self, module: types.ModuleType) -> None:
        """Patch the tools of a module that was executed just now.

        What cannot be patched ends the trial.
        """
        for framework in self.frameworks:
            if module.__name__ in framework.modules:
                framework.apply_to(module)
                return
        if self._executed is not None:
            self._executed.append(module)
            return
        try:
            self._patch_module(module)
        except shapes.Unusable as unusable:
            raise self._asking.refuse(
                f"a module was executed again whose tools cannot be answered: {unusable}"
            ) from None

    def _patch_module(self, module: types.ModuleType) -> None:
        file, name = imports.file_of(module), module.__name__
        homes = self.homes()
        chosen = [home for home in homes if file and home.file == file]
        chosen = chosen or [home for home in homes if home.module == name]
        discovered = discovery.Discovery(self._config["ignore"])
        for point in self.points:
            point_module, _, attributes = point.partition(":")
            if point_module == name or (file and imports.file_of(point_module) == file):
                with contextlib.suppress(shapes.MissingError):
                    self._find(discovered, module, name, attributes)
        for home in chosen:
            if "<" not in home.qualified_name:
                with contextlib.suppress(shapes.MissingError):
                    self._find(discovered, module, name, home.qualified_name, home.tool)
        if discovered.targets:
            with self._lock:
                self._install(discovered)

    def _discover(self, *, import_modules: bool = False) -> discovery.Discovery:
        discovered = discovery.Discovery(self._config["ignore"])
        for point in self.points:
            module_name, _, attributes = point.partition(":")
            if not attributes:
                raise shapes.Unusable(
                    f"the patch point {point!r} must be written `module:attr`; check `tools`"
                )
            module = (
                shapes.import_module(module_name, "patch point", "tools")
                if import_modules
                else sys.modules[module_name]
            )
            self._find(discovered, module, module_name, attributes)
        return discovered

    def _find(
        self,
        discovered: discovery.Discovery,
        module: Any,
        module_name: str,
        attributes: str,
        name: str | None = None,
    ) -> None:
        owner, value, attribute, path = None, module, "", module_name
        for attribute in attributes.split("."):
            owner, value = value, shapes.attribute(value, attribute, path)
            path = f"{path}.{attribute}"
        point = f"{module_name}:{attributes}"
        if not discovered.point(owner, attribute, value, point, name):
            raise shapes.Unusable(
                f"the patch point {point} is {replies.in_words(value)}; it must be a function, a method, "
                "a class or object that is called as a tool, or a table of them"
            )

    def _keep_functions(self) -> None:
        """Keep the functions of the points, if no point is more: that they are there needs no search."""
        self._functions = []
        functions = []
        for point in self.points:
            module_name, _, attribute = point.partition(":")
            module = sys.modules[module_name]
            function = getattr(module, attribute, None)
            if type(function) is not types.FunctionType:
                return
            functions.append((module, attribute, function))
        self._functions = functions

    # --- putting patches in place ------------------------------------------------------------------

    def _install(self, discovered: discovery.Discovery) -> None:
        new: dict[int, list[discovery.ToolFunction]] = {}
        for target in discovered.targets:
            handler = trampoline.handler_of(target.function)
            if handler is not None:
                handler.join(target)
            else:
                new.setdefault(id(target.function), []).append(target)
        for targets in new.values():
            self._replace(*targets)
        self.beside.update(discovered.beside)
        cached = set(map(id, self._caches))
        self._caches += [cache for cache in discovered.caches if id(cache) not in cached]
        for partial, target in discovered.partials:
            self._patch_partial(partial, target)

    def _replace(self, first: discovery.ToolFunction, *others: discovery.ToolFunction) -> None:
        function, code = first.function, first.function.__code__
        in_factory = "<locals>" in function.__qualname__ and first.like in (None, function)
        in_factory = in_factory and not trampoline.is_shared(function)
        replacement = tool.Tool(first, trampoline.copied(function), self._asking.ask, self._settled)
        for target in others:
            replacement.join(target)
        self.tools.append(replacement)
        trampoline.replace_code(function, replacement)
        if in_factory and self._live.isdisjoint(replacement.names):
            trampoline.replace_in_factory(function, code)

    def _patch_partial(self, partial: Any, target: discovery.ToolFunction) -> None:
        """Make a partial ask for the arguments that it is called with, without those that are bound in it."""
        handler = trampoline.handler_of(partial.func)
        if handler is None or getattr(partial.func, "replay_partial", False):
            return
        bound = functools.partial(handler.original, *partial.args, **partial.keywords)

        def run(*positional: Any, **named: Any) -> Any:
            return bound(*positional, **named)

        signature = trampoline.signature_of(bound)
        run.__name__ = run.__qualname__ = target.name or handler.like.__name__
        run.__module__, run.__doc__ = handler.like.__module__, handler.like.__doc__
        run.__annotations__ = dict(getattr(handler.like, "__annotations__", {}))
        vars(run)["replay_partial"] = True
        if signature is not None:
            vars(run)["__signature__"] = signature
        function: Any = run
        around = discovery.ToolFunction(function, target.name, target.path, family=target.family)
        replacement = tool.Tool(around, trampoline.copied(function), self._asking.ask, self._settled)
        self.tools.append(replacement)
        trampoline.replace_code(function, replacement)
        partial.__setstate__((run, (), {}, vars(partial) or None))
