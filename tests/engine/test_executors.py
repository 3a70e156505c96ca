"""How the local executor hands out trials."""

from __future__ import annotations

import asyncio

from replaydiff.replay.engine.executors import LocalExecutor, TrialTask
from replaydiff.replay.model import Item, Lane, Version, VersionKind


class Counting:
    """Counts the trials that run."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.running = self.most = 0

    async def replay(self, task: TrialTask) -> None:
        """Replay one trial."""
        self.begun.append(task.index)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1


def test_trials_begin_in_their_order_and_as_many_run_as_may() -> None:
    runner = Counting()
    version = Version(name="one", kind=VersionKind.PYTHON)
    tasks = [
        TrialTask(item=Item(id="x"), lane=Lane.parse("new"), version=version, index=index, runner=runner)
        for index in range(100)
    ]
    asyncio.run(LocalExecutor().run(iter(tasks), 7))
    assert runner.begun == list(range(100))
    assert runner.most == 7
