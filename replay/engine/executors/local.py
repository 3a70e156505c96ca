"""Trials as tasks of this process's event loop; agents in processes of their own do the work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from replaydiff.replay.engine.executors import TrialTask


class LocalExecutor:
    """Fits `Executor`."""

    async def run(self, tasks: Iterator[TrialTask], concurrency: int) -> None:
        """Run the tasks, as many at a time as may be in flight."""

        async def work() -> None:
            for task in tasks:
                await task.run()

        # A fixed number of tasks draws from the iterator: an asyncio task for each would cost more.
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())
        except BaseExceptionGroup as failures:
            raise first_failure(failures) from None


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure of a group that is none itself."""
    found = failures.exceptions[0]
    return first_failure(found) if isinstance(found, BaseExceptionGroup) else found
