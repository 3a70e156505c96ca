"""Tools that are made again: a new function with a tool's code is refused when it is called.

A tool may be defined within another function, which makes a new one whenever it is called: a factory, a
property, a method of another object. The code that it makes functions of is replaced there by code with the
same parameters that refuses the call. A function that comes into a listed table gets its own code back, and
is patched as any other.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import imports, trampoline
else:
    imports = sys.modules["_replaydiff_worker_imports"]
    trampoline = sys.modules["_replaydiff_worker_trampoline"]

_BODIES = {
    "function": ("def", "'refuse'()"),
    "coroutine": ("async def", "'refuse'()"),
    "generator": ("def", "'refuse'(); yield"),
    "async generator": ("async def", "'refuse'(); yield"),
    "awaited generator": ("def", "'refuse'(); yield"),
}
_OWN: dict[types.CodeType, types.CodeType] = {}
"""Code that refuses → the tool's code in whose place it is."""


def restore(function: types.FunctionType) -> None:
    """Give a function that was made again its own code, so that it can be patched."""
    own = _OWN.get(function.__code__)
    if own is not None:
        _set_code(function, own)


def prevent(
    tools: Iterable[tuple[types.FunctionType, types.CodeType]], refuse: Callable[[str], BaseException]
) -> None:
    """Refuse functions that are made of the code of these tools from now on.

    Args:
        tools: patched functions, each with the code that it had.
        refuse: keeps why the running trial cannot go on; what it returns is raised.
    """
    codes = {
        code: function
        for function, code in tools
        if "<locals>" in function.__qualname__ and not _is_shared(code)
    }
    if not codes:
        return
    files = {code.co_filename for code in codes}
    makers = [
        one
        for one in gc.get_objects()
        if type(one) is types.FunctionType
        and one.__code__.co_filename in files
        and id(one) not in trampoline.ORIGINALS.own
    ]
    for maker in makers:
        if any(code in codes for code in _nested(maker.__code__)):
            _set_code(maker, _without(maker.__code__, codes, refuse))


def _is_shared(code: types.CodeType) -> bool:
    """Whether functions that are no tools run this code as well, so that a new one may be none, either."""
    return any(
        type(one) is types.FunctionType and one.__code__ is code and id(one) not in trampoline.ORIGINALS.own
        for one in gc.get_referrers(code)
    )


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _nested(const)


def _without(
    code: types.CodeType,
    codes: dict[types.CodeType, types.FunctionType],
    refuse: Callable[[str], BaseException],
) -> types.CodeType:
    def successor(const: Any) -> Any:
        if not isinstance(const, types.CodeType):
            return const
        if const in codes:
            return _refusing(const, codes[const].__qualname__, refuse)
        return _without(const, codes, refuse) if any(one in codes for one in _nested(const)) else const

    return code.replace(co_consts=tuple(map(successor, code.co_consts)))


def _refusing(code: types.CodeType, name: str, refuse: Callable[[str], BaseException]) -> types.CodeType:
    """Return code with the same parameters, variables and kind that refuses every call."""

    def refused() -> None:
        raise refuse(
            f"it made the tool {name} again and called it, and no listed table holds the new function; "
            "put it in a listed table, or list the function that it calls"
        )

    definition, body = _BODIES[trampoline.kind_of(code)]
    free = "".join(f"_{index}, " for index in range(len(code.co_freevars)))
    namespace: dict[str, Any] = {}
    text = (
        f"def outside({free}):\n"
        f"    {definition} made({_parameters(code)}):\n"
        f"        if False: ({free})\n"
        f"        {body}\n"
        "    return made\n"
    )
    exec(text, namespace)  # noqa: S102
    new: types.CodeType = namespace["outside"](*range(len(code.co_freevars))).__code__
    made = trampoline.in_place_of(code, new, "refuse", refused)
    _OWN[made] = code
    return made


def _parameters(code: types.CodeType) -> str:
    """Write the parameters of a function of this code, without their defaults, which it does not hold."""
    names = list(code.co_varnames)
    first, keyword_only = code.co_argcount, code.co_kwonlyargcount
    parts = names[:first]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    rest = names[first + keyword_only :]
    if code.co_flags & inspect.CO_VARARGS:
        parts.append(f"*{rest.pop(0)}")
    elif keyword_only:
        parts.append("*")
    parts += names[first : first + keyword_only]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parts.append(f"**{rest.pop(0)}")
    return ", ".join(parts)


def _set_code(function: types.FunctionType, code: types.CodeType) -> None:
    with contextlib.suppress(AttributeError):
        trampoline.set_code(function, code)
