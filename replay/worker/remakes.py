"""Tools that are made again: a new function with a tool's code is refused when it is called.

A tool may be defined within another function, which makes a new one whenever it is called: a factory, a
property, a method of another object. The code that it makes functions of is replaced there by code with the
same parameters that refuses the call. A function that comes into a listed table gets its own code back, and
is patched as any other.

One factory may make tools and other functions of the same code: a client makes all its methods. There the
call is refused if the new function holds what a tool holds, and runs otherwise.
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
    "function": ("def", "return {own}"),
    "coroutine": ("async def", "return await {own}"),
    "generator": ("def", "return (yield from {own})"),
    "async generator": ("async def", "async for replay_item in {own}: yield replay_item"),
    "awaited generator": ("def", "return (yield from {own})"),
}
_SIMPLE = (str, bytes, int, float, complex, bool, type(None), tuple, frozenset)
"""Types of values that say which of its functions a factory has made."""
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
    codes: dict[types.CodeType, list[types.FunctionType]] = {}
    for function, code in tools:
        if "<locals>" in function.__qualname__:
            codes.setdefault(code, []).append(function)
    if not codes:
        return
    successors = {
        code: _refusing(code, functions, refuse, is_shared=_is_shared(code))
        for code, functions in codes.items()
    }
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
            _set_code(maker, _without(maker.__code__, successors))


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


def _without(code: types.CodeType, successors: dict[types.CodeType, types.CodeType]) -> types.CodeType:
    def successor(const: Any) -> Any:
        if not isinstance(const, types.CodeType):
            return const
        if const in successors:
            return successors[const]
        return _without(const, successors) if any(one in successors for one in _nested(const)) else const

    return code.replace(co_consts=tuple(map(successor, code.co_consts)))


def _refusing(
    code: types.CodeType,
    tools: list[types.FunctionType],
    refuse: Callable[[str], BaseException],
    *,
    is_shared: bool,
) -> types.CodeType:
    """Return code with the same parameters, variables and kind that refuses to be called as one of the tools.

    Within it is a function of the tool's own code and variables, for calls that are none of a tool.
    """

    def allowed(own: types.FunctionType, given: dict[str, Any]) -> types.FunctionType:
        for one in tools:
            if not is_shared or (_holds_the_same(own, one) and _was_given(given, code, one)):
                raise refuse(
                    f"it made the tool {one.__qualname__} again and called it, and no listed table holds the "
                    "new function; put it in a listed table, or list the function that it calls"
                )
        return own

    definition, body = _BODIES[trampoline.kind_of(code)]
    free = "".join(f"{name}, " for name in code.co_freevars)
    parameters, passed = _parameters(code)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = ", ".join(f"{name!r}: {name}" for name in names)
    own = f"'allowed'(replay_own, {{{given}}})({passed})"
    text = (
        f"def outside({', '.join(code.co_freevars)}):\n"
        f"    {definition} made({parameters}):\n"
        f"        def replay_own(): ({free})\n"
        f"        {body.format(own=own)}\n"
        "    return made\n"
    )
    namespace: dict[str, Any] = {}
    exec(text, namespace)  # noqa: S102
    new: types.CodeType = namespace["outside"](*code.co_freevars).__code__
    inner = next(const for const in new.co_consts if isinstance(const, types.CodeType))
    new = new.replace(co_consts=tuple(code if const is inner else const for const in new.co_consts))
    made = trampoline.in_place_of(code, new, "allowed", allowed)
    _OWN[made] = code
    return made


def _holds_the_same(new: types.FunctionType, tool: types.FunctionType) -> bool:
    """Whether a factory made a function for the purpose of a tool, by the variables of both."""
    cells = zip(new.__closure__ or (), tool.__closure__ or ())  # noqa: B905 - Python 3.9
    return all(_is_alike(mine.cell_contents, theirs.cell_contents) for mine, theirs in cells)


def _was_given(given: dict[str, Any], code: types.CodeType, tool: types.FunctionType) -> bool:
    """Whether a call has the values of those defaults with which a tool was made."""
    names = code.co_varnames[: code.co_argcount]
    defaults = tool.__defaults__ or ()
    values = {**dict(zip(names[len(names) - len(defaults) :], defaults)), **(tool.__kwdefaults__ or {})}  # noqa: B905
    return all(_is_alike(given[name], value) for name, value in values.items())


def _is_alike(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, _SIMPLE) or isinstance(theirs, _SIMPLE):
        return type(mine) is type(theirs) and bool(mine == theirs)
    mine, theirs = getattr(mine, "__func__", mine), getattr(theirs, "__func__", theirs)
    if isinstance(mine, types.FunctionType) and isinstance(theirs, types.FunctionType):
        # A decorator makes a function around each function; what is around a patched one is answered.
        return mine.__code__ is theirs.__code__ and trampoline.handler_of(mine) is None
    return type(mine) is type(theirs)


def _parameters(code: types.CodeType) -> tuple[str, str]:
    """Write the parameters of a function of this code, and how a call passes them on.

    Defaults are not written: a function holds them, not its code.
    """
    names = list(code.co_varnames)
    first, keyword_only = code.co_argcount, code.co_kwonlyargcount
    parts, passed = names[:first], names[:first]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    rest = names[first + keyword_only :]
    if code.co_flags & inspect.CO_VARARGS:
        parts.append(f"*{rest[0]}")
        passed.append(f"*{rest.pop(0)}")
    elif keyword_only:
        parts.append("*")
    for name in names[first : first + keyword_only]:
        parts.append(name)
        passed.append(f"{name}={name}")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parts.append(f"**{rest[0]}")
        passed.append(f"**{rest.pop(0)}")
    return ", ".join(parts), ", ".join(passed)


def _set_code(function: types.FunctionType, code: types.CodeType) -> None:
    with contextlib.suppress(AttributeError):
        trampoline.set_code(function, code)
