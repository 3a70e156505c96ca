"""Executors: where and how many at a time a run's trials are replayed.

An executor is given the trials one after the other and decides when each is replayed. What a trial came to is
kept by the trial itself, so an executor holds no results and can lose none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from replaydiff.replay.agents import Agent, Rules, build
from replaydiff.replay.errors import SettingsError, UnknownNameError
from replaydiff.replay.model import Item, Lane, Version
from replaydiff.replay.settings import Settings

GROUP = "replaydiff.executors"
"""Entry points of this group are executors of other distributions, named by `[run] executor`."""
LOCAL = "local"
BUILTIN = {
    "ray": "replaydiff.replay.engine.cluster.executor:ray_executor",
}
"""Executors besides the local one: name → a function of the settings."""


class TrialRunner(Protocol):
    """Replays the trials of a run and keeps what they came to."""

    async def replay(self, task: TrialTask) -> None:
        """Replay one trial."""


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
    if name in BUILTIN:
        module, _, function = BUILTIN[name].partition(":")
        built_in: Executor = getattr(import_module(module), function)(settings)
        return built_in
    from importlib.metadata import entry_points

    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise UnknownNameError(
            "executor", name, (LOCAL, *BUILTIN, *entries), "see docs/extending/executors.md"
        )
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

        async def work() -> None:
            for task in tasks:
                await task.run()

        # A fixed number of asyncio tasks: one for each trial would cost more.
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(concurrency):
                    workers.create_task(work())
        except BaseExceptionGroup as failures:
            raise first_failure(failures) from None


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure of a group that is none itself."""
    failure = failures.exceptions[0]
    return first_failure(failure) if isinstance(failure, BaseExceptionGroup) else failure
