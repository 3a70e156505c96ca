"""Executors: where and how many at a time a run's trials are replayed.

An executor is given the trials one after the other and decides when each is replayed. What a trial came to is
kept by the trial itself, so an executor holds no results and can lose none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from replaydiff.replay.agents import Agent, Rules, build
from replaydiff.replay.errors import SettingsError, UnknownNameError
from replaydiff.replay.model import Item, Lane, Version
from replaydiff.replay.settings import Settings

GROUP = "replaydiff.executors"
"""Entry points of this group are executors of other distributions, named by `[run] executor`."""
LOCAL = "local"
RAY = "ray"
GATHER_S = 0.002
"""Seconds for which free places wait for the next one where trials can be replayed together."""


class TrialRunner(Protocol):
    """Replays the trials of a run and keeps what they came to."""

    @property
    def together(self) -> int:
        """How many trials `replay_together` takes at present; 1 where each is replayed by itself."""

    async def replay(self, task: TrialTask) -> None:
        """Replay one trial."""

    async def replay_together(self, tasks: Sequence[TrialTask], ended: Callable[[int], None]) -> None:
        """Replay several trials; `ended` is called with how many of them have just ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTask:
    """A trial that is to be replayed."""

    item: Item
    lane: Lane
    version: Version
    index: int
    """The trial's number within its lane, from 0."""
    runner: TrialRunner
    """Replays it."""

    async def run(self) -> None:
        """Replay the trial, retry it after provider errors, and store the result.

        Raises:
            ReplayError: the run must stop; an executor lets this through.
        """
        await self.runner.replay(self)


class Executor(Protocol):
    """Runs the trials of a run."""

    async def run(self, tasks: Iterator[TrialTask], concurrency: int) -> None:
        """Run every task, each once, and return when all have ended.

        Args:
            tasks: in the order in which they should start. The iterator ends early where a budget is spent,
                so take a task only when there is room for it.
            concurrency: the most tasks that may be in flight.

        Raises:
            ReplayError: what a task raised. Tasks in flight are cancelled then.
        """


def load_executor(settings: Settings) -> Executor:
    """Return the executor that `[run] executor` names.

    Args:
        settings: also of the executor itself.

    Raises:
        UnknownNameError: no executor is called that.
        SettingsError: it cannot be loaded, or is none.
    """
    name = settings.run.executor
    if name == LOCAL:
        return LocalExecutor()
    if name == RAY:
        from replaydiff.replay.engine.cluster.executor import RayExecutor

        return RayExecutor(settings.ray, install_timeout_s=settings.run.install_timeout)
    from importlib.metadata import entry_points

    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise UnknownNameError("executor", name, (LOCAL, RAY, *entries), "see docs/extending/executors.md")
    try:
        executor: Any = entries[name].load()()
    except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
        raise SettingsError(
            f"the executor {name!r} cannot be loaded: {type(error).__name__}: {error}",
            hint="reinstall its distribution, or leave --executor out",
        ) from None
    if not callable(getattr(executor, "run", None)):
        raise SettingsError(
            f"the executor {name!r} is {type(executor).__name__} without a method `run`",
            hint="see docs/extending/executors.md",
        )
    return executor  # type: ignore[no-any-return]


def agent_builder(executor: Executor) -> Callable[[Version, Rules], Agent]:
    """Return what makes the agents of a run: the executor's own `build`, if it has one.

    Args:
        executor: one whose trials run elsewhere starts the agents there.
    """
    executor_build: Callable[[Version, Rules], Agent] | None = getattr(executor, "build", None)
    return executor_build or build


class LocalExecutor:
    """Fits `Executor`."""

    async def run(self, tasks: Iterator[TrialTask], concurrency: int) -> None:
        """Run the tasks, as many at a time as may be in flight."""
        queue = _Queue(tasks, concurrency)

        async def work() -> None:
            while group := await queue.take():
                if len(group) == 1:
                    await group[0].run()
                    queue.free(1)
                else:
                    await group[0].runner.replay_together(group, queue.free)

        # A fixed number of asyncio tasks: one for each trial would cost more.
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(concurrency):
                    workers.create_task(work())
        except BaseExceptionGroup as failures:
            raise first_failure(failures) from None


class _Queue:
    """Hands out the tasks of a run in their order, one or several at a time, as places get free."""

    def __init__(self, tasks: Iterator[TrialTask], concurrency: int) -> None:
        """Begin with the first task.

        Args:
            tasks: all tasks.
            concurrency: how many may be in flight.
        """
        self._tasks, self._concurrency = tasks, concurrency
        self._free = concurrency
        self._together = 1
        """How many tasks could be taken at once the last time."""
        self._gathering: asyncio.TimerHandle | None = None
        self._free_before = 0
        """How many places were free when the wait for more last began."""
        self._is_due = self._is_empty = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> list[TrialTask]:
        """Return the next tasks, once there are places; none where there are no more."""
        while not self._may_take():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        first = None if self._is_empty else next(self._tasks, None)
        if first is None:
            self._is_empty = True
            while self._waiting:
                self._wake()
            return []
        self._together = most = first.runner.together
        if self._concurrency > 1:
            most = min(most, self._free)
        # With a concurrency of one, they run one at a time: the others only wait for their turn.
        group = [first, *islice(self._tasks, most - 1)]
        self._free -= len(group)
        self._is_due = False
        self._wake()
        return group

    def free(self, number: int) -> None:
        """Say that so many tasks have ended."""
        self._free += number
        self._wake()

    def _may_take(self) -> bool:
        """Return whether there are places; where several tasks can be taken at once, enough of them."""
        if self._is_empty:
            return True
        if self._free <= 0:
            return False
        if self._free >= self._enough or self._is_due:
            return True
        if self._gathering is None:
            self._gather()
        return False

    @property
    def _enough(self) -> int:
        """How many free places are worth a group."""
        return min(self._together, self._concurrency // 2)

    def _gather(self) -> None:
        self._free_before = self._free
        self._gathering = asyncio.get_running_loop().call_later(GATHER_S, self._end_gathering)

    def _end_gathering(self) -> None:
        if self._free - self._free_before >= self._enough - self._free:
            # At this rate the rest is there by the next look; of slower agents, places would wait in vain.
            self._gather()
            return
        self._gathering, self._is_due = None, True
        self._wake()

    def _wake(self) -> None:
        if self._waiting and self._may_take():
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure of a group that is none itself."""
    failure = failures.exceptions[0]
    return first_failure(failure) if isinstance(failure, BaseExceptionGroup) else failure
