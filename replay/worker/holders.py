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


def replace_everywhere(swaps: list[tuple[Any, Any]]) -> None:
    """Make every container that refers to an original refer to its patch; `swaps` are pairs of them.

    What cannot be changed (a tuple, a partial, a bound method) is rebuilt, and in turn replaced where it
    is held.
    """
    own = {id(swap) for swap in swaps} | {id(vars(new)) for _, new in swaps}
    for _ in range(DEEPEST_HOLDER):
        table = {id(old): (old, new) for old, new in swaps}
        holders = gc.get_referrers(*(old for old, _ in table.values())) if table else []
        swaps = []
        for holder in holders:
            if id(holder) in own or holder is table or isinstance(holder, types.FrameType):
                continue
            rebuilt = _replace_in(holder, table)
            if rebuilt is not None:
                swaps.append((holder, rebuilt))
                own |= {id(swaps[-1]), id(rebuilt)}
        own.add(id(swaps))


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
    elif isinstance(holder, functools.partial):
        return functools.partial(new(holder.func), *holder.args, **holder.keywords)
    else:
        for name in _slots(type(holder)):
            if id(getattr(holder, name, None)) in table:
                object.__setattr__(holder, name, new(getattr(holder, name)))
    return None


def _replace_in_dict(holder: dict[Any, Any], table: dict[int, tuple[Any, Any]]) -> None:
    found = [key for key, value in list(holder.items()) if id(value) in table]
    # Python caches the attributes of classes, so a class's own dict must be changed through the class.
    owner = _class_of(holder) if "__module__" in holder and "__doc__" in holder else None
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


def _slots(cls: type) -> list[str]:
    names: list[str] = []
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return names
