"""Asynchronous twins of blocking methods."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def in_thread(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return the asynchronous twin of a blocking method: it runs in a thread of its own.

    The event loop stays free meanwhile, as in a notebook or a web service. Cancelling the twin cancels the
    work, and waits until it has ended: what had finished is kept, as after Ctrl-C.
    """

    @functools.wraps(method)
    async def twin(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        import asyncio

        from replaydiff.replay.event_loop import CANCELLATION, Cancellation

        cancellation = Cancellation()
        context = contextvars.copy_context()
        context.run(CANCELLATION.set, cancellation)
        call = functools.partial(context.run, method, self, *args, **kwargs)
        future = asyncio.get_running_loop().run_in_executor(None, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            cancellation.request()
            with contextlib.suppress(BaseException):
                await future
            raise

    twin.__name__ = f"a{method.__name__}"
    twin.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{twin.__name__}"
    twin.__doc__ = f"Run `{method.__name__}` without blocking the event loop; see there."
    return cast("Callable[Concatenate[S, P], Coroutine[Any, Any, R]]", twin)
