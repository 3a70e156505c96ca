"""The work of an import in several processes: reading records, making traces of them, encoding these.

Writing to DuckDB takes a third of an import's time and can be done by one process alone; the rest is plain
Python. So an importer may give jobs beside its items (`JobImporter`), and the import carries them out in
other processes, some ahead of what it writes. What comes of them is in the order in which they were given.

A process answers one job at a time over a pipe of its own, asked by a thread: where either side is killed,
the other finds the pipe closed.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import NamedTuple

from replaydiff.importers.base import Imported, Job
from replaydiff.importers.known import KnownRecords, KnownTrace, Made, made_of
from replaydiff.replay.errors import UnavailableError
from replaydiff.replay.interruption import signals_wait
from replaydiff.replay.model import Trace
from replaydiff.replay.store.trace_codec import encode_trace

AHEAD = 4
"""Jobs for each process that are given out before their turn to be written: what bounds memory."""


def cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carried_out(found: Iterable[Imported | Job], known: KnownRecords, processes: int) -> Iterator[Made]:
    """The items, and those of the jobs, each in its turn, with traces encoded.

    Args:
        found: what an importer gives.
        known: the records that need not be converted.
        processes: how many do the jobs; 1 for this one alone.

    Raises:
        UnavailableError: a process was killed.
    """
    if processes == 1:
        for one in found:
            if isinstance(one, Job):
                skipped = known.of(one)
                yield from _merged(one, skipped, _converted(known.key, _left(one, skipped)))
            else:
                yield encode_trace(one) if isinstance(one, Trace) else one
        return
    waiting: deque[_Waiting | Imported] = deque()
    idle: SimpleQueue[Connection] | None = None
    with ThreadPoolExecutor(processes) as threads, ExitStack() as stack:
        try:
            for one in found:
                if isinstance(one, Job):
                    skipped = known.of(one)
                    answer = None
                    if len(skipped) < len(one.records):
                        idle = idle or stack.enter_context(_started(processes))
                        answer = threads.submit(_run_job, idle, known.key, _left(one, skipped))
                    waiting.append(_Waiting(one, skipped, answer))
                else:
                    waiting.append(one)
                while len(waiting) > AHEAD * processes:
                    yield from _made(waiting.popleft())
            while waiting:
                yield from _made(waiting.popleft())
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


class _Waiting(NamedTuple):
    """A job that was given out."""

    job: Job
    known: dict[int, KnownTrace]
    answer: Future[list[list[Made]]] | None
    """What becomes of the records that are not known; None where all are."""


def _made(one: _Waiting | Imported) -> Iterable[Made]:
    if isinstance(one, _Waiting):
        return _merged(one.job, one.known, one.answer.result() if one.answer else ())
    return [encode_trace(one) if isinstance(one, Trace) else one]


def _merged(job: Job, known: dict[int, KnownTrace], others: Iterable[list[Made]]) -> Iterator[Made]:
    """What became of a job's records, in their order."""
    made = iter(others)
    for place in range(len(job.records)):
        if place in known:
            yield known[place]
        else:
            yield from next(made)


def _left(job: Job, known: Mapping[int, KnownTrace]) -> Job:
    """The job without the records that are known."""
    if not known:
        return job
    return replace(job, records=[one for at, one in enumerate(job.records) if at not in known])


def _converted(key: bytes, job: Job) -> Iterator[list[Made]]:
    return (made_of(key, job, at) for at in range(len(job.records)))


def _run_job(idle: SimpleQueue[Connection], key: bytes, job: Job) -> list[list[Made]]:
    process = idle.get()
    try:
        process.send((key, job))
        answer: list[list[Made]] | Exception = process.recv()
    except (EOFError, OSError):
        raise UnavailableError(
            "a process of the import was killed, perhaps for lack of memory; what was written is kept",
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
    # No collection looks at the imported modules again.
    gc.freeze()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(*pipe.recv()))


def _answer(key: bytes, job: Job) -> list[list[Made]] | Exception:
    try:
        return list(_converted(key, job))
    except Exception as error:  # noqa: BLE001 - it is raised where the job was given out
        return error
