"""The only module that runs a coroutine from synchronous code.

It works with and without a running event loop (a notebook has one), and it turns signals into an orderly
end: Ctrl-C, `kill` and a closed terminal cancel the coroutine, which ends its work; a second signal ends the
process at once. What had finished is stored by then, and workers end when their parent does.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

from replaydiff.replay import interruption
from replaydiff.replay.errors import ExitCode

T = TypeVar("T")


class Cancellation:
    """A request, from any thread, to cancel the coroutine that `run_sync` runs for someone."""

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


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    Inside a running event loop it gets a loop of its own in another thread, while this one waits.

    Raises:
        KeyboardInterrupt: a signal or a `Cancellation` ended it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(work)
    return _run_in_thread(work)


def _run_here(work: Coroutine[Any, Any, T]) -> T:
    stopping = Cancellation()

    def stop(_number: int, _frame: FrameType | None) -> None:
        if stopping.requested:
            os._exit(ExitCode.INTERRUPTED)
        stopping.request()

    with interruption.handled_by(stop):
        try:
            return asyncio.run(_cancellable(work, stopping))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except Exception as error:
            if stopping.requested and interruption.is_cause_of(error):
                raise KeyboardInterrupt from None
            raise
        finally:
            if stopping.requested:
                interruption.answered()


async def _cancellable(work: Coroutine[Any, Any, T], stopping: Cancellation) -> T:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    waking = interruption.interruptible(_Waking(loop))

    def stop() -> None:
        # In the loop, and not in the handler: DuckDB calls handlers in the middle of a query, too.
        interruption.answered()
        task.cancel()

    stopping.apply_to(lambda: loop.call_soon_threadsafe(stop))
    cancellation = CANCELLATION.get()
    if cancellation is not None:
        cancellation.apply_to(lambda: loop.call_soon_threadsafe(task.cancel))
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


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    cancellation = CANCELLATION.get() or Cancellation()
    context = contextvars.copy_context()
    context.run(CANCELLATION.set, cancellation)
    with ThreadPoolExecutor(1, thread_name_prefix="replaydiff") as pool:
        try:
            # Ctrl-C may come as soon as the work has begun, before the pool knows its thread.
            with interruption.signals_wait():
                done = pool.submit(context.run, _run_here, work)
            return done.result()
        except KeyboardInterrupt:
            # Ctrl-C in a notebook interrupts this waiting thread; the work continues until it is cancelled.
            cancellation.request()
            raise
