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
from collections.abc import Iterable, Mapping, MappingView, Set
from typing import Any

from . import decorators, kinds, replies, shapes, trampoline

DEEPEST = 50
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclasses.dataclass(frozen=True)
class ToolFunction:
    """A function that does a tool's work."""

    function: types.FunctionType
    name: str | None
    """The tool's name, where the table or object gives it one; None: the function's name."""
    path: str
    """Where it was discovered, as in `app:TOOLS['cancel'].func`."""
    bound_to: str | None = None
    """What it is bound to, where the function's name says nothing."""
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
    """It is a function of a tool object, so it dispatches to no other tool."""
    family: int = 0
    """The same for the functions of one tool: while one of them runs, the others run as well."""


class Discovery:
    """Finds tools, and keeps what else is needed to answer them."""

    def __init__(self, ignore: Iterable[str] = ()) -> None:
        """Find nothing yet.

        Args:
            ignore: paths of values that are no tools, in which `*` matches any text (see `is_ignored`).
        """
        self._ignored_paths = tuple(ignore)
        self.targets: list[ToolFunction] = []
        self.caches: list[Any] = []
        """`functools.lru_cache` around tools."""
        self.partials: list[tuple[Any, ToolFunction]] = []
        """Partials that are tools, each with its function."""
        self.beside: dict[types.CodeType, str] = {}
        """Code of tool objects that is not answered, each with the path of its function."""
        self._open: set[int] = set()

    def point(self, owner: Any, attribute: str, value: Any, path: str, name: str | None = None) -> bool:
        """Find the tools of what a patch point names: an attribute of a module, class or object."""
        if inspect.isclass(owner):
            raw = inspect.getattr_static(owner, attribute, None)
            if kinds.is_of_class(raw):
                return self.class_method(owner, attribute, raw, path, name)
        return self.add(value, name, path, attribute)

    def add(self, value: Any, name: str | None, path: str, bound_to: str | None = None) -> bool:
        """Find the tools in a value.

        Args:
            value: anything.
            name: the tool's name; None where it has none but its function's.
            path: where the value is, for sentences.
            bound_to: the name it is bound to, where `name` is None.

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
            return self._add(value, name, path, bound_to)
        finally:
            self._open.discard(id(value))

    def _add(self, value: Any, name: str | None, path: str, bound_to: str | None) -> bool:
        value = decorators.inside_proxy(value)
        kind = type(value)
        if kind is types.FunctionType:
            return self._function(ToolFunction(value, name, path), bound_to)
        if kind is types.MethodType:
            return self._method(value, name, path, bound_to)
        if kind in (staticmethod, classmethod):
            target = ToolFunction(value.__func__, name, path, is_method=kind is classmethod)
            return self._function(target, bound_to) if inspect.isfunction(value.__func__) else False
        if isinstance(value, functools.partial):
            return self._partial(value, name, path, bound_to)
        if kind is kinds.CACHE:
            self.caches.append(value)
            return self.add(value.__wrapped__, name, path, bound_to)
        if isinstance(value, types.ModuleType):
            return False
        if isinstance(value, (str, Mapping, list, tuple, Set, collections.deque, MappingView)):
            return self._container(value, name, path, bound_to)
        if isinstance(value, type):
            return self._class(value, name, path)
        return self._object(value, name, path, bound_to)

    # --- functions -------------------------------------------------------------------------------

    def _function(self, target: ToolFunction, bound_to: str | None = None) -> bool:
        function = target.function
        if function.__name__ == "<lambda>" or (bound_to == function.__code__.co_name != function.__name__):
            # `functools.wraps` gave it the name of something that it does not call.
            target = dataclasses.replace(target, bound_to=bound_to)
        if trampoline.handler_of(function) is not None:
            self._keep(target)
            return True
        layers = decorators.layers_of(function, target.name or bound_to)
        original = layers[-1]
        if kinds.is_unbound(original):
            target = dataclasses.replace(target, is_method=True)
        answered = [original] if decorators.only_retries(layers) else layers
        for tool in answered:
            if kinds.has_code(tool):
                family = target.family or id(original)
                self._keep(dataclasses.replace(target, function=tool, like=original, family=family))
        return True

    def _keep(self, target: ToolFunction) -> None:
        family = target.family or id(target.function)
        self.targets.append(dataclasses.replace(target, family=family))

    def _method(self, value: types.MethodType, name: str | None, path: str, bound_to: str | None) -> bool:
        function, owner = value.__func__, value.__self__
        if type(function) is not types.FunctionType:
            return self.add(function, name, path, bound_to)
        instance = None if inspect.isclass(owner) else owner
        return self._function(ToolFunction(function, name, path, is_method=True, owner=instance), bound_to)

    def _partial(self, value: Any, name: str | None, path: str, bound_to: str | None) -> bool:
        """Find a partial, and its function as well, which other code may call."""
        before = len(self.targets)
        if not self.add(value.func, name, path, bound_to):
            return False
        if len(self.targets) > before:
            self.partials.append((value, self.targets[before]))
        return True

    def _reference(self, text: str, name: str | None, path: str) -> bool:
        """Find what a text such as `app.tools:cancel` names, by which a table refers to its tool."""
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

    def _container(self, value: Any, name: str | None, path: str, bound_to: str | None) -> bool:
        """Find the tools of a text or table, whose class may also be called."""
        if isinstance(value, str):
            has_tools = self._reference(value, name, path)
        elif isinstance(value, Mapping):
            has_tools = self._mapping(value, name, path)
        else:
            has_tools = self._sequence(value, name, path)
        functions = [kinds.code_of(raw) for _, raw in kinds.methods(type(value))]
        is_object = any(
            kinds.has_code(function) and not kinds.is_library(function.__module__) for function in functions
        )
        return has_tools or (is_object and self._object(value, name, path, bound_to))

    def _mapping(self, table: Any, name: str | None, path: str) -> bool:
        tool = table.get("name")
        if not isinstance(tool, str):
            tool = name if any(key in kinds.FIELDS for key in table) else None
        members: list[Any] = []
        beside: list[Any] = []
        for key, value in list(table.items()):
            if not isinstance(key, (str, bytes, int, tuple, type, type(None))):
                members.append((key, None, f"{path} (key)"))
            is_beside = tool and key not in kinds.FIELDS and kinds.is_companion(value)
            member = (value, tool or (key if isinstance(key, str) else name), f"{path}[{key!r}]")
            (beside if is_beside else members).append(member)
        return self._members(members, beside)

    def _sequence(self, table: Any, name: str | None, path: str) -> bool:
        fields = getattr(type(table), "_fields", None)
        values = list(table)
        if isinstance(table, (tuple, list)):
            name = kinds.name_in_record(values, fields, name)
        is_record = isinstance(table, tuple) and any(kinds.is_function(entry) for entry in values)
        members: list[Any] = []
        beside: list[Any] = []
        for index, value in enumerate(values):
            member = (value, name, f"{path}.{fields[index]}" if fields else f"{path}[{index}]")
            (beside if is_record and kinds.is_companion(value) else members).append(member)
        return self._members(members, beside)

    def _members(self, members: list[Any], beside: list[Any]) -> bool:
        """Find the tools of a table's members, and only without one in those beside them."""
        has_tools = sum([self.add(*member) for member in members]) or sum(
            [self.add(*member) for member in beside]
        )
        return bool(has_tools)

    # --- classes and objects ---------------------------------------------------------------------

    def class_method(self, owner: type, attribute: str, raw: Any, path: str, name: str | None) -> bool:
        """Find a method of every object of a class and of its subclasses."""
        family = 0
        for cls in [owner, *kinds.subclasses(owner)]:
            raw = cls.__dict__.get(attribute) if cls is not owner else raw
            if raw is not None and not self._of_class(raw, attribute, path, name, family):
                self._no_tool(raw, [cls.__qualname__], path)
            family = family or next((target.family for target in self.targets[-1:]), 0)
        return True

    def _of_class(self, raw: Any, attribute: str, path: str, name: str | None, family: int) -> bool:
        raw = decorators.inside_proxy(raw)
        if type(raw) is kinds.CACHE:
            self.caches.append(raw)
        function = kinds.code_of(raw)
        if type(function) is not types.FunctionType:
            return False
        target = ToolFunction(
            function, name, path, is_method=not isinstance(raw, staticmethod), family=family,
            takes_input=attribute in kinds.INPUT_NAMES, is_member=name is not None,
        )  # fmt: skip
        return self._function(target, attribute)

    def _class(self, cls: type, name: str | None, path: str) -> bool:
        class_name = cls.__dict__.get("name")
        name = class_name if isinstance(class_name, str) else name or cls.__name__
        parts = [
            (attribute, raw) for attribute, raw in kinds.methods(cls) if kinds.has_code(kinds.code_of(raw))
        ]
        if kinds.is_schema(cls) and not any(attribute in cls.__dict__ for attribute, _ in parts):
            return False
        if not parts:
            return self._no_tool(cls, kinds.public_methods(cls), path)
        for attribute, raw in kinds.innermost(parts, []):
            self.class_method(cls, attribute, raw, f"{path}.{attribute}", name)
        self._keep_beside(kinds.agents_methods(cls), path)
        return True

    def _object(self, value: Any, name: str | None, path: str, bound_to: str | None) -> bool:
        if isinstance(value, enum.Enum) and not kinds.is_data(value.value):
            return self.add(value.value, name, f"{path}.value", bound_to)
        if kinds.is_data(value) and not kinds.is_called(value):
            return False
        layers = decorators.layers_of(value, name or bound_to)
        if len(layers) > 1:
            return self._decorator(value, layers, name, path)
        name = kinds.name_of(value) or name
        before = len(self.targets)
        fields = [(field, function) for field, function in kinds.fields(value) if callable(function)]
        for field, function in fields:
            start = len(self.targets)
            self.add(function, name, f"{path}.{field}", bound_to or field)
            self._mark(start, takes_input=field in kinds.INPUT_NAMES)
        methods = [
            (attribute, raw)
            for attribute, raw in kinds.methods(type(value))
            if kinds.has_code(kinds.code_of(raw))
        ]
        called = kinds.innermost(methods, [field for field, _ in fields])
        for attribute, raw in called:
            target = ToolFunction(
                kinds.code_of(raw), name or type(value).__name__, f"{path}.{attribute}",
                is_method=not isinstance(raw, staticmethod),
                owner=None if isinstance(raw, (staticmethod, classmethod)) else value,
                takes_input=attribute in kinds.INPUT_NAMES, is_member=True,
            )  # fmt: skip
            self._function(target, attribute)
        if len(self.targets) == before:
            others = dict(kinds.fields(value, every=True))
            functions = [field for field, member in others.items() if kinds.is_function(member)]
            for field, member in others.items():
                if kinds.is_table(member):
                    self.add(member, None, f"{path}.{field}")
                elif functions == [field]:
                    self.add(member, name, f"{path}.{field}", bound_to or field)
        if len(self.targets) == before:
            self._no_tool(value, ["__call__"] if callable(value) else kinds.public_methods(type(value)), path)
        self._keep_beside(kinds.agents_methods(type(value)), path)
        self._keep_beside(dict(kinds.attributes(value)), path)
        return len(self.targets) > before

    def _keep_beside(self, members: Mapping[str, Any], path: str) -> None:
        """Keep the functions of a tool object by which no tool is called: they may do a part of its work."""
        for name, value in members.items():
            if kinds.has_code(value) and name not in (*kinds.METHODS, *kinds.FIELDS, "__init__"):
                self.beside[value.__code__] = f"{path}.{name}"

    def _decorator(self, value: Any, layers: list[Any], name: str | None, path: str) -> bool:
        """Find the function inside an object that a decorator made of it, and the object's call."""
        original = layers[-1]
        target = ToolFunction(
            original, name, path, like=original, family=id(original), is_method=kinds.is_unbound(original)
        )
        for layer in layers[1:]:
            self._keep(dataclasses.replace(target, function=layer))
        call = inspect.getattr_static(type(value), "__call__", None)
        if kinds.has_code(call):
            whole = dataclasses.replace(target, function=call, is_method=True, hides_self=True, owner=value)
            self._keep(whole)
        return True

    def _mark(self, before: int, *, takes_input: bool) -> None:
        for index in range(before, len(self.targets)):
            self.targets[index] = dataclasses.replace(
                self.targets[index], takes_input=takes_input, is_member=True
            )

    def _no_tool(self, value: Any, methods: list[str], path: str) -> bool:
        """Pass over a value in which no tool was found, unless one of these methods may be a tool."""
        if methods:
            raise shapes.Unusable(
                f"the tool {path} cannot be patched: it is {replies.in_words(value)}, and no Python code in "
                f"it is known to do a tool's work ({', '.join(methods[:5])} may); name that function or "
                f"method in `tools`, or {path!r} in `ignore` of [agent] if it is no tool"
            )
        return False


def is_ignored(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a value at this path is no tool, by the settings.

    Args:
        path: where the value is, as in `app:TOOLS['cancel'].validator`.
        patterns: such paths, with or without the module; `*` matches any text.
    """
    ends = (path, path.partition(":")[2])
    parts = [[re.escape(part) for part in pattern.split("*")] for pattern in patterns]
    return any(re.fullmatch(".*".join(pattern), end) for pattern in parts for end in ends)
