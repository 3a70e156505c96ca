"""The workers of a version: started when they are wanted, reused, replaced when they die.

A worker has *slots*: one for a sync agent, as many as trials may be in flight for an async one. The
pool grows once trials have waited longer for slots, added up, than a worker takes to start, as long as there
are processors for more. What counts is the share of time in which engine and workers run or could run,
not how fast they are: on a machine that is busy with other work, more workers would only take turns. So an
agent that answers at once is served by few processes, and one that waits for a model by as many as are
allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from replaydiff.replay.errors import VersionError

LONGEST_PATIENCE_S = 1.0
"""Trials that have waited this long, added up, get a new worker, however long starting takes."""
ENGINE_LIMIT = 0.8
"""Share of time in which the engine's own thread works, from which more workers would wait for it."""
PROCESSOR_LIMIT = 0.9
"""Share of all processors, from which they are taken for used up."""
WINDOW_S = 0.1
"""The shortest time over which the load is measured."""
LONGEST_PAUSE_S = 2.0
"""The longest time until the load is looked at again where there was no room."""
FASTEST = 500
"""Where the load is unknown: trials that a worker ends a second, from which more workers gain nothing."""


def engine_demand_ns() -> int | None:
    """Return how many nanoseconds this thread ran or waited for a processor; None if unknown."""
    return _demand_ns(Path(f"/proc/self/task/{threading.get_native_id()}"))


def process_demand_ns(pid: int) -> int | None:
    """Return how many nanoseconds a process's threads ran or waited for a processor; None: unknown."""
    try:
        tasks = [_demand_ns(task) for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return None
    measured = [task for task in tasks if task is not None]
    return sum(measured) if measured else None


def _demand_ns(task_folder: Path) -> int | None:
    # The format of `schedstat` is in the kernel's sched-stats.rst: running, waiting, number of turns.
    try:
        running, waiting, _ = (task_folder / "schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return int(running) + int(waiting)


class LoadMeter:
    """How many processors the engine and its workers could use, from one look to the next."""

    def __init__(
        self,
        *,
        engine: Callable[[], int | None] = engine_demand_ns,
        worker: Callable[[int], int | None] = process_demand_ns,
        clock: Callable[[], float] = time.monotonic,
        processors: int | None = None,
    ) -> None:
        """Begin to measure.

        Args:
            engine: nanoseconds that the engine has wanted a processor for.
            worker: the same of a worker's process, by its number.
            clock: seconds.
            processors: how many there are; None for those of this machine.
        """
        self._read_engine, self._read_worker, self._clock = engine, worker, clock
        self._processors = processors or os.cpu_count() or 1
        self._at = clock()
        self._engine: int | None = None
        self._workers: dict[int, int | None] = {}

    def room(self, pids: Iterable[int]) -> int | None:
        """Return how many more such workers the processors could run; None if unknown.

        The first look, and one at workers that are all new, say nothing yet.
        """
        now, engine = self._clock(), self._read_engine()
        workers = {pid: self._read_worker(pid) for pid in pids}
        elapsed = (now - self._at) * 1e9
        shares = [
            (after - before) / elapsed
            for pid, after in workers.items()
            if after is not None and (before := self._workers.get(pid)) is not None
        ]
        engine_share = None if engine is None or self._engine is None else (engine - self._engine) / elapsed
        self._at, self._engine, self._workers = now, engine, workers
        if engine_share is None or not shares:
            return None
        free = self._processors * PROCESSOR_LIMIT - engine_share - sum(shares)
        if engine_share >= ENGINE_LIMIT or free <= 0:
            return 0
        # Half a processor is worth a worker.
        return int(free / max(sum(shares) / len(shares), 1e-3) + 0.5)


class PoolClosedError(Exception):
    """The pool was closed while someone waited for a slot, or before."""


class Member(Protocol):
    """What a pool needs to know of a worker."""

    @property
    def alive(self) -> bool:
        """Return whether it takes trials."""

    @property
    def pid(self) -> int:
        """Return the number of its process."""

    async def stop(self) -> None:
        """End it, giving it a moment to end by itself."""

    async def kill(self) -> None:
        """End it at once."""


M = TypeVar("M", bound=Member)


@dataclass(slots=True)
class _Waiting(Generic[M]):
    """A caller that waits for a slot."""

    since: float
    """Seconds of the monotonic clock."""
    worker: asyncio.Future[M]
    """Gets the worker of which it has a slot."""


class Pool(Generic[M]):
    """Workers that are all alike."""

    def __init__(
        self,
        start: Callable[[], Awaitable[M]],
        *,
        slots: int,
        limit: int,
        start_s: float,
    ) -> None:
        """Begin with an empty pool.

        Args:
            start: gives a new worker.
            slots: how many trials a worker runs at a time.
            limit: the most workers at a time.
            start_s: about how long starting one takes.
        """
        self._start, self._slots, self._limit = start, slots, limit
        self._lent: Counter[M] = Counter()
        """Slots that are in use, by worker."""
        self._workers: list[M] = []
        self._free: dict[M, None] = {}
        """Workers with a free slot, the one that got it last at the end."""
        self._waiting: deque[_Waiting[M]] = deque()
        self._growing: asyncio.Task[None] | None = None
        self._patience = start_s
        self._waited_s = 0.0
        """How long trials have waited for a slot since the pool grew, added up."""
        self._closed = False
        self._ended = 0
        """Slots that were given back, all in all."""
        self._seen = (time.monotonic(), 0)
        """From when trials are counted, and how many were given back by then."""
        self._meter = LoadMeter()

    def add(self, worker: M) -> None:
        """Take in a worker that was started elsewhere."""
        self._workers.append(worker)
        for _ in range(self._slots):
            self._hand_out(worker)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[M]:
        """Take a slot of a running worker for as long as the context lasts.

        Raises:
            VersionError: there is no worker and none can be started.
            PoolClosedError: the pool is closed.
        """
        worker = await self.take()
        try:
            yield worker
        finally:
            self.give_back(worker)

    async def close(self) -> None:
        """End every worker, and fail everything that waits for one."""
        self._closed = True
        if self._growing is not None:
            self._growing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._growing
        for waiting in self._waiting:
            if not waiting.worker.done():
                waiting.worker.set_exception(PoolClosedError())
        self._waiting.clear()
        self._free.clear()
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.stop() for worker in workers))

    def give_back(self, worker: M) -> None:
        """End what `take` began."""
        self._ended += 1
        self._lent[worker] -= 1
        if not self._lent[worker]:
            del self._lent[worker]
        self._hand_out(worker)

    async def take(self) -> M:
        """Wait for a free slot, and take it until `give_back`; return its worker.

        Raises:
            VersionError: there is no worker and none can be started.
            PoolClosedError: the pool is closed.
        """
        if self._closed:
            raise PoolClosedError
        while self._free:
            worker = next(reversed(self._free))
            if self._has_slot(worker):
                self._lent[worker] += 1
                return worker
            del self._free[worker]
        waiting = _Waiting[M](time.monotonic(), asyncio.get_running_loop().create_future())
        if not self._ended and not self._waiting:
            # What passed before there was work says nothing of how fast it is done.
            self._seen = (time.monotonic(), 0)
        self._waiting.append(waiting)
        self._grow()
        try:
            return await waiting.worker
        except asyncio.CancelledError:
            future = waiting.worker
            if future.done() and not future.cancelled() and future.exception() is None:
                self._ended -= 1
                self.give_back(future.result())
            raise

    def _hand_out(self, worker: M) -> None:
        """Give a free slot to the caller that has waited longest."""
        if not worker.alive:
            self._grow()
            return
        if not self._has_slot(worker):
            return
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.worker.done():
                self._lent[worker] += 1
                self._waited_s += time.monotonic() - waiting.since
                waiting.worker.set_result(worker)
                return
        self._free.pop(worker, None)
        self._free[worker] = None

    def _has_slot(self, worker: M) -> bool:
        return worker.alive and self._lent[worker] < self._slots

    def _grow(self) -> None:
        if self._waiting and not self._closed and (self._growing is None or self._growing.done()):
            self._growing = asyncio.get_running_loop().create_task(self._start_needed_workers())

    async def _start_needed_workers(self) -> None:
        pause = WINDOW_S
        while self._waiting:
            self._workers = [worker for worker in self._workers if worker.alive]
            before = len(self._workers)
            if before >= self._limit:
                return
            patience = min(self._patience, LONGEST_PATIENCE_S)
            most = max(before, os.cpu_count() or 1)
            if before:
                left = patience - self._waited_s - (time.monotonic() - self._waiting[0].since)
                if left > 0:
                    await asyncio.sleep(left)
                    continue
                most = min(most, await self._room(max(pause, patience)))
                pause = min(2 * pause, LONGEST_PAUSE_S) if most == 0 else WINDOW_S
            needed = -(-len(self._waiting) // self._slots)
            if most and needed:
                await self._start_some(min(self._limit - before, needed, most))

    async def _room(self, seconds: float) -> int:
        """Return how many more workers there is a processor for, measured over the next `seconds`."""
        pids = [worker.pid for worker in self._workers]
        self._meter.room(pids)
        self._seen = (time.monotonic(), self._ended)
        await asyncio.sleep(seconds)
        room = self._meter.room(pids)
        if room is None:
            return 0 if self._rate() >= FASTEST * len(pids) else len(pids)
        return room

    def _rate(self) -> float:
        """Return the trials that ended a second, since they are counted."""
        since, ended = self._seen
        return (self._ended - ended) / max(time.monotonic() - since, 1e-6)

    async def _start_some(self, number: int) -> None:
        began = time.monotonic()
        starts = [asyncio.ensure_future(self._start()) for _ in range(number)]
        try:
            started = await asyncio.gather(*starts, return_exceptions=True)
        except asyncio.CancelledError:
            results = await asyncio.gather(*starts, return_exceptions=True)
            await asyncio.gather(
                *(worker.kill() for worker in results if not isinstance(worker, BaseException))
            )
            raise
        self._patience, self._waited_s = time.monotonic() - began, 0.0
        for worker in started:
            if not isinstance(worker, BaseException):
                self.add(worker)
        failures = [failure for failure in started if isinstance(failure, BaseException)]
        if failures:
            self._limit = max(1, len(self._workers))
        if failures and not self._workers:
            for waiting in self._waiting:
                if not waiting.worker.done():
                    waiting.worker.set_exception(VersionError(str(failures[0])))
            self._waiting.clear()
