"""The jobs of an import: records that are read, converted and encoded in several processes.

Writing to DuckDB takes a third of an import's time and can be done by one process alone; the remainder is
plain Python. So an importer may yield jobs among its items (`JobImporter`), and other processes carry them
out, some ahead of what is written. Results have the order of the jobs.

Tokens of redaction are numbered in the order of the records, so an import with redaction uses one process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from multiprocessing import active_children, connection, get_context, parent_process, resource_tracker
from typing import TYPE_CHECKING

from replaydiff.importers.base import AllReceived, Deferred, FileJob, Imported, Job, Note, Reject, Skipped
from replaydiff.importers.convert import received
from replaydiff.replay.errors import UnavailableError
from replaydiff.replay.model import Trace, media_in
from replaydiff.replay.model.media import MARK, without_others
from replaydiff.replay.store.trace_codec import TraceRow, encode_trace

if TYPE_CHECKING:
    from replaydiff.importers.redacting import Redaction
    from replaydiff.replay.media import MediaKeeper

Writable = Reject | Skipped | Note | TraceRow
"""An item that is ready to be written: without personal data, if they are redacted."""
AHEAD_BYTES = 16_000_000
"""How much is given to each process before its results are written: enough for the time of a commit."""


def cores() -> int:
    """Return how many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def encoded(
    items: Iterable[Imported],
    media: MediaKeeper,
    redaction: Redaction | None = None,
    release: str | None = None,
) -> Iterator[Writable]:
    """Yield items as they are written, redacted if that is required.

    Args:
        items: what an importer yields.
        media: keeps the bytes of pictures, documents and audio.
        redaction: what replaces personal data.
        release: that of traces which name none.
    """
    for item in items:
        hashes: set[str] = set()
        if isinstance(item, Trace):
            item, hashes = media.trace(item)
        if release is not None and isinstance(item, Trace) and item.release is None:
            item = replace(item, release=release)
        redacted = item if redaction is None else redaction.item(item)
        if not isinstance(redacted, Trace):
            yield redacted
            continue
        row = encode_trace(redacted)
        values = [*row.values(), *chain.from_iterable(row.calls)]
        # Hardly any trace refers to media, and to look for references takes longer than for how they begin.
        may_refer = any(
            MARK in value if isinstance(value, str) else isinstance(value, list) and value for value in values
        )
        if may_refer and any(medium.sha256 not in hashes for medium in media_in(values)):
            row = encode_trace(without_others(redacted, hashes))
        yield row


def run_jobs(
    items: Iterable[Imported | Job | FileJob | AllReceived],
    processes: int,
    media: MediaKeeper,
    release: str | None = None,
) -> Iterator[Writable]:
    """Yield items, and what the jobs among them give, in order, as they are written.

    Args:
        items: what an importer yields.
        processes: how many carry out the jobs.
        media: keeps the bytes of pictures, documents and audio.
        release: that of traces which name none.

    Raises:
        UnavailableError: a process was killed.
    """
    pending: deque[tuple[Job | FileJob, Future[list[Writable | Deferred]]]] = deque()
    ahead = 0
    of_others = set(active_children())
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _end_with_parent)
    try:
        for item in items:
            limit = AHEAD_BYTES * processes - item.size if isinstance(item, Job | FileJob) else -1
            while pending and ahead > limit:
                job, future = pending.popleft()
                ahead -= job.size
                yield from received(job, future.result())
            if isinstance(item, Job | FileJob):
                # What receives belongs to this process.
                sent = replace(item, receive=None) if isinstance(item, Job) else item
                with _without_interrupts():
                    pending.append((item, pool.submit(_run_job, sent, media, release)))
                ahead += item.size
            elif not isinstance(item, AllReceived):
                yield from encoded([item], media, release=release)
        for job, future in pending:
            yield from received(job, future.result())
    except BrokenProcessPool:
        # The pool ends the processes it knew when it broke, and then waits for all, also for one that was
        # being started meanwhile, which may wait for a lock of the process that was killed.
        for process in set(active_children()) - of_others:
            process.kill()
        raise UnavailableError(
            "a process of the import was killed, perhaps for lack of memory; what was written is kept",
            hint="import the same again",
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _run_job(job: Job | FileJob, media: MediaKeeper, release: str | None) -> list[Writable | Deferred]:
    items: list[Writable | Deferred] = []
    for item in job.items():
        if isinstance(item, Deferred):
            items.append(item)
        else:
            items.extend(encoded([item], media, release=release))
    return items


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which is for the one that started them."""
    # Starting it unblocks the signal, so it is started before that is blocked.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """Let this process end when the one that started it is killed."""
    parent = parent_process()
    assert parent is not None  # noqa: S101 - this one was started by multiprocessing

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
