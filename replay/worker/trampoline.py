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
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import Any

from . import calls, failures, kinds

# What the code of a patched function is compiled from. `if False` makes the names of `free` free variables
# without using them: a function's new code must have as many as its old code. No name of ours may be that
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


class Handler:
    """What a patched function calls in place of its code. Each method takes `(args, kwargs)`."""

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


class Answering(Handler):
    """Asks for the recorded answer of each call."""

    def __init__(self, original: Callable[..., Any], ask: Callable[[calls.PatchedCall], Any]) -> None:
        """Make it ready to be called.

        Args:
            original: runs what the function ran before it was patched.
            ask: answers a call (see `calls.Asking.ask`).
        """
        self.original: Any = original
        self._ask = ask

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.PatchedCall | None:
        """Return the tool call; None where the function runs as it was written."""
        raise NotImplementedError

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call of a plain function."""
        call = self.read(args, kwargs)
        if call is None:
            return self.original(*args, **kwargs)
        if call.awaits:
            return self._waited(call, args, kwargs)
        answer = self._ask(call)
        return (
            answer.run(lambda: self.original(*args, **kwargs)) if isinstance(answer, calls.Live) else answer
        )

    async def wait(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call of an async function."""
        call = self.read(args, kwargs)
        if call is None:
            return await self.original(*args, **kwargs)
        return await self._waited(call, args, kwargs)

    async def _waited(self, call: calls.PatchedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        answer = self._ask(call)
        if isinstance(answer, calls.Live):
            return await answer.wait(lambda: self.original(*args, **kwargs))
        return await answer if inspect.isawaitable(answer) else answer

    def generate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Any, Any, Any]:
        """Answer a call of a generator: a recorded list item by item, anything else as its one item."""
        call = self.read(args, kwargs)
        if call is None:
            return (yield from self.original(*args, **kwargs))
        answer = self._ask(call)
        if not isinstance(answer, calls.Live):
            yield from answer if isinstance(answer, list) else [answer]
            return answer
        with answer:
            answer.result = []
            for item in self.original(*args, **kwargs):
                answer.result.append(item)
                yield item
        return answer.result

    async def generate_async(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """Answer a call of an async generator."""
        call = self.read(args, kwargs)
        if call is None:
            async for item in self.original(*args, **kwargs):
                yield item
            return
        answer = self._ask(call)
        if not isinstance(answer, calls.Live):
            for item in answer if isinstance(answer, list) else [answer]:
                yield item
            return
        with answer:
            answer.result = []
            async for item in self.original(*args, **kwargs):
                answer.result.append(item)
                yield item


def copied(function: types.FunctionType) -> types.FunctionType:
    """Return another function of the same code, which keeps it where the function is patched."""
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def kind_of(code: types.CodeType) -> str:
    """Return what calling a function of this code makes: a value, a coroutine, or a generator."""
    if code.co_flags & inspect.CO_COROUTINE:
        return "coroutine"
    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return "async generator"
    if code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        return "awaited generator"
    return "generator" if code.co_flags & inspect.CO_GENERATOR else "function"


def handler_of(function: object) -> Any:
    """Return the handler of a patched function; None where it runs the code it was written with."""
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
    new = _compiled(kind_of(old), len(old.co_freevars))
    changes: dict[str, Any] = {
        "co_consts": tuple(handler if const == "handler" else const for const in new.co_consts),
        "co_freevars": old.co_freevars,
        "co_name": old.co_name,
        "co_filename": old.co_filename,
        "co_firstlineno": old.co_firstlineno,
    }
    if sys.version_info >= (3, 11):  # noqa: UP036 - the agent's Python may be older
        changes["co_qualname"] = old.co_qualname
    if old.co_flags & inspect.CO_ITERABLE_COROUTINE:
        changes["co_flags"] = new.co_flags | inspect.CO_ITERABLE_COROUTINE
    code = new.replace(**changes)
    failures.PATCHED.add(code)
    function.__code__ = code


def signature_of(function: Any) -> inspect.Signature | None:
    """Return the signature of a callable; None where it has none that can be read."""
    try:
        return inspect.signature(function, follow_wrapped=kinds.unwrapped(function) is not function)
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


def passed(
    signature: inspect.Signature | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    has_self: bool = False,
) -> dict[str, Any]:
    """Return the arguments of a call by name, those that were passed and no others.

    Args:
        signature: of what was called; None where it cannot be read.
        args: positional arguments, without `self`.
        kwargs: named arguments.
        has_self: the signature begins with `self`.
    """
    try:
        bound = signature.bind_partial(*(None,) * has_self, *args, **kwargs).arguments if signature else None
    except TypeError:
        # The real tool would have refused this call, and its recording, if there is one, holds that error.
        bound = None
    if signature is None or bound is None:
        return {**{f"_{index}": value for index, value in enumerate(args)}, **kwargs}
    named: dict[str, Any] = {}
    for name, value in list(bound.items())[has_self:]:
        is_named = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        named.update(value if is_named else {name: value})
    return named


def is_shared(function: types.FunctionType) -> bool:
    """Return whether another function runs the same code, as those do that one factory makes."""
    holders = [holder for holder in gc.get_referrers(function.__code__) if type(holder) is types.FunctionType]
    return any(holder.__code__ is function.__code__ for holder in holders if holder is not function)


def replace_in_factory(function: types.FunctionType, original: types.CodeType) -> None:
    """Have the function that made a patched one make patched ones from now on.

    Args:
        function: is defined in another function, and patched.
        original: its code before that.
    """
    value: Any = sys.modules.get(function.__module__)
    try:
        for name in function.__qualname__.partition(".<locals>")[0].split("."):
            value = inspect.getattr_static(value, name)
    except AttributeError:
        return
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    factory = kinds.unwrapped(getattr(value, "__func__", value))
    if type(factory) is types.FunctionType and handler_of(factory) is None:
        factory.__code__ = _with(factory.__code__, original, function.__code__)


def _with(code: types.CodeType, old: types.CodeType, new: types.CodeType) -> types.CodeType:
    """Return code in which other code takes the place of code that is defined in it."""
    consts = tuple(
        new if const is old else _with(const, old, new) if isinstance(const, types.CodeType) else const
        for const in code.co_consts
    )
    is_same = all(before is after for before, after in zip(code.co_consts, consts))  # noqa: B905 - Python 3.9
    return code if is_same else code.replace(co_consts=consts)


@functools.cache
def _compiled(kind: str, free: int) -> types.CodeType:
    names = "".join(f"_{index}, " for index in range(free))
    definition, body = _BODIES[kind]
    namespace: dict[str, Any] = {}
    exec(_FRAME.format(free=names, kind=definition, body=body), namespace)  # noqa: S102
    code: types.CodeType = namespace["outside"](*range(free)).__code__
    return code
