"""Find the references to an object that must be replaced.

They are found through the garbage collector, which knows all containers.
"""

from __future__ import annotations

import collections
import functools
import gc
import types
from collections.abc import Mapping
from typing import Any

DEEPEST_HOLDER = 4
"""How many tuples, bound methods or views around an object are rebuilt to hold its successor."""

Swaps = list[tuple[Any, Any]]
"""What is to be replaced, each with what takes its place."""
_NONE: dict[str, str] = {}
_VIEWS = (type(_NONE.keys()), type(_NONE.values()), type(_NONE.items()))


def replace_everywhere(swaps: Swaps, keep: tuple[Any, ...] = ()) -> Swaps:
    """Make every container that refers to an original refer to its successor.

    What cannot be changed (a tuple, a bound method) is rebuilt, and in turn replaced where it is held.

    Args:
        swaps: what is replaced.
        keep: containers of originals that stay as they are.

    Returns:
        Each original that something still holds, with its holder.
    """
    left: Swaps = []
    # Our own pairs are to stay as they are.
    own = {id(swaps)} | {id(swap) for swap in swaps} | {id(one) for one in keep}
    for _ in range(DEEPEST_HOLDER):
        if not swaps:
            return left
        swaps = _replace_in_holders(swaps, own, left)
        own |= {id(swaps)} | {id(swap) for swap in swaps}
    return left + [(old, "holders of holders") for old, _ in swaps]


def _replace_in_holders(swaps: Swaps, own: set[int], left: Swaps) -> Swaps:
    """Replace in whatever refers to an original; gives those holders that had to be rebuilt."""
    table = {id(swap[0]): swap for swap in swaps}
    successors = {id(new) for _, new in swaps}
    rebuilt: Swaps = []
    wanted = tuple(original for original, _ in swaps)
    own = own | {id(wanted)}
    for holder in gc.get_referrers(*wanted):
        if id(holder) in own or id(holder) in successors or isinstance(holder, types.FrameType):
            continue
        successor = _replace_in(holder, table)
        if successor is not None:
            rebuilt.append((holder, successor))
        else:
            left += [(table[id(one)][0], holder) for one in gc.get_referents(holder) if id(one) in table]
    return rebuilt


def _replace_in(holder: Any, table: dict[int, tuple[Any, Any]]) -> Any:
    """Replace in a holder; gives its successor where the holder itself cannot be changed."""

    def new(value: Any) -> Any:
        return table[id(value)][1] if id(value) in table else value

    if isinstance(holder, dict):
        _replace_in_dict(holder, table)
    elif isinstance(holder, list):
        list.__setitem__(holder, slice(None), [new(value) for value in list.__iter__(holder)])
    elif isinstance(holder, collections.deque):
        for index, value in enumerate(list(holder)):
            holder[index] = new(value)
    elif isinstance(holder, types.CellType):
        holder.cell_contents = new(holder.cell_contents)
    elif isinstance(holder, types.FunctionType):
        holder.__defaults__ = new(holder.__defaults__)
    elif isinstance(holder, functools.partial):
        keywords = {key: new(value) for key, value in holder.keywords.items()}
        parts = (new(holder.func), tuple(new(value) for value in holder.args), keywords, vars(holder) or None)
        holder.__setstate__(parts)  # type: ignore[attr-defined]
    else:
        successor = _rebuilt(holder, new)
        if successor is not None:
            return successor
        _replace_in_object(holder, table)
    return None


def _rebuilt(holder: Any, new: Any) -> Any:
    """What takes the place of a holder that cannot be changed; None where it may be changed."""
    if isinstance(holder, tuple):
        values = [new(value) for value in holder]
        return type(holder)(*values) if hasattr(holder, "_fields") else tuple(values)
    if isinstance(holder, types.MethodType):
        return types.MethodType(new(holder.__func__), new(holder.__self__))
    if isinstance(holder, types.BuiltinMethodType):
        return getattr(new(holder.__self__), holder.__name__)
    if isinstance(holder, (staticmethod, classmethod)):
        return type(holder)(new(holder.__func__))
    if isinstance(holder, types.MappingProxyType):
        [inner] = gc.get_referents(holder)
        return types.MappingProxyType(new(inner))
    if isinstance(holder, _VIEWS):
        [inner] = gc.get_referents(holder)
        successor = new(inner)
        views = (successor.keys(), successor.values(), successor.items())
        return next(view for view in views if type(view) is type(holder))
    return None


def _replace_in_object(holder: Any, table: dict[int, tuple[Any, Any]]) -> None:
    """Attributes of an object, which newer Pythons keep in the object itself, and its slots."""
    attributes = getattr(holder, "__dict__", None)
    if type(attributes) is dict:
        _replace_in_dict(attributes, table)
    for base in type(holder).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            found = table.get(id(getattr(holder, name, None)))
            if found is not None:
                object.__setattr__(holder, name, found[1])


def _replace_in_dict(holder: dict[Any, Any], table: dict[int, tuple[Any, Any]]) -> None:
    found = [(key, value) for key, value in dict.items(holder) if id(value) in table]
    # Python caches the attributes of classes, so a class's own dict must be changed through the class.
    owner = _class_of(holder) if found and "__module__" in holder and "__doc__" in holder else None
    for key, value in found:
        patch = table[id(value)][1]
        if owner is not None:
            setattr(owner, key, patch)
        else:
            dict.__setitem__(holder, key, patch)


def _class_of(namespace: dict[Any, Any]) -> type | None:
    for holder in gc.get_referrers(namespace):
        if isinstance(holder, type) and holder.__dict__.keys() == namespace.keys():
            return holder
    return None


def is_namespace(table: Any) -> bool:
    """Return whether a container is the namespace of a module, class or object."""
    return gc.is_tracked(table) and any(
        isinstance(holder, (type, types.ModuleType)) or getattr(holder, "__dict__", None) is table
        for holder in gc.get_referrers(table)
    )


def others(function: types.FunctionType, owners: Mapping[int, Any]) -> dict[int, Any]:
    """Objects that have this function as a method and are no tools, as far as they live now."""
    classes = tuple(
        {cls for owner, _ in owners.values() for cls in type(owner).__mro__ if _defines(cls, function)}
    )
    return {
        id(one): one for one in gc.get_objects() if issubclass(type(one), classes) and id(one) not in owners
    }


def _defines(cls: type, function: types.FunctionType) -> bool:
    return any(getattr(raw, "__func__", raw) is function for raw in cls.__dict__.values())
