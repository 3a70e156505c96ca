"""Patch points: where an agent's tool calls are answered from outside instead of running.

A point is `module:attr[.attr…]` and may be

- a dispatcher or a tool: a function (`tool` has what distinguishes them);
- a method, named through its class (overriding subclasses are patched as well) or through an object; a class
  whose instances are tools; an object that is one;
- a table of tools in any shape and depth. What is added to it later is patched before it can be called.

A point without a colon is a framework, whose adapter in `frameworks` replaces the framework's own code.

`discovery` finds the functions behind a point, and their code is replaced (`trampoline`) by a `tool.Tool`, so
every reference to them reaches it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import (
        classes,
        discovery,
        holders,
        imports,
        places,
        plain,
        remakes,
        replies,
        shapes,
        tables,
        tool,
        trampoline,
    )
else:
    classes = sys.modules["_replaydiff_worker_classes"]
    discovery = sys.modules["_replaydiff_worker_discovery"]
    holders = sys.modules["_replaydiff_worker_holders"]
    imports = sys.modules["_replaydiff_worker_imports"]
    places = sys.modules["_replaydiff_worker_places"]
    plain = sys.modules["_replaydiff_worker_plain"]
    remakes = sys.modules["_replaydiff_worker_remakes"]
    replies = sys.modules["_replaydiff_worker_replies"]
    shapes = sys.modules["_replaydiff_worker_shapes"]
    tables = sys.modules["_replaydiff_worker_tables"]
    tool = sys.modules["_replaydiff_worker_tool"]
    trampoline = sys.modules["_replaydiff_worker_trampoline"]

Home = tuple[str, str, "str | None"]
"""Where a patched function is defined: module, qualified name, and the tool's name."""

NO_TOOLS = (int, float, complex, bytes, type(None))


class Patches:
    """The patch points of an agent, and all that was patched for them."""

    def __init__(
        self,
        points: list[str],
        ask: tool.Ask,
        refuse: Callable[[str], BaseException],
        homes: list[Home] | None = None,
        modules: list[tuple[str, str]] | None = None,
        live: Iterable[str] = (),
        settled: Iterable[str] = (),
        ignore: Iterable[str] = (),
    ) -> None:
        """Make it ready to apply.

        Args:
            points: `module:attr[.attr…]`, or the name of a framework.
            ask: answers a tool call.
            refuse: keeps why the running trial cannot go on; what it returns is raised.
            homes: where functions are defined that were patched in another process.
            modules: names and files of the modules that hold tools, as another process knows them.
            live: names of the tools that may run.
            settled: names of the tools whose results the settings describe.
            ignore: paths of values in tables that are no tools (see `discovery.is_ignored`).

        Raises:
            shapes.Unusable: a framework is not known, not installed or of another version.
        """
        self.points = [point for point in points if ":" in point]
        self._live, self._settled = tuple(live), frozenset(settled)
        self.frameworks = [
            imports.load("frameworks.base").adapter(point)(ask, refuse, self._live)
            for point in points
            if ":" not in point
        ]
        self._ignore = tuple(ignore)
        self._homes: list[Home] = homes or []
        self._ask, self._refuse = ask, refuse
        self.tools: list[tool.Tool] = []
        self._caches: list[Any] = []
        self._classes = classes.ClassWatch(self._patch_method, self._patch_attribute)
        self.places = places.Places(self._check_places)
        self._plain = plain.PlainPoints([] if self.frameworks else self.points)
        self._known: dict[int, Any] = {}
        self._texts: set[str] = set()
        self._checking: set[int] = set()
        self._lock = threading.RLock()
        self._is_applied = False
        self._starting: set[types.CodeType] = set()
        """Code that has just begun, and will not go on."""
        self._modules: dict[str, str] = dict(
            modules or {point.partition(":")[0]: "" for point in self.points}
        )
        """Modules that hold tools, each with its file."""
        self._plugins = {file: name for name, file in modules or () if self._modules[name] != file}
        """Files of modules that were loaded by hand, each with a name that others may have as well."""
        for framework in self.frameworks:
            if modules is None:
                framework.check()
            self._modules.update(framework.files())
            for name in framework.files():
                module = sys.modules.get(name)
                # What is still being imported is patched when that is done.
                if module is not None and not getattr(module.__spec__, "_initializing", False):
                    framework.apply_to(module)

    def apply(self) -> None:
        """Patch every point's tools; what is patched already stays so.

        Raises:
            shapes.Unusable: a point does not exist, or a tool of it cannot be patched.
        """
        with self._lock:
            for framework in self.frameworks:
                framework.renew()
            found = discovery.Discovery(self._ignore)
            for point in self.points:
                module_name, _, attributes = point.partition(":")
                if not attributes:
                    raise shapes.Unusable(
                        f"the patch point {point!r} must be written `module:attr`; check `tools`"
                    )
                module = shapes.import_module(module_name, "patch point", "tools")
                self._find(found, module, module_name, attributes)
            self._install(found)
            if self.points and not self._is_applied:
                self._patch_twins()
                self._classes.install()
                for path in self._unpatched():
                    raise shapes.Unusable(
                        f"the tool {path} cannot be patched: each access makes another function; "
                        "name the function that does the work, or the method of its class"
                    )
            self._is_applied = True
            self.places.keep(found.steps)
            self._plain.keep(found, self._modules)

    def _unpatched(self) -> list[str]:
        """Return where the patch points now hold tools that are not patched."""
        found = discovery.Discovery(self._ignore)
        for point in self.points:
            module_name, _, attributes = point.partition(":")
            self._find(found, sys.modules[module_name], module_name, attributes)
        return [one.path for one in found.found if not tool.is_answered(one)]

    def _taken(self) -> str | None:
        """Return where something that cannot be answered is now in a tool's place."""
        try:
            return next(iter(self._unpatched()), None)
        except (shapes.Unusable, KeyError) as error:
            return str(error)

    def check_late(self) -> None:
        """After a trial: refuse it if another function took a tool's place in it, which may have run."""
        if not self.points:
            return
        with self._lock:
            taken = None if self._plain.are_kept() else self._taken()
        if taken is not None:
            self._refuse(f"it replaced a tool, which then could run: {taken}; name a tool that stays")

    def _check_places(self, starting: types.CodeType) -> None:
        """During a trial, before this code runs: refuse what took a tool's place, and patch it."""
        # A thread that holds the lock is looking, too, and may wait for this one.
        if not self._lock.acquire(blocking=False):
            return
        try:
            taken, self._starting = self._taken(), {starting}
            with contextlib.suppress(shapes.Unusable, KeyError):
                self.apply()
        finally:
            self._starting = set()
            self._lock.release()
        if taken is not None:
            raise self._refuse(f"it replaced a tool: {taken}; name a tool that stays")

    def _patch_twins(self) -> None:
        """Patch modules that were run a second time under another name before the first trial."""
        for module in [one for one in gc.get_objects() if isinstance(one, types.ModuleType)]:
            name, file = module.__name__, imports.real_path(vars(module).get("__file__"))
            is_known = name in self._modules and sys.modules.get(name) is module
            if not is_known and imports.same_text(file, self._modules.values()):
                self._patch_module(module)

    def is_ours(self, module: str, file: str) -> bool:
        """Return whether a module, given by name or file, contains tools."""
        if module in self._modules and not (file and os.path.exists(file)):  # noqa: PTH110
            return True
        return bool(imports.same_text(file, [*self._modules.values(), *self._plugins]))

    def apply_to(self, module: Any) -> None:
        """Patch the tools of a module that was run again, or under another name.

        What cannot be patched ends the trial: the functions are there, and run for real.
        """
        with self._lock:
            try:
                self.places.unwatched(lambda: self._patch_module(module))
                self._is_applied = True
            except shapes.Unusable as unusable:
                raise self._refuse(
                    f"a module was run again whose tools cannot be answered: {unusable}"
                ) from None

    def _patch_module(self, module: Any) -> None:
        for framework in self.frameworks:
            if module.__name__ in framework.files():
                framework.apply_to(module)
                return
        file = imports.real_path(getattr(module, "__file__", None))
        file = imports.same_text(file, [*self._modules.values(), *self._plugins])
        names = {module.__name__, *(name for name, known in self.modules() if file and known == file)}
        found = discovery.Discovery(self._ignore)
        for point in self.points:
            name, _, attributes = point.partition(":")
            if name in names:
                self._find(found, module, module.__name__, attributes)
        nameless = False
        for name, attributes, known in self.homes():
            if name in names and "<" not in attributes:
                with contextlib.suppress(AttributeError):
                    self._find(found, module, module.__name__, attributes, known)
            nameless = nameless or (name in names and "<" in attributes)
        self._install(found)
        if nameless and not names & {point.partition(":")[0] for point in self.points}:
            # A lambda or closure has no name to be found by, but the table that holds it has.
            self.apply()

    def renew(self) -> None:
        """Before a trial: patch what took a tool's place, and empty caches of other trials' answers."""
        with self._lock:
            (self.places.renew if self._plain.are_kept() else self.apply)()
        for cache in self._caches:
            cache.cache_clear()

    @property
    def names(self) -> list[str]:
        """The names of the tools that are answered."""
        named = {name for one in self.tools for name in one.names}
        return sorted({*named, *(name for framework in self.frameworks for name in framework.names)})

    @property
    def paths(self) -> list[str]:
        """Return where each function was found that is answered; of a framework, its tools' names."""
        answered = [tool for tool in self.tools if not set(self._live).issuperset(tool.names)]
        paths = dict.fromkeys(path for tool in answered for path in tool.paths)
        return [*paths, *(name for framework in self.frameworks for name in framework.names)]

    def returns(self) -> dict[str, str]:
        """What annotations promise: tool → `text` or `json`; `*` for the tools of a dispatcher."""
        found: dict[str, str] = {}
        for one in self.tools:
            for name in ("*",) if one.style else one.names:
                if one.promised is not None:
                    found[name] = one.promised
        return found

    @property
    def steering(self) -> set[str]:
        """Names that only steer the agent, by what frameworks say; they call no tool."""
        return {name for framework in self.frameworks for name in framework.steering}

    def prefers_async(self, agent: Any) -> bool:
        """Whether an agent that can be called either way must be awaited."""
        return any(framework.prefers_async(agent) for framework in self.frameworks)

    def homes(self) -> list[Home]:
        """Where the patched functions are defined."""
        own = {
            (str(one.like.__module__), one.like.__qualname__, None if one.style else one.names[0])
            for one in self.tools
        }
        return sorted({*own, *self._homes}, key=str)

    def modules(self) -> list[tuple[str, str]]:
        """Names and files of the modules that hold tools."""
        return sorted([*self._modules.items(), *((name, file) for file, name in self._plugins.items())])

    def config(self) -> dict[str, Any] | None:
        """What another process must patch; None before the patches are in place."""
        if not self._is_applied:
            return None
        return {
            "points": [*self.points, *(framework.name for framework in self.frameworks)],
            "homes": self.homes(),
            "modules": self.modules(),
            "live": self._live,
            "settled": sorted(self._settled),
            "ignore": list(self._ignore),
        }

    def _find(
        self, found: discovery.Discovery, module: Any, path: str, attributes: str, name: str | None = None
    ) -> None:
        owner, value, attribute, point = None, module, "", f"{path}:{attributes}"
        for attribute in attributes.split("."):
            owner, value = value, shapes.attribute(value, attribute, path)
            found.steps.append((owner, attribute))
            path = f"{path}.{attribute}"
        if not found.point(owner, attribute, value, point, name):
            raise shapes.Unusable(
                f"the patch point {point} is {replies.in_words(value)}; it must be a function, a method, "
                "a class or object that is called as a tool, or a table of them"
            )

    # --- putting patches in place ------------------------------------------------------------------

    def _install(self, found: discovery.Discovery) -> None:
        for table, key, alias in found.aliases:
            copy = tool.copied(alias.function)
            tables.put(table, key, copy)
            one = discovery.Found(copy, alias.name, alias.path, like=alias.function, family=id(copy))
            found.found.append(one)
        new: dict[int, list[discovery.Found]] = {}
        for one in found.found:
            handler = trampoline.handler_of(one.function)
            if handler is not None:
                handler.join(one)
            else:
                new.setdefault(id(one.function), []).append(one)
        caches = [*found.caches, *(self._replace(list(new.values())) if new else ())]
        for partial, one in found.partials:
            self._patch_partial(partial, one)
        self._take_places(caches, found.tables)
        for cls, attribute, name in found.classes:
            self._classes.watch(cls, attribute, name)
        for name in [*self._modules, *(str(one.like.__module__) for one in self.tools)]:
            self._modules[name] = imports.file_of(name) or self._modules.get(name, "")
        for tool_ in self.tools:
            name, file = str(tool_.like.__module__), imports.real_path(tool_.like.__code__.co_filename)
            if name not in sys.modules and file:
                self._plugins[file] = name

    def _take_places(self, caches: list[Any], found: list[Any]) -> None:
        """Put functions in the place of caches around them, and watched tables in the place of tables."""
        new = {id(cache): cache for cache in caches if not any(cache is known for known in self._caches)}
        self._caches += new.values()
        watched = [(table, self._watched(table)) for table in found if not tables.is_watched(table)]
        swaps = [(cache, cache.__wrapped__) for cache in new.values()]
        swaps += [swap for swap in watched if swap[0] is not swap[1]]
        if not swaps:
            return
        own = (self._caches, self._known, caches, new, found, watched, *watched)
        for original, holder in holders.replace_everywhere(swaps, own):
            # A cache that stays in use is emptied before every trial.
            if type(original) is not functools._lru_cache_wrapper:
                raise shapes.Unusable(
                    f"the table of tools ({replies.in_words(original)}) is also held by "
                    f"{replies.in_words(holder)}, through which tools could be added unseen; "
                    "name the tools themselves"
                )

    def _replace(self, groups: list[list[discovery.Found]]) -> list[Any]:
        """Replace the code of functions and of their copies; returns the caches around them."""
        functions = [group[0].function for group in groups]
        running = trampoline.suspended({function.__code__ for function in functions} - self._starting)
        if running is not None:
            name = getattr(running, "__name__", None) or running.f_code.co_name
            raise shapes.Unusable(
                f"the tool {name} is running already, as {replies.in_words(running)} that was made before "
                "the first trial; a module must not start work when it is imported"
            )
        copies, caches = trampoline.holders_of(functions)
        codes = [
            (group[0].function, group[0].function.__code__)
            for group in groups
            if group[0].like in (None, group[0].function)
        ]
        for group in groups:
            for function in [group[0].function, *copies.get(id(group[0].function), ())]:
                replacement = tool.Tool(
                    group[0], trampoline.ORIGINALS.take(function), self._ask, self._settled
                )
                for one in group[1:]:
                    replacement.join(one)
                if replacement.owners:
                    replacement.others = holders.others(function, replacement.owners)
                trampoline.replace_code(function, replacement)
                if function is group[0].function:
                    self.tools.append(replacement)
        may_run = {one.like for one in self.tools if not set(self._live).isdisjoint(one.names)}
        remakes.prevent([one for one in codes if one[0] not in may_run], self._refuse)
        return caches

    def _patch_partial(self, partial: Any, found: discovery.Found) -> None:
        """Make a partial ask for the arguments that it is called with, without those that are bound in it."""
        handler = trampoline.handler_of(partial.func)
        if handler is None or getattr(partial.func, "replay_partial", False):
            return
        args, keywords, is_method = partial.args, partial.keywords, not isinstance(partial, functools.partial)

        def run(*given: Any, **named: Any) -> Any:
            own, given = given[:is_method], given[is_method:]
            return handler.original(*own, *args, *given, **{**keywords, **named})

        signature = (
            trampoline.signature_of_partial(handler.original, partial)
            if is_method
            else trampoline.signature_of(functools.partial(handler.original, *args, **keywords))
        )
        run.__name__ = run.__qualname__ = found.name or handler.like.__name__
        run.__module__, run.__doc__ = handler.like.__module__, handler.like.__doc__
        run.__annotations__ = dict(getattr(handler.like, "__annotations__", {}))
        vars(run)["replay_partial"] = True
        if signature is not None:
            vars(run)["__signature__"] = signature
        function: Any = run
        one = discovery.Found(function, found.name, found.path, is_method=is_method, family=found.family)
        replacement = tool.Tool(one, trampoline.ORIGINALS.take(function), self._ask, self._settled)
        self.tools.append(replacement)
        trampoline.replace_code(function, replacement)
        if is_method:
            partial.func, partial.args, partial.keywords = run, (), {}
        else:
            partial.__setstate__((run, (), {}, vars(partial) or None))

    def _watched(self, table: Any) -> Any:
        if holders.is_namespace(table):
            raise shapes.Unusable(
                "a patch point is the namespace of a module, class or object; name its tools"
            )
        for _, value in tables.members(table):
            self._known[id(value)] = value
        try:
            return tables.watch(table, self._check)
        except TypeError as error:
            raise shapes.Unusable(
                f"the table of tools is {replies.in_words(table)}, to which tools could be added unseen "
                f"({error}); name the tools themselves"
            ) from None

    def _check(self, table: Any) -> None:
        """Patch what has come into a table since it was last looked at."""
        if id(table) in self._checking:
            return
        with self._lock:
            self._checking.add(id(table))
            try:
                for key, value in tables.members(table):
                    if not self._is_known(value):
                        self._add(table, key, value)
            finally:
                self._checking.discard(id(table))

    def _is_known(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self._texts
        return isinstance(value, NO_TOOLS) or self._known.get(id(value)) is value

    def _add(self, table: Any, key: Any, value: Any) -> None:
        found = discovery.Discovery(self._ignore)
        name = key if isinstance(key, str) else None
        try:
            found.add(value, name, f"{replies.in_words(table)}[{key!r}]")
            self._install(found)
        except shapes.Unusable as unusable:
            raise self._refuse(f"a tool was added that cannot be answered: {unusable}") from None
        if isinstance(value, str):
            self._texts.add(value)
        else:
            self._known[id(value)] = value

    def _patch_method(self, cls: type, attribute: str, name: str | None) -> None:
        """Patch one method of a class and of its subclasses, during a trial or while the agent is made."""
        found = discovery.Discovery(self._ignore)
        try:
            raw = inspect.getattr_static(cls, attribute)
            path = f"{cls.__module__}:{cls.__qualname__}.{attribute}"
            found.class_method(cls, attribute, raw, path, name)
            with self._lock:
                self._install(found)
        except shapes.Unusable as unusable:
            raise self._refuse(str(unusable)) from None

    def _patch_attribute(self, value: Any, name: str, path: str) -> None:
        """Patch what an object gets in place of its class's method."""
        found = discovery.Discovery(self._ignore)
        try:
            found.add(value, name, path)
            with self._lock:
                self._install(found)
        except shapes.Unusable as unusable:
            raise self._refuse(str(unusable)) from None
