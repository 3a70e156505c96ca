"""The only module that runs a coroutine from synchronous code.

It works with and without a running event loop (a notebook has one), and it turns signals into an orderly
end. After Ctrl-C, `kill` or a closed terminal no call that costs money begins any more (`underway`); those in
flight are waited for, so that none is paid for twice, but no longer than the grace; then the coroutine is
cancelled, which ends its work. A second signal ends the process at once. What had finished is stored by then,
and workers end when their parent does.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from types import FrameType
from typing import Any, TypeVar

from replaydiff.replay import interruption
from replaydiff.replay.errors import ExitCode

T = TypeVar("T")


class Cancellation:
    """A request, from any thread, to end the coroutine that `run_sync` runs for someone, as a signal does."""

    def __init__(self) -> None:
        # Not a plain lock: the handler of a signal may request it while the same thread holds the lock.
        self._lock = threading.RLock()
        self.requested = False
        self._cancel: Callable[[], object] | None = None

    def request(self) -> None:
        """Cancel what runs now, or whatever starts next."""
        with self._lock:
            self.requested = True
            if self._cancel is not None:
                self._cancel()

    def apply_to(self, cancel: Callable[[], object] | None) -> None:
        """Name what cancels the coroutine that runs now; None when it has ended."""
        with self._lock:
            self._cancel = cancel
            if self.requested and cancel is not None:
                cancel()


CANCELLATION: contextvars.ContextVar[Cancellation | None] = contextvars.ContextVar(
    "replaydiff_cancellation", default=None
)
"""Set by whoever may want to cancel the blocking calls made in this context."""


GRACE_S = 10.0
"""Seconds for which calls in flight are waited for after the first signal, if no setting says otherwise."""


class _Calls(AbstractAsyncContextManager[None]):
    """The calls of one coroutine that cost money and are in flight: each is a context."""

    def __init__(self, cancel: Callable[[], object], grace_s: float) -> None:
        self._cancel, self._grace_s = cancel, grace_s
        self._count = 0
        self._is_stopping = False

    async def __aenter__(self) -> None:
        """Count a call; once a signal has come, wait for the cancellation instead."""
        if self._is_stopping:
            await asyncio.get_running_loop().create_future()
        self._count += 1

    async def __aexit__(self, *_: object) -> None:
        """Count a call as ended; the last one after a signal ends the coroutine."""
        self._count -= 1
        if self._is_stopping and not self._count:
            self._cancel()

    def stop(self) -> None:
        """Cancel the coroutine as soon as no call is in flight, or when the grace is over."""
        self._is_stopping = True
        if not self._count or not self._grace_s:
            self._cancel()
            return
        calls = "1 call" if self._count == 1 else f"{self._count} calls"
        sys.stderr.write(
            f"\ninterrupted: waiting at most {self._grace_s:g} s for {calls} in flight; "
            "interrupt again to end at once\n"
        )
        asyncio.get_running_loop().call_later(self._grace_s, self._cancel)


_CALLS: contextvars.ContextVar[_Calls | None] = contextvars.ContextVar("replaydiff_calls", default=None)


def underway() -> AbstractAsyncContextManager[None]:
    """Return a context to enclose a call that costs money, until what it returned is kept."""
    return _CALLS.get() or nullcontext()


def run_sync(work: Coroutine[Any, Any, T], grace_s: float = GRACE_S) -> T:
    """Run a coroutine to its end and return its result.

    Inside a running event loop it gets a loop of its own in another thread, while this one waits.

    Args:
        work: the coroutine.
        grace_s: seconds for which calls that are `underway` are waited for after the first signal.

    Raises:
        KeyboardInterrupt: a signal or a `Cancellation` ended it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(work, grace_s)
    return _run_in_thread(work, grace_s)


def _run_here(work: Coroutine[Any, Any, T], grace_s: float) -> T:
    stopping = Cancellation()

    def stop(_number: int, _frame: FrameType | None) -> None:
        if stopping.requested:
            os._exit(ExitCode.INTERRUPTED)
        stopping.request()

    with interruption.handled_by(stop):
        try:
            return asyncio.run(_cancellable(work, stopping, grace_s))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except Exception as error:
            if stopping.requested and interruption.is_cause_of(error):
                raise KeyboardInterrupt from None
            raise
        finally:
            if stopping.requested:
                interruption.answered()


async def _cancellable(work: Coroutine[Any, Any, T], stopping: Cancellation, grace_s: float) -> T:
    loop = asyncio.get_running_loop()
    calls = _Calls(lambda: task.cancel(), grace_s)
    _CALLS.set(calls)
    task = asyncio.ensure_future(work)
    waking = interruption.interruptible(_Waking(loop))

    def stop() -> None:
        # In the loop, and not in the handler: DuckDB calls handlers in the middle of a query, too.
        interruption.answered()
        calls.stop()

    stopping.apply_to(lambda: loop.call_soon_threadsafe(stop))
    cancellation = CANCELLATION.get()
    if cancellation is not None:
        cancellation.apply_to(lambda: loop.call_soon_threadsafe(calls.stop))
    try:
        return await task
    finally:
        stopping.apply_to(None)
        if cancellation is not None:
            cancellation.apply_to(None)
        del waking


class _Waking:
    """Lets a loop take a step, before which Python calls the handlers of signals.

    A signal that arrives just before the loop waits for its sockets does not end the waiting.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def interrupt(self) -> None:
        """Wake the loop."""
        self._loop.call_soon_threadsafe(lambda: None)


def _run_in_thread(work: Coroutine[Any, Any, T], grace_s: float) -> T:
    cancellation = CANCELLATION.get() or Cancellation()
    context = contextvars.copy_context()
    context.run(CANCELLATION.set, cancellation)
    with ThreadPoolExecutor(1, thread_name_prefix="replaydiff") as pool:
        try:
            # Ctrl-C may come as soon as the work has begun, before the pool knows its thread.
            with interruption.signals_wait():
                future = pool.submit(context.run, _run_here, work, grace_s)
            return future.result()
        except KeyboardInterrupt:
            # Ctrl-C in a notebook interrupts this waiting thread; the work continues until it is cancelled.
            cancellation.request()
            raise
