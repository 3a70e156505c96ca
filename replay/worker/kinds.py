"""Kinds of values, and how each of them is called as a tool.

Pure look-ups: nothing here keeps or changes anything.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

CACHE = type(functools.lru_cache(maxsize=1)(len))
"""The type of a function around which `functools.lru_cache` keeps results."""
FIELDS = (
    "func", "coroutine", "fn", "async_fn", "_fn", "_async_fn", "afunc", "_func", "function", "_function",
    "callable", "handler", "impl", "implementation", "on_invoke_tool", "on_invoke", "callback", "tool_func",
    "entrypoint",
)  # fmt: skip
"""Attributes in which tool objects of frameworks hold the function that does the work."""
METHODS = (
    "_run", "_arun", "_call", "_acall", "_execute", "_aexecute", "_invoke", "_ainvoke", "run", "arun",
    "run_async", "run_json", "call", "acall", "call_tool", "execute", "aexecute", "invoke", "ainvoke",
    "forward", "aforward", "on_invoke_tool", "on_invoke", "handle", "perform", "apply", "process", "__call__",
)  # fmt: skip
"""Methods by which tool objects and tool classes are called."""
_FIELDS = tuple(dict.fromkeys((*FIELDS, *METHODS)))
INPUT_NAMES = ("on_invoke_tool", "on_invoke", "run_json")
"""Of those, what takes the arguments as one JSON text or mapping, last."""
SCHEMA_BASES = ("BaseModel", "Enum", "TypedDict", "BaseException", "Struct")
LIBRARIES = ("site-packages", "dist-packages")
STANDARD = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120
"""The folder of Python's own modules."""


def is_library(module: str) -> bool:
    """Return whether a module comes with Python or was installed, so that others than the agent use it."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or file.startswith(STANDARD) or any(f"/{folder}/" in file for folder in LIBRARIES)


def is_function(value: Any) -> bool:
    """Return whether a value is a function, a method or a partial."""
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def is_unbound(function: types.FunctionType) -> bool:
    """Return whether a function is a method, which a registry may hold without its object."""
    inside, _, _ = function.__qualname__.rpartition(".")
    first = function.__code__.co_varnames[: function.__code__.co_argcount][:1]
    return bool(inside) and not inside.endswith("<locals>") and first == ("self",)


def fields_passed_to(value: Any) -> dict[str, Any]:
    """Return the arguments with which an object was made whose fields are those of a tool.

    Of pydantic's models, those that were passed; of a dataclass, those that are not the default.
    """
    values = dict(attributes(value))
    passed = read(value, "__pydantic_fields_set__", set, None)
    if passed is None and dataclasses.is_dataclass(value):
        passed = {
            parameter.name
            for parameter in dataclasses.fields(value)
            if values.get(parameter.name) != parameter.default
        }
    # A client or a session is no argument of a model.
    return {name: field for name, field in values.items() if name in (passed or ()) and _is_json(field)}


def _is_json(value: Any) -> bool:
    return isinstance(value, (str, int, float, list, dict, tuple, type(None))) or is_schema(type(value))


def is_of_class(raw: Any) -> bool:
    """Return whether a class attribute is a method of its instances or of the class."""
    of_class = (types.FunctionType, classmethod, staticmethod, functools.partialmethod)
    return isinstance(raw, of_class) or type(raw) is CACHE


def is_table(value: Any) -> bool:
    """Return whether a value is a container of others."""
    return isinstance(value, (Mapping, list, tuple, Set, collections.deque))


def has_code(value: Any) -> bool:
    """Return whether a value is a function in Python."""
    return type(value) is types.FunctionType


def unwrapped(function: Any) -> Any:
    """Return what a function was made from by decorators; itself where one of them names itself."""
    try:
        return inspect.unwrap(function)
    except ValueError:
        return function


def code_of(raw: Any) -> Any:
    """Return the function inside a method, a static or class method, or a cache."""
    if type(raw) is CACHE:
        return raw.__wrapped__
    return getattr(raw, "__func__", raw)


def is_called(value: Any) -> bool:
    """Return whether calling an object runs Python code."""
    return has_code(inspect.getattr_static(type(value), "__call__", None)) and not isinstance(value, type)


def is_data(value: Any) -> bool:
    """Return whether a value is a number, bytes or the like."""
    return value is None or isinstance(
        value, (bytes, bytearray, int, float, complex, enum.Enum, BaseException)
    )


def is_agents(cls: type) -> bool:
    """Return whether a class is the agent's, and neither Python's nor of an installed package."""
    return not is_library(cls.__module__)


def is_schema(cls: type) -> bool:
    """Return whether a class describes data."""
    return dataclasses.is_dataclass(cls) or any(base.__name__ in SCHEMA_BASES for base in cls.__mro__)


def agents_methods(cls: type) -> dict[str, types.FunctionType]:
    """Return the methods that a class has from elsewhere than Python and installed packages."""
    bases = [vars(base) for base in reversed(cls.__mro__) if is_agents(base)]
    functions = {name: code_of(raw) for members in bases for name, raw in members.items()}
    return {name: function for name, function in functions.items() if has_code(function)}


def public_methods(cls: type) -> list[str]:
    """Return the names of those of them that are meant to be called."""
    return [name for name in agents_methods(cls) if not name.startswith("_")]


def is_companion(value: Any) -> bool:
    """Return whether a value beside a tool's function is no tool: data, a schema, an object of a library."""
    if isinstance(value, type):
        return is_schema(value) and not any(name in value.__dict__ for name in METHODS)
    if is_function(value) or is_table(value) or isinstance(value, (str, enum.Enum)):
        return False
    return is_data(value) or (not callable(value) and not is_agents(type(value)))


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods that may run a tool, as classes hold them."""
    for attribute in METHODS:
        raw = inspect.getattr_static(cls, attribute, None)
        if raw is None or (attribute == "__call__" and raw is type.__dict__["__call__"]):
            continue
        yield attribute, raw


def read(value: Any, name: str, kind: type, default: Any) -> Any:
    """Return what an object has under a name, without asking the `__getattr__` of its class.

    A proxy of something remote makes a callable of any name, and whoever calls that calls the remote.

    Args:
        value: any object.
        name: of the attribute.
        kind: the type that it must have.
        default: is returned where there is no attribute of that name and type.
    """
    try:
        attribute = object.__getattribute__(value, name)
    except Exception:
        return default
    return attribute if isinstance(attribute, kind) else default


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object itself: of its `__dict__`, its slots, and pydantic's private."""
    yield from list(read(value, "__dict__", dict, {}).items())
    yield from list(read(value, "__pydantic_private__", dict, {}).items())
    for cls in type(value).__mro__:
        space = vars(cls)
        for name, slot in space.items() if "__slots__" in space else ():
            if type(slot) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):
                    yield name, slot.__get__(value)


def fields(value: Any, *, every: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object itself that may hold a tool's function, also in a method's place."""
    values = dict(attributes(value))
    for field in values if every else _FIELDS:
        if values.get(field) is not None:
            yield field, values[field]


def innermost(methods: list[tuple[str, Any]], fields: list[str]) -> list[tuple[str, Any]]:
    """Return those methods that call no other of them and none of the fields; all, where all do."""
    present = {attribute for attribute, _ in methods} | set(fields)
    chosen = [
        (attribute, raw)
        for attribute, raw in methods
        if not (names_in(code_of(raw).__code__) & present - {attribute})
    ]
    return chosen if chosen or fields else methods


def names_in(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes that code uses, and code within it."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= names_in(const)
    return names


def name_of(value: Any) -> str | None:
    """Return the name that a tool object gives itself; None where it gives none."""
    for owner in (value, read(value, "metadata", object, None)):
        for attribute in ("name", "tool_name"):
            with contextlib.suppress(Exception):
                name = getattr(owner, attribute, None)
                if isinstance(name, str) and name:
                    return name
    return None


def name_in_record(members: list[Any], fields: Any, name: str | None) -> str | None:
    """Return the tool's name in `("cancel", function, …)` or in `{"cancel": (function, schema)}`.

    None where there are several functions, or nothing beside them: then their names are those of the tools.
    """
    if fields:
        text = members[fields.index("name")] if "name" in fields else None
        return text if isinstance(text, str) else name
    functions = [member for member in members if callable(member) and not isinstance(member, type)]
    if len(functions) != 1:
        return None if functions else name
    if len(members) == 1:
        return name if getattr(functions[0], "__name__", "<lambda>") == "<lambda>" else None
    if name is None and isinstance(members[0], str) and members[0].isidentifier():
        return members[0]
    return name


def subclasses(cls: type) -> list[type]:
    """Return the subclasses of a class, with theirs."""
    direct: list[type] = type.__subclasses__(cls)
    return [descendant for subclass in direct for descendant in (subclass, *subclasses(subclass))]


def announce_subclasses(cls: type, callback: Callable[[type], None]) -> None:
    """Call this with every subclass that is made later, unless a class between takes no part in it."""
    base: Any = cls
    original = vars(cls).get("__init_subclass__")

    def announce(subclass: Any, /, **kwargs: Any) -> None:
        if original is not None:
            original.__get__(None, subclass)(**kwargs)
        else:
            super(base, subclass).__init_subclass__(**kwargs)
        callback(subclass)

    # A class of an extension takes no attributes.
    with contextlib.suppress(AttributeError, TypeError):
        base.__init_subclass__ = classmethod(announce)
