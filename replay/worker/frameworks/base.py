"""What the adapters of all frameworks share: replace a call site, ask for a tool, refuse what runs elsewhere.

An adapter replaces the code of the functions through which its framework calls a tool. So a tool is answered
whoever makes it, wherever and whenever: at import, in a closure, in a factory, during a trial. The functions
are replaced as soon as their module was imported, before anybody can call them, in every process.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from .. import calls, imports, kinds, replies, shapes, trampoline
from . import calling

NAMES = (
    "langchain",
    "openai-agents",
    "pydantic-ai",
    "mcp",
    "crewai",
    "llama-index",
    "google-adk",
    "strands",
    "smolagents",
    "autogen",
    "claude-agent-sdk",
)
"""The frameworks that `tools` may name."""

CLIENT_TYPES = (
    "function", "custom", "object", "bash", "text_editor", "computer", "memory", "local_shell", "apply_patch",
    "tool_search",
)  # fmt: skip
"""Beginnings of the `type` of a tool definition whose calls the agent answers itself."""
HOSTED_KEYS = (
    "google_search", "google_search_retrieval", "google_maps", "url_context", "code_execution", "file_search",
    "enterprise_web_search", "vertex_ai_search", "retrieval",
)  # fmt: skip
"""Keys of Google's tool definitions whose calls Google answers."""
CLIENT_KEYS = (
    "function",
    "name",
    "title",
    "parameters",
    "function_declarations",
    "functionDeclarations",
    "cachePoint",
    "toolSpec",
)


def adapter(name: str) -> type[Framework]:
    """Return the adapter of a framework, by its name in `tools`.

    Raises:
        shapes.Unusable: there is no framework of this name.
    """
    if name != "adapter" and name not in NAMES:
        raise shapes.Unusable(
            f"the patch point {name!r} must be written `module:attr`, or be a framework: "
            f"{', '.join(NAMES)}; check `tools`"
        )
    module = importlib.import_module(f".{name.replace('-', '_')}", __package__)
    framework: type[Framework] = module.ADAPTER
    return framework


class Replacement(trampoline.Handler):
    """What a function of the framework calls in place of its own code."""

    def __init__(self, run: Callable[..., Any], original: Callable[..., Any]) -> None:
        """Make one.

        Args:
            run: gets the original function before the arguments of the call; async where the original is.
            original: runs what the function ran before.
        """
        self.call = self.wait = self.generate_async = lambda args, kwargs: run(original, *args, **kwargs)
        self.generate = self.call


class Framework:
    """An adapter. There is one of each in a process."""

    name = ""
    distribution = ""
    """What is installed, as the package index calls it."""
    supported: tuple[str, ...] = ()
    """Its versions, by their beginnings: `1`, `0.3`."""
    packages: tuple[str, ...] = ()
    """Where its own tools are defined, which it makes whether or not an agent uses them."""
    required: tuple[str, ...] = ()
    """Modules that hold call sites; imported before the first trial, if the agent did not."""
    optional: tuple[str, ...] = ()
    """Modules that hold call sites and may not be installed."""

    def __init__(
        self, ask: Callable[..., Any], refuse: Callable[[str], BaseException], live: Iterable[str]
    ) -> None:
        """Make it ready to install.

        Args:
            ask: answers a tool call (see `calls.Asking.ask`).
            refuse: keeps why the running trial cannot go on; what it returns is raised.
            live: names of the tools that may run.
        """
        self._ask, self._refuse, self.live = ask, refuse, frozenset(live)
        self.seen: set[str] = set()
        """Names of the tools that were made."""
        self.steering: set[str] = set()
        """Names that only steer the agent: handoffs, and the shape of its answer. They call no tool."""
        self.failure: str | None = None
        """Why the agent cannot be replayed; None where it can."""
        self._watched: list[tuple[type, Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]]]] = []
        self._installed: set[int] = set()

    # --- what an adapter has -----------------------------------------------------------------------

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules, which was imported."""
        raise NotImplementedError

    def prefers_async(self, agent: Any) -> bool:  # noqa: ARG002
        """Return whether an agent that can be called either way must be awaited."""
        return False

    # --- what the worker calls -----------------------------------------------------------------------

    def check(self) -> None:
        """Refuse a framework that is not there, or of another version.

        Raises:
            shapes.Unusable: says so.
        """
        from importlib import metadata

        try:
            version = metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            version = ""
        if not version or any(not _file_of(module) for module in self.required):
            raise shapes.Unusable(
                f"`tools` names {self.name!r}, and {self.distribution} is not installed for "
                f"{sys.executable}; install it there, or name the agent's interpreter as `python`"
            )
        if not any(version == release or version.startswith(f"{release}.") for release in self.supported):
            raise shapes.Unusable(
                f"`tools` names {self.name!r}, and {self.distribution} {version} is installed for "
                f"{sys.executable}, and replay knows version {' or '.join(self.supported)}; "
                "install that, or name the tools themselves"
            )

    @functools.cached_property
    def modules(self) -> tuple[str, ...]:
        """Return the names of the modules that hold call sites and are installed."""
        return tuple(name for name in (*self.required, *self.optional) if _file_of(name))

    def apply_to(self, module: Any) -> None:
        """Replace the call sites of a module, once.

        Raises:
            shapes.Unusable: this version of the framework has others.
        """
        if id(module) in self._installed:
            return
        try:
            self.install(module)
        except (AttributeError, KeyError, TypeError) as error:
            self.fail(
                f"{module.__name__} of {self.distribution} has no call site that replay knows "
                f"({type(error).__name__}: {error}); name the tools themselves"
            )
        self._installed.add(id(module))

    def renew(self) -> None:
        """Replace, before a trial, what took a call site's place.

        Raises:
            shapes.Unusable: the agent cannot be replayed.
        """
        if self.failure is not None:
            raise shapes.Unusable(self.failure)
        for name in self.required:
            shapes.import_module(name, "framework", "tools")
        # One that was imported when Python started was not seen.
        for name in self.modules:
            if name in sys.modules:
                self.apply_to(sys.modules[name])
        for cls, names in self._watched:
            self._replace_in(cls, names)
        if self.failure is not None:
            raise shapes.Unusable(self.failure)

    @property
    def names(self) -> list[str]:
        """Return the tools that are answered, as far as they are known."""
        return sorted(self.seen - self.live) or [f"every tool of {self.name}"]

    # --- call sites ------------------------------------------------------------------------------------

    def replace(self, owner: Any, name: str, run: Callable[..., Any]) -> None:
        """Replace the code of a function of a module, or of a method of a class.

        Args:
            owner: the module or class.
            name: of the function in it.
            run: called in its place, with the original before the arguments; async where the original is.

        Raises:
            KeyError, TypeError: there is no such function.
        """
        raw = vars(owner)[name]
        function = _function_of(raw)
        if type(function) is not types.FunctionType:
            raise TypeError(f"{name} is {replies.in_words(function)}")
        if trampoline.handler_of(function) is None:
            trampoline.replace_code(function, Replacement(run, trampoline.copied(function)))

    def replace_methods(
        self, cls: type, names: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]]
    ) -> None:
        """Replace methods of a class and of all its subclasses, also of those that are made later.

        Args:
            cls: the class; it need not have them itself.
            names: method → what is called in its place: where it is sync, and where it is async.
        """
        self._watched.append((cls, names))
        self._replace_in(cls, names)
        kinds.announce_subclasses(cls, lambda subclass: self._replace_in(subclass, names))

    def _replace_in(
        self, cls: type, names: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]]
    ) -> None:
        for subclass in [cls, *kinds.subclasses(cls)]:
            for name, (run, wait) in names.items():
                raw: Any = vars(subclass).get(name)
                function = _function_of(raw)
                if raw is None or trampoline.handler_of(function) is not None:
                    continue
                if type(function) is not types.FunctionType:
                    self.fail(
                        f"the tool {subclass.__module__}:{subclass.__qualname__}.{name} cannot be patched: "
                        f"it is {replies.in_words(raw)}"
                    )
                is_async = trampoline.kind_of(function.__code__) == "coroutine"
                chosen = wait if is_async else run
                self.replace(
                    subclass, name, _of_class(chosen, subclass) if isinstance(raw, staticmethod) else chosen
                )

    # --- answers ---------------------------------------------------------------------------------------

    def answer(self, call: calling.FrameworkCall, run: Callable[[], Any]) -> Any:
        """Answer a tool call; `run` runs the tool, where it may."""
        if self._is_untouched(call):
            return run()
        answer = self._ask(call.name, call.args, call.fail)
        if isinstance(answer, calls.Live):
            with calls.running(id(call.tool)):
                return answer.run(run)
        if call.runs:
            with calls.running(id(call.tool)):
                return run()
        return call.convert(answer)

    async def answer_async(self, call: calling.FrameworkCall, run: Callable[[], Any]) -> Any:
        """Answer a tool call where the tool is async, or may be."""
        if self._is_untouched(call):
            return await _awaited(run())
        answer = self._ask(call.name, call.args, call.fail)
        if isinstance(answer, calls.Live):
            with calls.running(id(call.tool)):
                return await answer.wait(_awaited(run()))
        if call.runs:
            with calls.running(id(call.tool)):
                return await _awaited(run())
        return call.convert(answer)

    def _is_untouched(self, call: calling.FrameworkCall) -> bool:
        if call.untouched:
            self.steering.add(call.name)
        return call.untouched or calls.is_running(id(call.tool))

    async def answer_stream(self, call: calling.FrameworkCall, run: Callable[[], Any]) -> AsyncIterator[Any]:
        """Answer a call of a tool that gives its result item by item; `convert` returns the items."""
        if self._is_untouched(call):
            async for item in run():
                yield item
            return
        answer = self._ask(call.name, call.args, call.fail)
        if isinstance(answer, calls.Live):
            items: list[Any] = []
            with answer.collecting(items), calls.running(id(call.tool)):
                async for item in run():
                    items.append(item)
                    yield item
            return
        for item in call.convert(answer):
            yield item

    def guarded(
        self, function: Any, read: Callable[[tuple[Any, ...], dict[str, Any]], calling.FrameworkCall]
    ) -> Any:
        """Return a function that requests the recorded result instead of running the tool.

        Args:
            function: does the tool's work; sync or async.
            read: makes a tool call of the positional and named arguments of a call.
        """

        @functools.wraps(function)
        def answered(*args: Any, **kwargs: Any) -> Any:
            return self.answer(read(args, kwargs), lambda: function(*args, **kwargs))

        @functools.wraps(function)
        async def answered_async(*args: Any, **kwargs: Any) -> Any:
            return await self.answer_async(read(args, kwargs), lambda: function(*args, **kwargs))

        return answered_async if inspect.iscoroutinefunction(function) else answered

    def see(self, name: Any, function: Any) -> None:
        """Keep the name of a tool that was made, unless it is one of the framework's own.

        Args:
            name: of the tool.
            function: what does its work; its class, where that is not known.
        """
        home = str(getattr(function, "__module__", ""))
        if not home.startswith(self.packages):
            self.seen.add(str(name))

    def refuse_hosted(self, tools: Any) -> None:
        """Refuse definitions of tools that the model's provider runs, by name, before they are sent.

        Raises:
            shapes.Unusable, calls.Stopped: there is one that may not run.
        """
        if not isinstance(tools, (list, tuple)):
            return
        for tool in tools:
            name = hosted_name(tool) if isinstance(tool, Mapping) else None
            if name is not None:
                self.refuse_tool(name, "runs at the model's provider")

    def refuse_tool(self, name: str, why: str) -> None:
        """Refuse a tool that cannot be answered, unless it may run.

        Raises:
            shapes.Unusable, calls.Stopped: it may not.
        """
        if name not in self.live:
            self.fail(
                f"the tool {name} {why}, so no recording can answer it; name it in `live` to have it run, or "
                "leave it out"
            )

    def fail(self, why: str) -> None:
        """Say that the agent, or the running trial, cannot be replayed.

        Raises:
            shapes.Unusable: no trial is running, and none will.
            calls.Stopped: the trial ends here.
        """
        if calls.TRIAL.get() is not None:
            raise self._refuse(why)
        self.failure = why
        raise shapes.Unusable(why)


def hosted_name(tool: Mapping[str, Any]) -> str | None:
    """Return the name of a tool that the model's provider runs, from its definition; None for any other."""
    kind = tool.get("type")
    if isinstance(kind, str):
        if kind.startswith(CLIENT_TYPES):
            return None
        return str(tool.get("name") or tool.get("server_label") or kind)
    hosted = next((key for key in HOSTED_KEYS if tool.get(key) is not None), None)
    if hosted is not None or any(key in tool for key in CLIENT_KEYS):
        return hosted
    return str(next(iter(tool), None) or "without a name")


def _function_of(raw: Any) -> Any:
    """Return the function of a class attribute: of a static method, or inside a wrapper of `wrapt`."""
    while type(raw).__name__ == "FunctionWrapper" or isinstance(raw, (staticmethod, classmethod)):
        raw = raw.__wrapped__ if type(raw).__name__ == "FunctionWrapper" else raw.__func__
    return raw


def _of_class(run: Callable[..., Any], cls: type) -> Callable[..., Any]:
    """Return what is called in place of a static method: it gets the class in place of the object."""

    def replacement(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        @functools.wraps(original)
        def method(_: Any, *positional: Any, **named: Any) -> Any:
            return original(*positional, **named)

        return run(method, cls, *args, **kwargs)

    return replacement


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _file_of(module: str) -> str:
    """Return the file of a module that need not be imported; empty where it is not installed."""
    root, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        return ""
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, *parts)  # noqa: PTH118
        for file in (f"{path}.py", os.path.join(path, "__init__.py")):  # noqa: PTH118
            if os.path.isfile(file):  # noqa: PTH113
                return imports.real_path(file)
    return ""
