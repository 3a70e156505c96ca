"""The work of an import in several processes: reading records, making traces of them, encoding these.

Writing to DuckDB takes a third of an import's time and can be done by one process alone; the rest is plain
Python. So an importer may give jobs beside its items (`JobImporter`), and the import carries them out in
other processes, some ahead of what it writes. What comes of them is in the order of the jobs; within a job
the traces come first, as columns.

A process answers one job at a time over a pipe of its own, asked by a thread: where either side is killed,
the other finds the pipe closed.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue

from replaydiff.importers.base import AllReceived, Imported, Job
from replaydiff.importers.convert import received
from replaydiff.importers.known import KnownRecords, KnownTrace, Made, converted
from replaydiff.replay.cycles import search_rarely
from replaydiff.replay.errors import UnavailableError
from replaydiff.replay.interruption import signals_wait
from replaydiff.replay.model import Trace
from replaydiff.replay.store.trace_codec import encode_trace

AHEAD_BYTES = 16_000_000
"""How much is given out for each process before its turn to be written: enough for the time that a commit
takes. It bounds memory."""
_READY_BYTES = 1_000_000
"""What is ready counts for this much: some records that the store knows hold the text of their whole job."""


def cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carried_out(
    found: Iterable[Imported | Job | AllReceived], known: KnownRecords, processes: int
) -> Iterator[Made]:
    """Yield the items, and those of the jobs, each in its turn, with traces encoded.

    Args:
        found: what an importer gives.
        known: the records that need not be converted.
        processes: how many do the jobs; 1 for this one alone.

    Raises:
        UnavailableError: a process was killed.
    """
    if processes == 1:
        for one in found:
            for part in () if isinstance(one, AllReceived) else _parts(one, known):
                yield from received(part, converted(known.key, part)) if isinstance(part, Job) else part
        return
    waiting: deque[tuple[int, Job, Future[list[Made]]] | Sequence[Made]] = deque()
    ahead = 0
    idle: SimpleQueue[Connection] | None = None
    with ThreadPoolExecutor(processes) as threads, ExitStack() as stack:
        try:
            for one in found:
                while waiting and isinstance(one, AllReceived):
                    ahead -= _size(waiting[0])
                    yield from _made(waiting.popleft())
                for part in () if isinstance(one, AllReceived) else _parts(one, known):
                    if isinstance(part, Job):
                        idle = idle or stack.enter_context(_started(processes))
                        # What receives belongs to this process.
                        sent = replace(part, receive=None)
                        size = sum(len(text) for _, text in part.records)
                        waiting.append((size, part, threads.submit(_run_job, idle, known.key, sent)))
                    else:
                        waiting.append(part)
                    ahead += _size(waiting[-1])
                    while ahead > AHEAD_BYTES * processes and len(waiting) > processes:
                        ahead -= _size(waiting[0])
                        yield from _made(waiting.popleft())
            while waiting:
                yield from _made(waiting.popleft())
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _size(one: tuple[int, Job, Future[list[Made]]] | Sequence[Made]) -> int:
    return one[0] if isinstance(one, tuple) else _READY_BYTES


def _made(one: tuple[int, Job, Future[list[Made]]] | Sequence[Made]) -> Iterable[Made]:
    if isinstance(one, tuple):
        _, job, future = one
        return received(job, future.result())
    return one


def _parts(one: Imported | Job, known: KnownRecords) -> Iterator[Job | Sequence[Made]]:
    """Yield what is ready to be written, and jobs of the records between those that are known."""
    if isinstance(one, Job):
        skipped = known.of(one)
        yield from _around(one, skipped) if skipped else (one,)
    else:
        yield [encode_trace(one) if isinstance(one, Trace) else one]


def _around(job: Job, known: Mapping[int, KnownTrace]) -> Iterator[Job | Sequence[Made]]:
    for is_known, places in groupby(range(len(job.records)), known.__contains__):
        if is_known:
            yield [known[place] for place in places]
        else:
            yield replace(job, records=[job.records[place] for place in places])


def _run_job(idle: SimpleQueue[Connection], key: bytes, job: Job) -> list[Made]:
    process = idle.get()
    try:
        process.send((key, job))
        answer: list[Made] | Exception = process.recv()
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
    search_rarely()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(*pipe.recv()))


def _answer(key: bytes, job: Job) -> list[Made] | Exception:
    try:
        return converted(key, job)
    except Exception as error:  # noqa: BLE001 - it is raised where the job was given out
        return error
