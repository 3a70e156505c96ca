"""Everyone who holds a function that was patched: they are made to hold the patch.

A function that was imported by name, listed in a table, bound as a default or registered with a framework is
found through the garbage collector, which knows all containers.
"""

from __future__ import annotations

import functools
import gc
import types
from typing import Any

DEEPEST_HOLDER = 3
"""How many tuples, partials or bound methods around a function are rebuilt to hold its patch."""


Swaps = list[tuple[Any, Any]]
"""What is to be replaced, each with what takes its place."""


def replace_everywhere(swaps: Swaps) -> None:
    """Make every container that refers to an original refer to its patch.

    What cannot be changed (a tuple, a partial, a bound method) is rebuilt, and in turn replaced where it
    is held.
    """
    # Our own pairs, and the patches, which remember what they replace, are to stay as they are.
    own = {id(swaps)} | {id(swap) for swap in swaps} | {id(vars(new)) for _, new in swaps}
    for _ in range(DEEPEST_HOLDER):
        if not swaps:
            return
        swaps = _replace_in_holders(swaps, own)
        own |= {id(swaps)} | {id(swap) for swap in swaps} | {id(rebuilt) for _, rebuilt in swaps}


def _replace_in_holders(swaps: Swaps, own: set[int]) -> Swaps:
    """Replace in whatever refers to an original; gives those holders that had to be rebuilt."""
    table = {id(swap[0]): swap for swap in swaps}
    rebuilt: Swaps = []
    for holder in gc.get_referrers(*(original for original, _ in swaps)):
        if id(holder) not in own and not isinstance(holder, types.FrameType):
            successor = _replace_in(holder, table)
            if successor is not None:
                rebuilt.append((holder, successor))
    return rebuilt


def _replace_in(holder: Any, table: dict[int, tuple[Any, Any]]) -> Any:
    """Replace in a holder; gives its successor where the holder itself cannot be changed."""

    def new(value: Any) -> Any:
        return table[id(value)][1] if id(value) in table else value

    if isinstance(holder, dict):
        _replace_in_dict(holder, table)
    elif isinstance(holder, list):
        holder[:] = [new(value) for value in holder]
    elif isinstance(holder, types.CellType):
        holder.cell_contents = new(holder.cell_contents)
    elif isinstance(holder, types.FunctionType):
        holder.__defaults__ = new(holder.__defaults__)
    elif type(holder) is tuple:
        return tuple(new(value) for value in holder)
    elif isinstance(holder, types.MethodType):
        return types.MethodType(new(holder.__func__), holder.__self__)
    elif isinstance(holder, (staticmethod, classmethod)):
        return type(holder)(new(holder.__func__))
    elif isinstance(holder, functools.partial):
        return functools.partial(new(holder.func), *holder.args, **holder.keywords)
    else:
        _replace_in_object(holder, table)
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
    found = [key for key, value in list(holder.items()) if id(value) in table]
    # Python caches the attributes of classes, so a class's own dict must be changed through the class.
    owner = _class_of(holder) if found and "__module__" in holder and "__doc__" in holder else None
    for key in found:
        patch = table[id(holder[key])][1]
        if owner is not None:
            setattr(owner, key, patch)
        else:
            holder[key] = patch


def _class_of(namespace: dict[Any, Any]) -> type | None:
    for holder in gc.get_referrers(namespace):
        if isinstance(holder, type) and holder.__dict__.keys() == namespace.keys():
            return holder
    return None
