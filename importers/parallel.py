"""The work of an import in several processes: reading records, making traces of them, encoding these.

Writing to DuckDB takes a third of an import's time and can be done by one process alone; the rest is plain
Python. So an importer may give jobs beside its items (`JobImporter`), and the import carries them out in
other processes, some ahead of what it writes. What comes of them is in the order in which they were given.

A process answers one job at a time over a pipe of its own, asked by a thread: where either side is killed,
the other finds the pipe closed.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue

from replaydiff.importers.base import Imported, Job, Note, Reject, Skipped
from replaydiff.replay.errors import UnavailableError
from replaydiff.replay.event_loop import signals_wait
from replaydiff.replay.model import Trace
from replaydiff.replay.store.trace_codec import TraceRow, encode_trace

AHEAD = 4
"""Jobs for each process that are given out before their turn to be written: what bounds memory."""

Made = TraceRow | Reject | Skipped | Note
"""What is left of an item once it is ready to be written."""


def cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carried_out(found: Iterable[Imported | Job], processes: int) -> Iterator[Made]:
    """The items, and those of the jobs, each in its turn, with traces encoded.

    Raises:
        UnavailableError: a process was killed.
    """
    waiting: deque[Future[list[Made]] | Imported] = deque()
    with ThreadPoolExecutor(processes) as threads, _started(processes) as idle:
        try:
            for one in found:
                if isinstance(one, Trace | Reject | Skipped | Note):
                    waiting.append(one)
                else:
                    waiting.append(threads.submit(_run_job, idle, one))
                while len(waiting) > AHEAD * processes:
                    yield from _made(waiting.popleft())
            while waiting:
                yield from _made(waiting.popleft())
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _made(one: Future[list[Made]] | Imported) -> Iterable[Made]:
    if isinstance(one, Future):
        return one.result()
    return [encode_trace(one) if isinstance(one, Trace) else one]


def _run_job(idle: SimpleQueue[Connection], job: Job) -> list[Made]:
    process = idle.get()
    try:
        process.send(job)
        answer: list[Made] | Exception = process.recv()
    except (EOFError, OSError):
        raise UnavailableError(
            "a process of the import was killed, maybe for want of memory; what was written is kept",
            hint="import the same again",
        ) from None
    finally:
        idle.put(process)
    if isinstance(answer, Exception):
        raise answer
    return answer


@contextmanager
def _started(number: int) -> Iterator[SimpleQueue[Connection]]:
    """The pipes of that many processes, which end with the block.

    None of them ever sees Ctrl-C: that is for the one that started them.
    """
    context = get_context("spawn")
    idle: SimpleQueue[Connection] = SimpleQueue()
    running = []
    # Starting it unblocks the signal, so it is started before that is blocked.
    resource_tracker.ensure_running()
    try:
        with signals_wait():
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                for _ in range(number):
                    here, there = context.Pipe()
                    process = context.Process(target=_serve, args=(there,), daemon=True)
                    process.start()
                    there.close()
                    idle.put(here)
                    running.append(process)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield idle
    finally:
        for process in running:
            process.kill()
            process.join()
            process.close()


def _serve(pipe: Connection) -> None:
    """What another process does: jobs, until there are no more."""
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(pipe.recv()))


def _answer(job: Job) -> list[Made] | Exception:
    try:
        return [encode_trace(item) if isinstance(item, Trace) else item for item in job()]
    except Exception as error:  # noqa: BLE001 - it is raised where the job was given out
        return error
