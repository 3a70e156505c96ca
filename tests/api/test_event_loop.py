"""Coroutines run from synchronous code, with and without a running event loop."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading

import pytest

from replaydiff.replay.event_loop import CANCELLATION, Cancellation, run_sync

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word")


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_without_a_loop_it_runs_in_this_thread() -> None:
    async def thread() -> threading.Thread:
        return threading.current_thread()

    assert run_sync(double(4)) == 8
    assert run_sync(thread()) is threading.current_thread()


def test_inside_a_running_loop_it_runs_in_another_thread_and_keeps_the_context() -> None:
    async def word() -> str:
        return WORD.get()

    async def notebook() -> tuple[int, str]:
        WORD.set("kept")
        return run_sync(double(4)), run_sync(word())

    assert asyncio.run(notebook()) == (8, "kept")


@pytest.mark.parametrize("inside", [False, True])
def test_an_error_passes_through(inside: bool) -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def notebook() -> None:
        run_sync(fail())

    with pytest.raises(ValueError, match="no"):
        asyncio.run(notebook()) if inside else run_sync(fail())


def test_a_cancellation_from_another_thread_lets_the_work_end_in_order() -> None:
    ended: list[str] = []
    started = threading.Event()
    cancellation = Cancellation()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("in order")

    def cancel() -> None:
        started.wait()
        cancellation.request()

    token = CANCELLATION.set(cancellation)
    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_sync(work())
    finally:
        CANCELLATION.reset(token)
        canceller.join()
    assert ended == ["in order"]


CODE = """
import asyncio, sys
from replaydiff.replay.event_loop import run_sync

async def work():
    print("started", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("ended in order", flush=True)

try:
    run_sync(work())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_cancels(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "started\n"
            os.kill(process.pid, number)
            assert (process.stdout.read(), process.wait()) == ("ended in order\n", 130)
        finally:
            process.kill()


NOTEBOOK = """
import asyncio, sys
from replaydiff.replay.event_loop import run_sync

async def work():
    print("started", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("ended in order", flush=True)

def cell():
    # As ipykernel runs a cell: in the main thread, inside a running loop, where Ctrl-C is KeyboardInterrupt.
    try:
        run_sync(work())
    except KeyboardInterrupt:
        print("interrupted", flush=True)

async def kernel():
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cell()

asyncio.run(kernel())
"""


def test_an_interrupt_inside_a_running_loop_cancels_the_coroutine_and_reaches_the_caller() -> None:
    with subprocess.Popen([sys.executable, "-c", NOTEBOOK], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "started\n"
            os.kill(process.pid, signal.SIGINT)
            assert (process.stdout.read(), process.wait()) == ("ended in order\ninterrupted\n", 0)
        finally:
            process.kill()
