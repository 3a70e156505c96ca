"""Tables of tools that are watched: a tool that is put into one is patched before it can be called."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

WRITERS = (
    "__setitem__", "setdefault", "update", "__ior__", "append", "appendleft", "extend", "extendleft",
    "insert", "__iadd__", "add", "symmetric_difference_update", "__ixor__",
)  # fmt: skip
"""Methods that can put something into a container."""
READERS = ("__getitem__", "get", "values", "items", "__iter__", "copy", "pop", "popitem", "popleft")
"""Methods that hand out what a container holds, for what came into it in another way."""
BUILT_IN = (dict, list, set, collections.deque, collections.OrderedDict, collections.defaultdict)
WATCHED: dict[type, type] = {}
"""Type of a container → its watched type."""

Check = Callable[[Any], None]
"""Looks at what a container holds."""


def watch(table: Any, check: Check) -> Any:
    """Watch a container.

    Returns:
        The container that must take its place; the same one where it could be watched as it is.

    Raises:
        TypeError: it cannot be watched.
    """
    kind: Any = type(table)
    if is_watched(table):
        return table
    if kind not in WATCHED:
        WATCHED[kind] = _watched_type(kind, check)
    if kind not in BUILT_IN:
        table.__class__ = WATCHED[kind]
        return table
    watched: Any = WATCHED[kind]
    new = watched.__new__(watched)
    if isinstance(table, collections.deque):
        collections.deque.__init__(new, table, table.maxlen)
    elif isinstance(table, collections.defaultdict):
        collections.defaultdict.__init__(new, table.default_factory, table)
    else:
        kind.__init__(new, table)
    return new


def is_watched(table: Any) -> bool:
    """Whether this container is watched."""
    return getattr(type(table), "replay_watched", False) is True


def members(table: Any) -> Iterable[tuple[Any, Any]]:
    """Yield the elements of a container with their keys; positions for lists, None for sets."""
    if isinstance(table, dict):
        return list(dict.items(table))
    if isinstance(table, (Mapping, MutableMapping)):
        return list(table.items())
    if isinstance(table, list):
        return list(enumerate(list.__iter__(table)))
    base = _plain_type(table)
    return [(None, one) for one in base.__iter__(table)]


def put(table: Any, key: Any, value: Any) -> None:
    """Replace an element of a mapping or list without triggering its watcher."""
    _plain_type(table).__setitem__(table, key, value)


def _plain_type(table: Any) -> Any:
    """The type that a container had before it was watched."""
    return next(one for one in type(table).__mro__ if not getattr(one, "replay_watched", False))


def _watched_type(kind: type, check: Check) -> type:
    def writing(name: str) -> Any:
        plain = getattr(kind, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = plain(self, *args, **kwargs)
            check(self)
            return result

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
    """Return the arguments of which a container's own type makes the same container."""
    if kind is collections.defaultdict:
        return table.default_factory, list(dict.items(table))
    if kind is collections.deque:
        return list(collections.deque.__iter__(table)), table.maxlen
    if issubclass(kind, dict):
        return (list(dict.items(table)),)
    return (list(kind.__iter__(table)),)
