"""How the local executor hands out trials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from replaydiff.replay.engine.executors import LocalExecutor, TrialTask
from replaydiff.replay.model import Item, Lane, Version, VersionKind


class Steady:
    """Ends the trials of all groups one by one, in the order in which they were begun."""

    together = 32

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.done: list[int] = []
        self.running = self.most = 0

    async def replay(self, task: TrialTask) -> None:
        """Replay one trial."""
        await self.replay_together([task], lambda _: None)

    async def replay_together(self, tasks: Sequence[TrialTask], ended: Callable[[int], None]) -> None:
        """Replay several trials."""
        self.groups.append(len(tasks))
        self.running += len(tasks)
        self.most = max(self.most, self.running)
        for task in tasks:
            await asyncio.sleep(0)
            self.done.append(task.index)
            self.running -= 1
            ended(1)


def test_places_are_gathered_for_a_group_while_trials_go_on_ending() -> None:
    runner = Steady()
    version = Version(name="one", kind=VersionKind.PYTHON)
    tasks = [
        TrialTask(item=Item(id="x"), lane=Lane.parse("new"), version=version, index=index, runner=runner)
        for index in range(2000)
    ]
    asyncio.run(LocalExecutor().run(iter(tasks), 50))
    assert sorted(runner.done) == list(range(2000))
    assert runner.most <= 50
    # Half of the places, at the least 25, but for a few groups.
    assert sum(runner.groups) / len(runner.groups) > 16
