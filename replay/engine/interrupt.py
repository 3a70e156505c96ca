"""Ctrl-C, `kill` and a closed terminal end a run in order; a second one ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from replaydiff.replay.errors import ExitCode

T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """A function that runs a coroutine as `asyncio.run` does, and cancels it at the first signal.

    The coroutine ends its work (CancelledError passes through it). At a second signal the process is gone
    at once: what has finished is in the journal, and workers end when their parent does.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may say what signals do.
        yield asyncio.run
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    async def heeding(work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        asked = False

        def stop() -> None:
            nonlocal asked
            if asked:
                os._exit(ExitCode.INTERRUPTED)
            asked = True
            task.cancel()

        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            # One that is ignored (`nohup`) stays ignored.
            if before[number] is not signal.SIG_IGN:
                loop.add_signal_handler(number, stop)
        return await task

    try:
        yield lambda work: asyncio.run(heeding(work))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
