"""What in a value is a tool: every function behind it that would do the tool's work.

A value may be a function, a method, a class or object whose instances are called, a partial, a decorated
function, or a table of them: mappings, lists, tuples, sets, in any depth. What is no tool at all (a text, a
schema) is passed over; a tool whose code cannot be replaced is refused by name.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import importlib.util
import inspect
import pkgutil
import re
import sys
import types
import weakref
from collections.abc import Iterable, Mapping, MappingView, MutableMapping, Set
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import decorators, kinds, remakes, replies, shapes, trampoline
else:
    decorators = sys.modules["_replaydiff_worker_decorators"]
    kinds = sys.modules["_replaydiff_worker_kinds"]
    remakes = sys.modules["_replaydiff_worker_remakes"]
    replies = sys.modules["_replaydiff_worker_replies"]
    shapes = sys.modules["_replaydiff_worker_shapes"]
    trampoline = sys.modules["_replaydiff_worker_trampoline"]

DEEPEST = 50
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclasses.dataclass(frozen=True)
class Found:
    """A function that does a tool's work."""

    function: types.FunctionType
    name: str | None
    """The tool's name, where the table or object gives it one; None: the function's own name."""
    path: str
    """Where it was found, as in `app:TOOLS['cancel'].func`."""
    known: str | None = None
    """What it is bound to, where its own name says nothing."""
    like: types.FunctionType | None = None
    """The function whose name and signature are the tool's, where decorators hide them."""
    is_method: bool = False
    """Its first argument is an object or a class, which is no argument of the tool."""
    owner: Any = None
    """The object whose method is the tool; None where every object's is."""
    takes_input: bool = False
    """Its last argument holds all arguments of the tool, as JSON or as a mapping."""
    hides_self: bool = False
    """Its first argument is the object, and the signature of `like` has no such parameter."""
    is_member: bool = False
    """It is a tool object's own function, so it dispatches to no other tool."""
    family: int = 0
    """The same for functions that are one tool: while one of them runs, the others run as well."""


class Discovery:
    """Finds tools, and keeps what else must be known to answer them."""

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        """Find nothing yet.

        Args:
            ignore: paths of values that are no tools, in which `*` matches any text (see `is_ignored`).
        """
        self._ignored_paths = tuple(ignore)
        self.found: list[Found] = []
        self.tables: list[Any] = []
        """Containers that can be added to, innermost first."""
        self.caches: list[Any] = []
        """`functools.lru_cache` around tools."""
        self.partials: list[tuple[Any, Found]] = []
        """Partials that are tools, each with its function."""
        self.classes: list[tuple[type, str, str | None]] = []
        """Classes whose subclasses may override a tool: class, method, name of the tool."""
        self.aliases: list[tuple[Any, Any, Found]] = []
        """Table, key and function of a tool that the table also holds under another name."""
        self.steps: list[tuple[Any, str]] = []
        """Modules, classes and objects that lead to tools, each with the name by which it does."""
        self._named: dict[int, str | None] = {}
        self._open: set[int] = set()

    def point(self, owner: Any, attribute: str, value: Any, path: str, name: str | None = None) -> bool:
        """Find the tools of what a patch point names: an attribute of a module, class or object."""
        if inspect.isclass(owner):
            raw = inspect.getattr_static(owner, attribute, None)
            if kinds.is_of_class(raw):
                return self.class_method(owner, attribute, raw, path, name)
        return self.add(value, name, path, attribute)

    def add(self, value: Any, name: str | None, path: str, known: str | None = None) -> bool:
        """Find the tools in a value.

        Args:
            value: anything.
            name: the tool's name; None where it has none but its own.
            path: where it stands, for sentences.
            known: the name it is bound to, where `name` is None.

        Returns:
            Whether there is one.

        Raises:
            shapes.Unusable: there is a tool in it that cannot be patched.
        """
        if id(value) in self._open or len(self._open) > DEEPEST:
            return False
        if self._open and is_ignored(path, self._ignored_paths):
            return False
        self._open.add(id(value))
        try:
            return self._add(value, name, path, known)
        finally:
            self._open.discard(id(value))

    def _add(self, value: Any, name: str | None, path: str, known: str | None) -> bool:
        value = decorators.inside_proxy(value)
        kind = type(value)
        if kind is types.FunctionType:
            return self._function(Found(value, name, path), known)
        if kind is types.MethodType:
            return self._method(value, name, path, known)
        if kind in (staticmethod, classmethod):
            found = Found(value.__func__, name, path, is_method=kind is classmethod)
            return self._function(found, known) if inspect.isfunction(value.__func__) else False
        if isinstance(value, (functools.partial, functools.partialmethod)):
            return self._partial(value, name, path, known)
        if kind is functools._lru_cache_wrapper:
            self.caches.append(value)
            return self.add(value.__wrapped__, name, path, known)
        if kind in (weakref.ref, weakref.WeakMethod):
            return self.add(value(), name, path, known)
        if isinstance(value, types.ModuleType):
            raise kinds.refused(path, "a module; name its functions")
        if kinds.is_mock(value):
            raise kinds.refused(
                path, "a mock, whose calls cannot be answered; name the tool that it stands for"
            )
        if isinstance(value, (str, Mapping, list, tuple, Set, collections.deque, MappingView)):
            return self._container(value, name, path, known)
        if kinds.is_opaque(value):
            raise kinds.refused(path, f"{replies.in_words(value)}, which cannot be looked into; use a list")
        if isinstance(value, type):
            return self._class(value, name, path)
        # A descriptor may be called as well: a decorator that is a class.
        if inspect.isroutine(value) and not kinds.is_called(value):
            raise kinds.built_in(value, path)
        return self._object(value, name, path, known)

    # --- functions -------------------------------------------------------------------------------

    def _function(self, found: Found, known: str | None = None) -> bool:
        function = found.function
        if hasattr(function, "registry") and hasattr(function, "dispatch"):
            # Of `functools.singledispatch`.
            for one in function.registry.values():
                if kinds.has_code(one):
                    self._keep(dataclasses.replace(found, function=one, like=function, family=id(function)))
            self._keep(found)
            return True
        if function.__name__ == "<lambda>" or (known == function.__code__.co_name != function.__name__):
            # `functools.wraps` gave it the name of something that it does not call.
            found = dataclasses.replace(found, known=known)
        if trampoline.handler_of(function) is not None:
            self._keep(found)
            return True
        layers = decorators.layers_of(function, found.name or known)
        original = layers[-1]
        if kinds.is_unbound(original):
            found = dataclasses.replace(found, is_method=True)
        shared = self._named.setdefault(id(original), found.name) not in (None, found.name)
        answered = [original] if decorators.only_plumbing(layers) and not shared else layers
        for one in answered:
            if kinds.has_code(one):
                family = found.family or id(original)
                self._keep(dataclasses.replace(found, function=one, like=original, family=family))
        return True

    def _keep(self, found: Found) -> None:
        remakes.restore(found.function)
        self.found.append(found if found.family else dataclasses.replace(found, family=id(found.function)))

    def _method(self, value: types.MethodType, name: str | None, path: str, known: str | None) -> bool:
        function, owner = value.__func__, value.__self__
        if type(function) is functools._lru_cache_wrapper:
            self.caches.append(function)
            function = function.__wrapped__
        if type(function) is not types.FunctionType:
            return self.add(function, name, path, known)
        one = None if inspect.isclass(owner) else owner
        return self._function(Found(function, name, path, is_method=True, owner=one), known)

    def _partial(self, value: Any, name: str | None, path: str, known: str | None) -> bool:
        """Patch a partial under its own name, and its function as well, which other code may call."""
        before = len(self.found)
        if not self.add(value.func, name, path, known):
            raise kinds.refused(path, "a partial of something that cannot be patched")
        if len(self.found) > before:
            self.partials.append((value, self.found[before]))
        return True

    def _reference(self, text: str, name: str | None, path: str) -> bool:
        """A text such as `app.tools:cancel`, by which a table names its tool."""
        if len(text) > 200 or not _REFERENCE.fullmatch(text):
            return False
        root = text.replace(":", ".").partition(".")[0]
        if root not in sys.modules and importlib.util.find_spec(root) is None:
            return False
        owner_name, _, attribute = text.rpartition("." if "." in text.rpartition(":")[2] else ":")
        try:
            owner = pkgutil.resolve_name(owner_name)
            value = getattr(owner, attribute)
        except Exception:
            return False
        return callable(value) and self.point(owner, attribute, value, path, name or attribute)

    # --- tables ----------------------------------------------------------------------------------

    def _container(self, value: Any, name: str | None, path: str, known: str | None) -> bool:
        """A text or table, whose own class may also be called."""
        if isinstance(value, str):
            found = self._reference(value, name, path)
        elif isinstance(value, Mapping):
            found = self._mapping(value, name, path)
        else:
            found = self._sequence(value, name, path)
        call = inspect.getattr_static(type(value), "__call__", None)
        if found and kinds.has_code(call):
            # It may choose among what it holds.
            return self._function(Found(call, None, path, is_method=True, owner=value), "__call__")
        own = any(
            kinds.has_code(kinds.code_of(raw)) and not kinds.is_library(kinds.code_of(raw).__module__)
            for _, raw in kinds.methods(type(value))
        )
        return found or (own and self._object(value, name, path, known))

    def _mapping(self, table: Any, name: str | None, path: str) -> bool:
        if type(table) is types.MappingProxyType:
            import gc

            inner = [one for one in gc.get_referents(table) if isinstance(one, Mapping)]
            return sum(self.add(one, name, path) for one in inner) > 0
        missing = inspect.getattr_static(type(table), "__missing__", None)
        if kinds.has_code(missing) and not kinds.is_library(missing.__module__):
            raise kinds.refused(path, f"{replies.in_words(table)}, whose __missing__ makes members unseen")
        own = table.get("name")
        tool = own if isinstance(own, str) else name if any(key in kinds.FIELDS for key in table) else None
        tools = 0
        companions = []
        for key, value in list(table.items()):
            inside = tool or (key if isinstance(key, str) else name)
            if not isinstance(key, (str, bytes, int, tuple, type, type(None))):
                tools += self.add(key, None, f"{path} (key)")
            if tool and key not in kinds.FIELDS and kinds.is_companion(value):
                companions.append((key, value))
                continue
            tools += self._member(table, key, value, inside, f"{path}[{key!r}]")
            self._check_look_up(table, key, value, f"{path}[{key!r}]")
        if not tools:
            for key, value in companions:
                tools += self._member(table, key, value, tool, f"{path}[{key!r}]")
        if tools and isinstance(table, MutableMapping):
            self.tables.append(table)
        return bool(tools)

    def _sequence(self, table: Any, name: str | None, path: str) -> bool:
        fields = getattr(type(table), "_fields", None)
        members = list(table)
        if isinstance(table, (tuple, list)):
            name = kinds.name_in_record(members, fields, name)
        has_function = any(kinds.is_function(one) for one in members)
        tools = 0
        for index, value in enumerate(members):
            place = f"{path}.{fields[index]}" if fields else f"{path}[{index}]"
            key = index if isinstance(table, list) else None
            if not (has_function and isinstance(table, tuple) and kinds.is_companion(value)):
                tools += self._member(table, key, value, name, place)
        if tools and not isinstance(table, (tuple, frozenset, MappingView)):
            self.tables.append(table)
        return bool(tools)

    def _check_look_up(self, table: Any, key: Any, value: Any, path: str) -> None:
        """Refuse a mapping whose own look-up makes something else than its items show."""
        look_up = inspect.getattr_static(type(table), "__getitem__", None)
        if not kinds.has_code(look_up) or kinds.is_library(look_up.__module__):
            return
        looked_up = table[key]
        if looked_up is not value and callable(looked_up):
            raise kinds.refused(
                path, "made by its table: each access makes another function; name the one that does the work"
            )

    def _member(self, table: Any, key: Any, value: Any, name: str | None, path: str) -> bool:
        """Find the tools of a table's member; a table may hold one function under several names."""
        if kinds.has_code(value) and name is not None:
            named = self._named.setdefault(id(value), name)
            if named not in (None, name) and isinstance(table, (MutableMapping, list)):
                self.aliases.append((table, key, Found(value, name, path)))
                return True
        return self.add(value, name, path)

    # --- classes and objects ---------------------------------------------------------------------

    def class_method(self, owner: type, attribute: str, raw: Any, path: str, name: str | None) -> bool:
        """A method of every object of a class and of its subclasses."""
        self.steps.append((owner, attribute))
        family = 0
        for cls in [owner, *kinds.subclasses(owner)]:
            raw = cls.__dict__.get(attribute) if cls is not owner else raw
            if raw is not None and not self._of_class(raw, attribute, path, name, family):
                raise kinds.refused(f"{path} of {cls.__qualname__}", replies.in_words(raw))
            family = family or next((found.family for found in self.found[-1:]), 0)
        self.classes.append((owner, attribute, name))
        return True

    def _of_class(self, raw: Any, attribute: str, path: str, name: str | None, family: int) -> bool:
        raw = decorators.inside_proxy(raw)
        if type(raw) is functools.singledispatchmethod:
            functions = list(raw.dispatcher.registry.values())
            name = name or attribute
        elif type(raw) is functools._lru_cache_wrapper:
            self.caches.append(raw)
            functions = [raw.__wrapped__]
        elif isinstance(raw, functools.partialmethod):
            return self._partial(raw, name or attribute, path, attribute)
        else:
            functions = [getattr(raw, "__func__", raw)]
        before = len(self.found)
        for function in functions:
            if type(function) is types.FunctionType:
                found = Found(
                    function, name, path, is_method=not isinstance(raw, staticmethod), family=family,
                    takes_input=attribute in kinds.INPUT_NAMES, is_member=name is not None,
                )  # fmt: skip
                self._function(found, attribute)
        return len(self.found) > before

    def _class(self, cls: type, name: str | None, path: str) -> bool:
        own = cls.__dict__.get("name")
        name = own if isinstance(own, str) else name or cls.__name__
        parts = [
            (attribute, raw) for attribute, raw in kinds.methods(cls) if kinds.has_code(kinds.code_of(raw))
        ]
        if not parts:
            if kinds.is_passive(cls):
                return False
            known = kinds.own_methods(cls)
            hint = (
                f"and none of its methods is known to be the tool; "
                f"name the method, as in {cls.__module__}:{cls.__qualname__}.{known[0]}"
                if known
                else "whose constructor may do the work; write a function around it and name that"
            )
            raise kinds.refused(path, f"{replies.in_words(cls)}, {hint}")
        if kinds.is_schema(cls) and not any(attribute in cls.__dict__ for attribute, _ in parts):
            return False
        for attribute, raw in kinds.innermost(parts, []):
            self.class_method(cls, attribute, raw, f"{path}.{attribute}", name)
        return True

    def _object(self, value: Any, name: str | None, path: str, known: str | None) -> bool:
        if isinstance(value, enum.Enum) and not kinds.is_data(value.value):
            return self.add(value.value, name, f"{path}.value", known)
        if kinds.is_data(value) and not kinds.is_called(value):
            return False
        layers = decorators.layers_of(value, name or known)
        if len(layers) > 1:
            return self._decorator(value, layers, name, path)
        name = kinds.name_of(value) or name
        before = len(self.found)
        fields = [(field, held) for field, held in kinds.fields(value) if callable(held)]
        for field, held in fields:
            start = len(self.found)
            self.steps.append((value, field))
            self.add(held, name, f"{path}.{field}", known or field)
            self._mark(start, takes_input=field in kinds.INPUT_NAMES)
        methods = [
            (attribute, raw)
            for attribute, raw in kinds.methods(type(value))
            if kinds.has_code(kinds.code_of(raw))
        ]
        called = kinds.innermost(methods, [field for field, _ in fields])
        self._helper(value, called, name, path, known)
        for attribute, raw in called:
            self.steps.append((value, attribute))
            found = Found(
                kinds.code_of(raw), name or type(value).__name__, f"{path}.{attribute}",
                is_method=not isinstance(raw, staticmethod),
                owner=None if isinstance(raw, (staticmethod, classmethod)) else value,
                takes_input=attribute in kinds.INPUT_NAMES, is_member=True,
            )  # fmt: skip
            self._function(found, attribute)
        if len(self.found) == before:
            for field, table in kinds.fields(value, every=True):
                if kinds.is_table(table):
                    self.add(table, None, f"{path}.{field}")
        if len(self.found) == before:
            self._refuse_object(value, path)
        return len(self.found) > before

    def _helper(self, value: Any, methods: list[Any], name: str | None, path: str, known: str | None) -> None:
        """Find the function, under a name of its own, to which a tool object's method does nothing but pass
        the call."""
        own = dict(kinds.attributes(value))
        for _, raw in methods:
            names = kinds.names_in(kinds.code_of(raw).__code__)
            field = names.pop() if len(names) == 1 else ""
            if kinds.has_code(own.get(field)):
                start = len(self.found)
                self.add(own[field], name, f"{path}.{field}", known or field)
                self._mark(start, takes_input=False)

    def _decorator(self, value: Any, layers: list[Any], name: str | None, path: str) -> bool:
        """An object that a decorator put in a function's place; its function is patched as well."""
        original = layers[-1]
        found = Found(
            original, name, path, like=original, family=id(original), is_method=kinds.is_unbound(original)
        )
        for layer in layers[1:]:
            self._keep(dataclasses.replace(found, function=layer))
        call = inspect.getattr_static(type(value), "__call__", None)
        if kinds.has_code(call):
            whole = dataclasses.replace(found, function=call, is_method=True, hides_self=True, owner=value)
            self._keep(whole)
        return True

    def _mark(self, before: int, *, takes_input: bool) -> None:
        for index in range(before, len(self.found)):
            self.found[index] = dataclasses.replace(
                self.found[index], takes_input=takes_input, is_member=True
            )

    def _refuse_object(self, value: Any, path: str) -> None:
        """Refuse an object of which nothing is known to be the tool, unless it is data."""
        unknown = kinds.unknown_methods(value) or [
            field for field, held in kinds.fields(value, every=True) if kinds.is_function(held)
        ]
        if not unknown and (callable(value) or kinds.has_compiled_method(type(value))):
            raise kinds.built_in(value, path)
        if unknown:
            raise kinds.refused(
                path,
                f"{replies.in_words(value)}, and it is not known which of its methods is the tool "
                f"({', '.join(unknown[:5])}); name that method, or name {path!r} in `ignore` of [agent] "
                "if it is no tool",
            )


def is_ignored(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a value at this path is no tool, by the settings.

    Args:
        path: where the value was found, as in `app:TOOLS['cancel'].validator`.
        patterns: such paths, with or without the module; `*` matches any text.
    """
    ends = (path, path.partition(":")[2])
    parts = [[re.escape(part) for part in pattern.split("*")] for pattern in patterns]
    return any(re.fullmatch(".*".join(pattern), end) for pattern in parts for end in ends)
