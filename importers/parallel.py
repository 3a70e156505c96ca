"""The work of an import in several processes: reading records, making traces of them, encoding these.

Writing to DuckDB takes a third of an import's time and can be done by one process alone; the rest is plain
Python. So an importer may give jobs beside its items (`JobImporter`), and the import carries them out in
other processes, some ahead of what it writes. What comes of them is in the order of the jobs; within a job
the traces come first, as columns.

A process answers one job at a time over a pipe of its own, asked by a thread: where either side is killed,
the other finds the pipe closed. What goes over it for a job:

| from | what | when |
|---|---|---|
| the import | the key of record hashes, and the `Job` or `FileJob` | |
| the process | `Met`: digests of the personal data in it, in order of meeting | with redaction |
| the import | the numbers of their tokens, once the job before has its own | with redaction |
| the process | what became of the job, or the exception that it raised | |

So tokens are numbered as one process would number them, and no process waits for one that was given a later
job.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from replaydiff.importers.base import AllReceived, FileJob, Imported, Job, Reject
from replaydiff.importers.convert import received
from replaydiff.importers.known import KnownRecords, KnownTrace, Made, Redact, converted, ready
from replaydiff.replay.cycles import newer_cycles_only
from replaydiff.replay.errors import UnavailableError
from replaydiff.replay.interruption import signals_wait
from replaydiff.replay.model import Trace

if TYPE_CHECKING:
    from replaydiff.importers.redacting import Digest, Redaction
    from replaydiff.replay.settings import RedactSection
    from replaydiff.replay.store.import_records import Tokens

_Running = tuple[int, Job | FileJob, Future[list["Made"]]]
"""A job, and how large it is."""
AHEAD_BYTES = 32_000_000
"""How much is given out for each process before its turn to be written: enough for most of the time that a
commit takes. It bounds memory."""
_READY_BYTES = 1_000_000
"""What is ready counts for this much: some records that the store knows hold the text of their whole job."""


_KEPT_BYTES = 32 * 1024 * 1024
"""What is larger is given back, and so is what is free beyond four times as much."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""As in glibc's malloc.h."""


def cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carried_out(
    found: Iterable[Imported | Job | FileJob | AllReceived],
    known: KnownRecords,
    redaction: Redaction | None,
    processes: int,
) -> Iterator[Made]:
    """Yield the items, and those of the jobs, each in its turn, ready to be written.

    Args:
        found: what an importer gives.
        known: the records that need not be converted.
        redaction: takes out personal data; one that is not repeatable is for one process.
        processes: how many do the jobs; 1 for this one alone.

    Raises:
        UnavailableError: a process was killed.
    """
    if processes == 1:
        redact = None if redaction is None else redaction.items
        for one in found:
            for part in () if isinstance(one, AllReceived) else _parts(one, known, redaction):
                yield from (
                    received(part, converted(known.key, part, redact))
                    if isinstance(part, Job | FileJob)
                    else part
                )
        return
    waiting: deque[_Running | Sequence[Made]] = deque()
    ahead = 0
    idle: SimpleQueue[Connection] | None = None
    turn = None if redaction is None else _Turn.first(redaction.tokens)
    with ThreadPoolExecutor(processes) as threads, ExitStack() as stack:
        try:
            for one in found:
                # The tokens of an item are numbered here, after those of all jobs before it.
                has_tokens = redaction is not None and isinstance(one, Trace | Reject)
                while waiting and (has_tokens or isinstance(one, AllReceived)):
                    ahead -= _size(waiting[0])
                    yield from _made(waiting.popleft())
                for part in () if isinstance(one, AllReceived) else _parts(one, known, redaction):
                    if isinstance(part, Job | FileJob):
                        idle = idle or stack.enter_context(_started(processes, redaction))
                        turn = None if turn is None else turn.following()
                        # What receives belongs to this process.
                        sent = replace(part, receive=None) if isinstance(part, Job) else part
                        future = threads.submit(_run_job, idle, known.key, sent, turn)
                        waiting.append((part.size, part, future))
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


def _size(one: _Running | Sequence[Made]) -> int:
    return one[0] if isinstance(one, tuple) else _READY_BYTES


def _made(one: _Running | Sequence[Made]) -> Iterable[Made]:
    if isinstance(one, tuple):
        _, job, future = one
        return received(job, future.result())
    return one


def _parts(
    one: Imported | Job | FileJob, known: KnownRecords, redaction: Redaction | None
) -> Iterator[Job | FileJob | Sequence[Made]]:
    """Yield what is ready to be written, and jobs of the records between those that are known."""
    if isinstance(one, Job):
        skipped = known.of(one)
        yield from _around(one, skipped) if skipped else (one,)
    elif isinstance(one, FileJob):
        yield one
    else:
        yield list(ready((one,), redaction))


def _around(job: Job, known: Mapping[int, KnownTrace]) -> Iterator[Job | Sequence[Made]]:
    for is_known, places in groupby(range(len(job.records)), known.__contains__):
        if is_known:
            yield [known[place] for place in places]
        else:
            yield replace(job, records=[job.records[place] for place in places])


class Met(NamedTuple):
    """What a process sends when it has searched a job for personal data."""

    digests: Sequence[Digest]


@dataclass(frozen=True, slots=True)
class _Turn:
    """When the tokens of a job are numbered: after those of the job before."""

    tokens: Tokens
    before: Future[None]
    own: Future[None]
    """Done when they are; cancelled where the job failed, and then no later job has a turn."""

    @classmethod
    def first(cls, tokens: Tokens) -> _Turn:
        """Return one that is over: that of no job."""
        done: Future[None] = Future()
        done.set_result(None)
        return cls(tokens, done, done)

    def following(self) -> _Turn:
        """Return the turn of the next job."""
        return _Turn(self.tokens, self.own, Future())

    def numbers(self, met: Met) -> list[int]:
        """Wait, and number the tokens.

        Raises:
            CancelledError: a job before failed.
        """
        self.before.result()
        found = self.tokens.numbers(met.digests)
        self.own.set_result(None)
        return found


def _run_job(idle: SimpleQueue[Connection], key: bytes, job: Job | FileJob, turn: _Turn | None) -> list[Made]:
    process = idle.get()
    try:
        process.send((key, job))
        answer: Met | list[Made] | Exception = process.recv()
        if isinstance(answer, Met):
            assert turn is not None  # noqa: S101 - only with redaction is it sent
            process.send(turn.numbers(answer))
            answer = process.recv()
    except (EOFError, OSError, CancelledError):
        # It may wait for numbers still, and is not to take another job for them.
        process.close()
        raise UnavailableError(
            "a process of the import was killed, perhaps for lack of memory; what was written is kept",
            hint="import the same again",
        ) from None
    finally:
        if turn is not None:
            turn.own.cancel()
        idle.put(process)
    if isinstance(answer, Exception):
        raise answer
    assert not isinstance(answer, Met)  # noqa: S101 - it is sent once
    return answer


@contextmanager
def _started(number: int, redaction: Redaction | None) -> Iterator[SimpleQueue[Connection]]:
    """The pipes of that many processes, which end with the block.

    None of them ever sees Ctrl-C: that is for the one that started them.
    """
    context = get_context("spawn")
    rules = None if redaction is None else (redaction.section, redaction.tokens.key)
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
                    process = context.Process(target=_serve, args=(there, rules), daemon=True)
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


def _serve(pipe: Connection, rules: tuple[RedactSection, bytes] | None) -> None:
    """What another process does: jobs, until there are no more."""
    redact: Redact | None = None
    if rules is not None:
        from replaydiff.importers.redacting import JobRedactor

        redact = JobRedactor(*rules, partial(_numbers, pipe)).items
    _keep_freed_memory()
    with newer_cycles_only(), suppress(EOFError, OSError):
        while True:
            key, job = pipe.recv()
            pipe.send(_answer(key, job, redact))


def _keep_freed_memory() -> None:
    """Have glibc keep what a job frees for the next one, which needs as much.

    Given back, each page of it would be cleared anew by the kernel, at a fifteenth of the process's time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, 4 * _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)


def _numbers(pipe: Connection, digests: Sequence[Digest]) -> list[int]:
    pipe.send(Met(digests))
    numbers: list[int] = pipe.recv()
    return numbers


def _answer(key: bytes, job: Job | FileJob, redact: Redact | None) -> list[Made] | Exception:
    try:
        return converted(key, job, redact)
    except Exception as error:  # noqa: BLE001 - it is raised where the job was given out
        return error
