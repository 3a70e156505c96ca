"""The workers of a version: started when they are wanted, reused, replaced when they die.

A worker has *seats*: one for a sync agent, as many as trials may be in flight for an async one. Whoever takes
a seat gives it back. The pool grows while trials wait longer for a seat than a worker takes to start, and
where trials are short also only for as long as it pays: more workers than the machine can feed make nothing
faster. So an agent that answers at once is served by few processes and a slow one by as many as are allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

from replaydiff.replay.errors import VersionError

LONGEST_PATIENCE_S = 1.0
"""A trial that has waited this long gets a new worker, however long starting takes."""
SHORT = 4
"""Trials that a worker ends while one is started, from which they are short."""
LEAST_GAIN = 0.4
"""Share of what as many workers more could bring at best, from which they have paid."""
FASTEST = 500
"""Trials that a worker ends a second, from which handing them out takes about as long as they do."""
FIRST_REST_S = 2.0
"""Before it is tried again whether more workers pay, where they did not; twice as long each time."""


class PoolClosedError(Exception):
    """The pool was closed while someone waited for a seat, or before."""


class Member(Protocol):
    """What a pool needs to know of a worker."""

    @property
    def alive(self) -> bool:
        """Whether it takes trials."""

    async def stop(self) -> None:
        """End it, giving it a moment to end by itself."""

    async def kill(self) -> None:
        """End it at once."""


M = TypeVar("M", bound=Member)


class Pool(Generic[M]):
    """Workers that are all alike."""

    def __init__(self, start: Callable[[], Awaitable[M]], *, slots: int, limit: int, start_s: float) -> None:
        """An empty pool.

        Args:
            start: gives a new worker.
            seats: how many trials a worker runs at a time.
            limit: the most workers at a time.
            start_s: about how long starting one takes.
        """
        self._start, self._slots, self._limit = start, slots, limit
        self._workers: list[M] = []
        self._free: list[M] = []
        self._waiting: deque[tuple[float, asyncio.Future[M]]] = deque()
        self._growing: asyncio.Task[None] | None = None
        self._patience = start_s
        self._closed = False
        self._ended = 0
        """Seats that were given back, all in all."""
        self._seen = (time.monotonic(), 0)
        """From when trials are counted, and how many were given back by then."""
        self._rest_s = FIRST_REST_S
        self._not_before = 0.0
        """When the pool may grow again."""

    def add(self, worker: M) -> None:
        """Take in a worker that was started elsewhere."""
        self._workers.append(worker)
        for _ in range(self._slots):
            self._hand_out(worker)

    def slot(self) -> AbstractAsyncContextManager[M]:
        """A seat at a living worker.

        Raises:
            VersionError: there is no worker and none can be started.
            PoolClosedError: the pool is closed.
        """
        return _SlotContext(self)

    async def close(self) -> None:
        """End every worker, and whoever waits for one."""
        self._closed = True
        if self._growing is not None:
            self._growing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._growing
        for _, waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(PoolClosedError())
        self._waiting.clear()
        self._free.clear()
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.stop() for worker in workers))

    def give_back(self, worker: M) -> None:
        """End what `take` began."""
        self._ended += 1
        self._hand_out(worker)

    async def take(self) -> M:
        """What `seat` begins with."""
        if self._closed:
            raise PoolClosedError
        while self._free:
            worker = self._free.pop()
            if worker.alive:
                return worker
        waiting: asyncio.Future[M] = asyncio.get_running_loop().create_future()
        if not self._ended and not self._waiting:
            # What passed before there was work says nothing of how fast it is done.
            self._seen = (time.monotonic(), 0)
        self._waiting.append((time.monotonic(), waiting))
        self._grow()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self._hand_out(waiting.result())
            raise

    def _hand_out(self, worker: M) -> None:
        """Give a free seat to whoever has waited longest."""
        if not worker.alive:
            self._grow()
            return
        while self._waiting:
            _, waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(worker)
                return
        self._free.append(worker)

    def _grow(self) -> None:
        if self._waiting and not self._closed and (self._growing is None or self._growing.done()):
            self._growing = asyncio.get_running_loop().create_task(self._start_while_wanted())

    async def _start_while_wanted(self) -> None:
        while self._waiting:
            self._workers = [worker for worker in self._workers if worker.alive]
            before = len(self._workers)
            if before >= self._limit:
                return
            patience = min(self._patience, LONGEST_PATIENCE_S)
            if before:
                waited = time.monotonic() - self._waiting[0][0]
                left = max(patience - waited, self._not_before - time.monotonic())
                if left > 0:
                    await asyncio.sleep(left)
                    continue
            rate = self._rate()
            if before and rate >= FASTEST * before:
                self._seen = (time.monotonic(), self._ended)
                await asyncio.sleep(patience)
                continue
            wanted = -(-len(self._waiting) // self._slots)
            await self._start_some(min(self._limit - before, wanted, max(before, os.cpu_count() or 1)))
            added = len(self._workers) - before
            self._seen = (time.monotonic(), self._ended)
            if before and added > 0 and rate * patience >= SHORT * before:
                await asyncio.sleep(patience)
                if self._rate() - rate < LEAST_GAIN * rate * added / before:
                    self._not_before = time.monotonic() + self._rest_s
                    self._rest_s *= 2

    def _rate(self) -> float:
        """Trials that ended a second, since they are counted."""
        since, ended = self._seen
        return (self._ended - ended) / max(time.monotonic() - since, 1e-6)

    async def _start_some(self, number: int) -> None:
        began = time.monotonic()
        starts = [asyncio.ensure_future(self._start()) for _ in range(number)]
        try:
            started = await asyncio.gather(*starts, return_exceptions=True)
        except asyncio.CancelledError:
            done = await asyncio.gather(*starts, return_exceptions=True)
            await asyncio.gather(*(worker.kill() for worker in done if not isinstance(worker, BaseException)))
            raise
        self._patience = time.monotonic() - began
        for worker in started:
            if not isinstance(worker, BaseException):
                self.add(worker)
        failures = [failure for failure in started if isinstance(failure, BaseException)]
        if failures:
            self._limit = max(1, len(self._workers))
        if failures and not self._workers:
            for _, waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(VersionError(str(failures[0])))
            self._waiting.clear()


class _SlotContext(AbstractAsyncContextManager[M]):
    """No generator, which would cost as much as taking the seat itself."""

    __slots__ = ("_pool", "_worker")

    def __init__(self, pool: Pool[M]) -> None:
        self._pool = pool

    async def __aenter__(self) -> M:
        self._worker = await self._pool.take()
        return self._worker

    async def __aexit__(self, *_: object) -> None:
        self._pool.give_back(self._worker)
