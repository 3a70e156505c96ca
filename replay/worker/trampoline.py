"""Replace the code of functions, so that every reference to them calls a handler.

A function is the same object before and after: a table, a set, a partial, a closure, a cache or a framework
that holds it reaches the handler. What a caller can read of it (signature, annotations, docstring, source,
whether it is async or a generator) stays as it was.
"""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import failures
else:
    failures = sys.modules["_replaydiff_worker_failures"]

# What the code of a patched function is compiled from. `if False` makes the names of `free` free variables
# without using them: a function's new code must have as many as its old code. No name of its own may be that
# of such a variable: under a profiler or debugger, both get the value of the variable up to Python 3.10.
_FRAME = """
def outside({free}):
    {kind} replaced(*replay_args, **replay_named):
        if False: ({free})
        {body}
    return replaced
"""
_BODIES = {
    "function": ("def", "return 'handler'.call(replay_args, replay_named)"),
    "coroutine": ("async def", "return await 'handler'.wait(replay_args, replay_named)"),
    "generator": ("def", "return (yield from 'handler'.generate(replay_args, replay_named))"),
    "async generator": (
        "async def",
        "async for replay_item in 'handler'.generate_async(replay_args, replay_named): yield replay_item",
    ),
    "awaited generator": ("def", "return (yield from 'handler'.wait(replay_args, replay_named).__await__())"),
}
RUNNING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class Handler:
    """What a patched function calls in place of its own code. Each method takes `(args, kwargs)`."""

    call: Any
    wait: Any
    generate: Any
    generate_async: Any

    def __reduce_ex__(self, _: Any) -> Any:
        """Refuse to be copied with the code that it is in: by value, a tool can be sent to no process."""
        raise TypeError(
            "the code of a tool cannot be sent to another process, where nothing would answer it; "
            "define the tool in a module that the other process imports"
        )


class Originals:
    """The code that functions had before they were patched."""

    def __init__(self) -> None:
        self._places: set[tuple[Any, ...]] = set()
        self._texts: set[tuple[Any, ...]] = set()
        self.own: set[int] = set()
        """Ids of the functions made here to run original code; they are kept for good."""
        self._kept: list[types.FunctionType] = []
        self.making = False
        """A function of original code is being made here."""

    def __contains__(self, code: object) -> bool:
        """Whether this is the code of a tool, a changed copy of it, or the same text compiled by `exec`."""
        return isinstance(code, types.CodeType) and (
            _place(code) in self._places or (code.co_filename.startswith("<") and _text(code) in self._texts)
        )

    def take(self, function: types.FunctionType) -> types.FunctionType:
        """Return a function that runs what this one runs before it is patched."""
        original = self.copied(function)
        self._places.add(_place(function.__code__))
        self._texts.add(_text(function.__code__))
        self.own.add(id(original))
        self._kept.append(original)
        return original

    def copied(self, function: types.FunctionType) -> types.FunctionType:
        """Return another function of the same code."""
        self.making = True
        try:
            copy = types.FunctionType(
                function.__code__,
                function.__globals__,
                function.__name__,
                function.__defaults__,
                function.__closure__,
            )
        finally:
            self.making = False
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
        return copy


def _place(code: types.CodeType) -> tuple[Any, ...]:
    return code.co_filename, code.co_firstlineno, code.co_code, code.co_names


def _text(code: types.CodeType) -> tuple[Any, ...]:
    return code.co_name, code.co_code, code.co_names, code.co_varnames


ORIGINALS = Originals()


def kind_of(code: types.CodeType) -> str:
    """What calling a function of this code makes: a value, a coroutine, or a generator."""
    if code.co_flags & inspect.CO_COROUTINE:
        return "coroutine"
    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return "async generator"
    if code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        return "awaited generator"
    return "generator" if code.co_flags & inspect.CO_GENERATOR else "function"


def handler_of(function: object) -> Any:
    """Return the handler of a patched function; None where it runs its own code."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or code not in failures.PATCHED:
        return None
    return next(constant for constant in code.co_consts if isinstance(constant, Handler))


def replace_code(function: types.FunctionType, handler: Handler) -> None:
    """Make a function call the handler, and keep its signature as it was."""
    if "__signature__" not in function.__dict__ and "__wrapped__" not in function.__dict__:
        signature = signature_of(function)
        if signature is not None:
            function.__signature__ = signature  # type: ignore[attr-defined]
    old = function.__code__
    code = in_place_of(old, _compiled(kind_of(old), len(old.co_freevars)), "handler", handler)
    failures.PATCHED.add(code)
    set_code(function, code)


def in_place_of(old: types.CodeType, new: types.CodeType, placeholder: str, value: object) -> types.CodeType:
    """Return new code that has the names and the place of old code, and a value for a constant.

    Args:
        old: the code that it takes the place of.
        new: as it was compiled, with as many free variables.
        placeholder: the constant that stands for the value.
        value: what the new code calls.
    """
    changes: dict[str, Any] = {
        "co_consts": tuple(value if const == placeholder else const for const in new.co_consts),
        "co_freevars": old.co_freevars,
        "co_name": old.co_name,
        "co_filename": old.co_filename,
        "co_firstlineno": old.co_firstlineno,
    }
    if sys.version_info >= (3, 11):  # noqa: UP036 - the agent's Python may be older
        changes["co_qualname"] = old.co_qualname
    if old.co_flags & inspect.CO_ITERABLE_COROUTINE:
        changes["co_flags"] = new.co_flags | inspect.CO_ITERABLE_COROUTINE
    return new.replace(**changes)


def set_code(function: types.FunctionType, code: types.CodeType) -> None:
    """Give a function other code, which only this package may do with a tool's."""
    ORIGINALS.making = True
    try:
        function.__code__ = code
    finally:
        ORIGINALS.making = False


def signature_of(function: Any) -> inspect.Signature | None:
    """Return the signature of a callable; None where it has none that can be read."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
    except Exception:
        if sys.version_info < (3, 14):
            return None
    # An annotation that cannot be evaluated; older Pythons do not evaluate it here.
    import annotationlib  # type: ignore[import-not-found,unused-ignore]

    try:
        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    except Exception:
        return None


def signature_of_partial(function: Any, partial: Any) -> inspect.Signature | None:
    """Return the signature of a partial method, `self` included."""
    signature = signature_of(function)
    if signature is None:
        return None
    first, *rest = signature.parameters.values()
    left = [one for one in rest[len(partial.args) :] if one.name not in partial.keywords]
    return signature.replace(parameters=[first, *left])


def holders_of(
    functions: Iterable[types.FunctionType],
) -> tuple[dict[int, list[types.FunctionType]], list[Any]]:
    """Return what runs a function's code, or keeps what it returned, beside the function itself.

    Returns:
        Copies with the same code and the same variables, by the id of the function; and every
        `functools.lru_cache` around one of the functions.
    """
    functions = list(functions)
    sharing: dict[int, list[types.FunctionType]] = {}
    for function in functions:
        sharing.setdefault(id(function.__code__), []).append(function)
    known = ORIGINALS.own | {id(function) for function in functions}
    copies: dict[int, list[types.FunctionType]] = {}
    caches = []
    codes = [function.__code__ for function in functions]
    for holder in gc.get_referrers(*codes, *functions):
        if type(holder) is functools._lru_cache_wrapper:
            caches.append(holder)
        elif type(holder) is types.FunctionType and id(holder) not in known:
            for function in sharing.get(id(holder.__code__), ()):
                if _same_cells(holder, function):
                    copies.setdefault(id(function), []).append(holder)
                    break
    return copies, caches


def suspended(codes: set[types.CodeType]) -> Any:
    """Return what runs one of these codes: a generator or coroutine that was made, or a thread's frame."""
    for frame in sys._current_frames().values():
        current: types.FrameType | None = frame
        while current is not None:
            if current.f_code in codes:
                return current
            current = current.f_back
    for found in gc.get_objects():
        if type(found) in RUNNING:
            code = getattr(found, "gi_code", None) or getattr(found, "cr_code", None)
            code = code or getattr(found, "ag_code", None)
            if code in codes:
                return found
    return None


def _same_cells(one: types.FunctionType, other: types.FunctionType) -> bool:
    mine, theirs = one.__closure__ or (), other.__closure__ or ()
    return len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs))  # noqa: B905 - Python 3.9


@functools.cache
def _compiled(kind: str, free: int) -> types.CodeType:
    names = "".join(f"_{index}, " for index in range(free))
    definition, body = _BODIES[kind]
    namespace: dict[str, Any] = {}
    exec(_FRAME.format(free=names, kind=definition, body=body), namespace)  # noqa: S102
    code: types.CodeType = namespace["outside"](*range(free)).__code__
    return code
