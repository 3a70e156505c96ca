"""Tables of tools that are watched: a tool that is put into one is patched before it can be called."""

from __future__ import annotations

import collections
import gc
import sys
import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

WRITERS = (
    "__setitem__", "setdefault", "update", "__ior__", "append", "appendleft", "extend", "extendleft",
    "insert", "__iadd__", "add", "symmetric_difference_update", "__ixor__", "__missing__",
)  # fmt: skip
"""Methods that can put something into a container."""
READERS = ("__getitem__", "get", "values", "items", "__iter__", "copy", "pop", "popitem", "popleft")
"""Methods that hand out what a container holds, for what came into it in another way."""
BUILT_IN = (dict, list, set, collections.deque, collections.OrderedDict, collections.defaultdict)
WATCHED: dict[type, type] = {}
"""Type of a container → its watched type."""

Check = Callable[[Any], None]
"""Looks at what a container holds."""


def watch(table: Any, check: Check, outer: list[Any]) -> None:
    """Watch a container, if that is possible.

    The type of a subclass is changed. A container of a built-in type is replaced by a watched copy in the
    modules and tables that hold it; if anything else does, it stays as it is.

    Args:
        table: the container.
        check: looks at what it holds, before and after it changes.
        outer: tables that may hold it.
    """
    kind: Any = type(table)
    try:
        if kind not in WATCHED:
            WATCHED[kind] = _watched_type(kind, check)
        if kind not in BUILT_IN:
            table.__class__ = WATCHED[kind]
            return
    except TypeError:
        return
    references = _references(table, outer)
    if references is None:
        return
    watched: Any = WATCHED[kind]
    copy = watched.__new__(watched)
    kind.__init__(copy, *_contents(kind, table))
    for holder, key in references:
        put(holder, key, copy)
    for index, each in enumerate(outer):
        if each is table:
            outer[index] = copy


def _references(table: Any, outer: list[Any]) -> list[tuple[Any, Any]] | None:
    """Return the mappings and lists that hold a container, with its keys; None if anything else may."""
    modules = [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
    namespaces = [vars(module) for module in modules]
    holders = [*namespaces, *(each for each in outer if isinstance(each, (dict, list)))]
    allowed = {id(holder) for holder in holders}
    ours = {id(outer), id(holders), id(namespaces)}
    for referrer in gc.get_referrers(table):
        if id(referrer) not in allowed | ours and not isinstance(referrer, types.FrameType):
            return None
    references: list[tuple[Any, Any]] = []
    # No comprehension: up to Python 3.11 its closure would be one more reference to the table.
    for holder in holders:
        items = dict.items(holder) if isinstance(holder, dict) else enumerate(list(holder))
        for key, value in list(items):
            if value is table:
                references.append((holder, key))
    return references


def is_watched(table: Any) -> bool:
    """Return whether this container is watched."""
    return getattr(type(table), "replay_watched", False) is True


def members(table: Any) -> Iterable[tuple[Any, Any]]:
    """Return the elements of a container with their keys; positions for lists, None for sets."""
    if isinstance(table, dict):
        return list(dict.items(table))
    if isinstance(table, (Mapping, MutableMapping)):
        return list(table.items())
    if isinstance(table, list):
        return list(enumerate(list.__iter__(table)))
    base = _plain_type(table)
    return [(None, each) for each in base.__iter__(table)]


def put(table: Any, key: Any, value: Any) -> None:
    """Replace an element of a mapping or list without triggering its watcher."""
    _plain_type(table).__setitem__(table, key, value)


def _plain_type(table: Any) -> Any:
    """Return the type that a container had before it was watched."""
    return next(base for base in type(table).__mro__ if not getattr(base, "replay_watched", False))


def _watched_type(kind: type, check: Check) -> type:
    def writing(name: str) -> Any:
        plain = getattr(kind, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = plain(self, *args, **kwargs)
            check(self)
            return result

        method.__module__ = kind.__module__
        return method

    def reading(name: str) -> Any:
        plain = getattr(kind, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            check(self)
            return plain(self, *args, **kwargs)

        return method

    body: dict[str, Any] = {name: writing(name) for name in WRITERS if hasattr(kind, name)}
    body.update((name, reading(name)) for name in READERS if hasattr(kind, name))
    if kind in BUILT_IN:
        # A copy, also one in another process, is a container as it was.
        body["__reduce_ex__"] = lambda self, _: (kind, _contents(kind, self))
        body["__copy__"] = lambda self: kind(*_contents(kind, self))
    return type(
        kind.__name__,
        (kind,),
        {"__slots__": (), "replay_watched": True, "__module__": kind.__module__, **body},
    )


def _contents(kind: Any, table: Any) -> tuple[Any, ...]:
    """Return the arguments of which a container's type makes the same container."""
    if kind is collections.defaultdict:
        return table.default_factory, list(dict.items(table))
    if kind is collections.deque:
        return list(collections.deque.__iter__(table)), table.maxlen
    if issubclass(kind, dict):
        return (list(dict.items(table)),)
    return (list(kind.__iter__(table)),)
