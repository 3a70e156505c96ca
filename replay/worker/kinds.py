"""Kinds of values, and how each of them is called as a tool.

Pure look-ups: nothing here keeps or changes anything.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import importlib
import inspect
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import replies, shapes
else:
    replies = sys.modules["_replaydiff_worker_replies"]
    shapes = sys.modules["_replaydiff_worker_shapes"]

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
PURE_MODULES = (
    "builtins", "collections", "datetime", "decimal", "enum", "pathlib", "types", "typing", "uuid",
)  # fmt: skip
"""Modules whose classes do nothing when they are called but make a value."""
LIBRARIES = ("site-packages", "dist-packages")
HARMLESS = frozenset(dir(object)) - {"__getattribute__"} | {
    "__post_init__", "model_post_init", "__len__", "__bool__", "__contains__", "__copy__", "__deepcopy__",
    "__getstate__", "__setstate__", "__set_name__", "__int__", "__float__", "__index__", "__bytes__",
    "__del__", "__fspath__", "__rich__", "__rich_repr__", "_repr_html_", "__replace__",
}  # fmt: skip
"""Methods of a class of data, which run no tool."""
_QUEUES = ("queue", "_queue", "asyncio.queues", "multiprocessing.queues")


def is_library(module: str) -> bool:
    """Whether a module comes with Python or was installed, so that others than the agent use it."""
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None)
    if module.partition(".")[0] in sys.stdlib_module_names if hasattr(sys, "stdlib_module_names") else False:
        return True
    return file is None or any(f"/{folder}/" in file for folder in LIBRARIES)


def refused(path: str, what: str) -> shapes.Unusable:
    return shapes.Unusable(f"the tool {path} cannot be patched: it is {what}")


def built_in(value: Any, path: str) -> shapes.Unusable:
    return refused(
        path,
        f"{replies.in_words(value)}, which is called without Python code; "
        "write a Python function around it and name that",
    )


def is_mock(value: Any) -> bool:
    return any(cls.__module__.startswith("unittest.mock") for cls in type(value).__mro__)


def is_function(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def is_unbound(function: types.FunctionType) -> bool:
    """Whether a function is a method, which a registry may hold without its object."""
    inside, _, _ = function.__qualname__.rpartition(".")
    first = function.__code__.co_varnames[: function.__code__.co_argcount][:1]
    return bool(inside) and not inside.endswith("<locals>") and first == ("self",)


def given_to(value: Any) -> dict[str, Any]:
    """Return the arguments with which an object was made whose fields are those of a tool.

    Of pydantic's models, those that were given; of a dataclass, those that are not the default.
    """
    own = dict(attributes(value))
    given = read(value, "__pydantic_fields_set__", set, None)
    if given is None and dataclasses.is_dataclass(value):
        given = {one.name for one in dataclasses.fields(value) if own.get(one.name) != one.default}
    # A client or a session is no argument of a model.
    return {name: held for name, held in own.items() if name in (given or ()) and _is_json(held)}


def _is_json(value: Any) -> bool:
    return isinstance(value, (str, int, float, list, dict, tuple, type(None))) or is_schema(type(value))


def is_of_class(raw: Any) -> bool:
    """Return whether a class attribute is a method of its instances or of the class."""
    of_class = (types.FunctionType, classmethod, staticmethod, functools.partialmethod)
    return isinstance(raw, of_class) or type(raw) in (
        functools._lru_cache_wrapper,
        functools.singledispatchmethod,
    )


def is_table(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple, Set, collections.deque))


def has_code(value: Any) -> bool:
    return type(value) is types.FunctionType


def code_of(raw: Any) -> Any:
    if type(raw) is functools._lru_cache_wrapper:
        return raw.__wrapped__
    return getattr(raw, "__func__", raw)


def is_called(value: Any) -> bool:
    """Whether calling an object runs Python code that its own class, or a base of the agent's, defines."""
    return has_code(inspect.getattr_static(type(value), "__call__", None)) and not isinstance(value, type)


def is_data(value: Any) -> bool:
    return value is None or isinstance(
        value, (bytes, bytearray, int, float, complex, enum.Enum, BaseException)
    )


def is_passive(cls: type) -> bool:
    """Whether making an object of a class does nothing, and its objects have no methods of their own."""
    if cls.__module__ in PURE_MODULES:
        return True
    names = ("__init__", "__new__", "__post_init__", "model_post_init")
    raws = [base.__dict__.get(name) for base in cls.__mro__ if _is_own(base) for name in names]
    raws += [base.__dict__.get("__call__") for base in inspect.getmro(type(cls)) if _is_own(base)]
    codes = [code_of(raw).__code__ for raw in raws if has_code(code_of(raw))]
    # What `dataclasses` and the like write has no file.
    works = any(not code.co_filename.startswith("<") for code in codes)
    return not works and not own_methods(cls) and (is_schema(cls) or _is_own(cls))


def _is_own(cls: type) -> bool:
    return not is_library(cls.__module__)


def is_schema(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or any(base.__name__ in SCHEMA_BASES for base in cls.__mro__)


def own_methods(cls: type) -> list[str]:
    """Public methods that a class has from elsewhere than Python and installed packages."""
    return [
        attribute
        for base in cls.__mro__
        if _is_own(base)
        for attribute, raw in base.__dict__.items()
        if not attribute.startswith("_") and has_code(code_of(raw))
    ]


def unknown_methods(value: Any) -> list[str]:
    """Return methods of the agent's own code that an object has and that may do a tool's work."""
    spaces = [base.__dict__ for base in type(value).__mro__ if _is_own(base)]
    members = [(name, raw) for space in spaces for name, raw in space.items()]
    return [name for name, raw in members if name not in HARMLESS and _may_work(raw)]


def _may_work(raw: Any) -> bool:
    """Return whether a class attribute runs code that somebody wrote, when it is called or set."""
    if isinstance(raw, property):
        return raw.fset is not None
    function = code_of(raw)
    # What `dataclasses` and the like write has no file.
    return has_code(function) and not function.__code__.co_filename.startswith("<")


def has_compiled_method(cls: type) -> bool:
    """Return whether a class of the agent's has a method by which tools are called, without Python code."""
    return any(
        inspect.isroutine(raw) and not has_code(code_of(raw))
        for base in cls.__mro__
        if _is_own(base)
        for name, raw in base.__dict__.items()
        if name in METHODS
    )


def is_companion(value: Any) -> bool:
    """Return whether a value beside a tool's function is no tool: data, a schema, an object of a library."""
    if isinstance(value, type):
        return is_schema(value) and not any(name in value.__dict__ for name in METHODS)
    if is_function(value) or is_table(value) or isinstance(value, (str, enum.Enum)):
        return False
    return is_data(value) or (not callable(value) and not _is_own(type(value)))


def is_opaque(value: Any) -> bool:
    """Return whether a value holds others that cannot be looked at without taking them out."""
    return isinstance(value, (Iterator, threading.local)) or type(value).__module__ in _QUEUES


bases_of = type.__dict__["__mro__"].__get__
namespace_of = type.__dict__["__dict__"].__get__


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The methods that may run a tool, as classes hold them. Every tool is looked at around each trial, so
    this is `inspect.getattr_static` with one look at each base."""
    namespaces = [namespace_of(base) for base in (*bases_of(cls), *bases_of(type(cls)))]
    for attribute in METHODS:
        raw = next((one[attribute] for one in namespaces if attribute in one), None)
        if raw is not None and not (attribute == "__call__" and cls is type):
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
        found = object.__getattribute__(value, name)
    except Exception:
        return default
    return found if isinstance(found, kind) else default


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object itself: of its `__dict__`, its slots, and pydantic's private."""
    yield from list(read(value, "__dict__", dict, {}).items())
    yield from list(read(value, "__pydantic_private__", dict, {}).items())
    for cls in type(value).__mro__:
        space = namespace_of(cls)
        for name, slot in space.items() if "__slots__" in space else ():
            if type(slot) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):
                    yield name, slot.__get__(value)


def fields(value: Any, *, every: bool = False) -> Iterator[tuple[str, Any]]:
    """The attributes of an object itself that may hold a tool's function, also in a method's place."""
    own = dict(attributes(value))
    for field in own if every else _FIELDS:
        held = own.get(field)
        if held is not None:
            yield field, held


def innermost(methods: list[tuple[str, Any]], fields: list[str]) -> list[tuple[str, Any]]:
    """Those methods that call no other of them and none of the fields; all, where they go in circles."""
    present = {attribute for attribute, _ in methods} | set(fields)
    chosen = [
        (attribute, raw)
        for attribute, raw in methods
        if not (names_in(code_of(raw).__code__) & present - {attribute})
    ]
    return chosen if chosen or fields else methods


def names_in(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= names_in(const)
    return names


def name_of(value: Any) -> str | None:
    """The name that a tool object gives itself."""
    for owner in (value, getattr(value, "metadata", None)):
        for attribute in ("name", "tool_name"):
            with contextlib.suppress(Exception):
                name = getattr(owner, attribute, None)
                if isinstance(name, str) and name:
                    return name
    return None


def name_in_record(members: list[Any], fields: Any, name: str | None) -> str | None:
    """The tool's name in `("cancel", function, …)` or in `{"cancel": (function, schema)}`.

    None where there are several functions, or nothing beside them: then they go by their own names.
    """
    if fields:
        text = members[fields.index("name")] if "name" in fields else None
        return text if isinstance(text, str) else name
    functions = [one for one in members if callable(one) and not isinstance(one, type)]
    if len(functions) != 1:
        return None if functions else name
    if len(members) == 1:
        return name if getattr(functions[0], "__name__", "<lambda>") == "<lambda>" else None
    if name is None and isinstance(members[0], str) and members[0].isidentifier():
        return members[0]
    return name


def subclasses(cls: type) -> list[type]:
    """Return the subclasses of a class, also those that were registered with an abstract one."""
    found: list[type] = list(type.__subclasses__(cls))
    if isinstance(cls, abc.ABCMeta):
        registered: Any = importlib.import_module("_abc")._get_dump(cls)[0]
        found += [one for one in (reference() for reference in registered) if one is not None]
    return [one for sub in found for one in (sub, *subclasses(sub))]
