"""How many workers a version gets: few if its trials are instant, on a busy machine as well."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replaydiff.replay.agents.pool import Pool
from replaydiff.replay.model import Item
from tests.agents.running import agent

AGENT = """
import os, time

def instant(text):
    return str(os.getpid())

def waiting(text):
    time.sleep(0.3)
    return str(os.getpid())
"""


class Idle:
    """A worker that does nothing."""

    alive = True

    async def stop(self) -> None:
        """End it."""

    async def kill(self) -> None:
        """End it."""


def test_slots_go_to_those_who_wait_longest() -> None:
    async def lend() -> list[str]:
        async def none_more() -> Idle:
            raise AssertionError("no second worker is wanted")

        pool, order = Pool[Idle](none_more, slots=2, limit=1, start_s=9), []

        async def use(name: str) -> None:
            async with pool.slot():
                order.append(name)
                await asyncio.sleep(0)

        pool.add(Idle())
        await asyncio.gather(*map(use, "abcde"))
        await pool.close()
        return order

    assert asyncio.run(lend()) == [*"abcde"]


def test_short_waits_add_up_to_a_worker() -> None:
    async def lend() -> int:
        started: list[Idle] = []

        async def start() -> Idle:
            started.append(Idle())
            return started[-1]

        pool = Pool[Idle](start, slots=1, limit=2, start_s=0.1)
        pool.add(Idle())

        async def use() -> None:
            for _ in range(20):
                async with pool.slot():
                    # No wait is as long as a start.
                    await asyncio.sleep(0.02)

        await asyncio.gather(use(), use())
        await pool.close()
        return len(started)

    assert asyncio.run(lend()) == 1


@pytest.fixture
def busy() -> Iterator[None]:
    """All processors are kept busy by others."""
    burning = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10000))"
    burners = [subprocess.Popen([sys.executable, "-c", burning]) for _ in range(os.cpu_count() or 1)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


def workers_of(folder: Path, entrypoint: str, trials: int, concurrency: int) -> int:
    (folder / "quick.py").write_text(AGENT)

    async def pids() -> set[str | None]:
        running = agent(f"quick:{entrypoint}", folder=folder, tools=(), concurrency=concurrency)
        await running.start()
        items = [Item(id=str(number), input=str(number)) for number in range(trials)]
        outcomes = await asyncio.gather(*(running.run(item, 0) for item in items))
        await running.close()
        return {outcome.final_response for outcome in outcomes}

    return len(asyncio.run(pids()))


def test_an_instant_agent_gets_few_workers_on_a_busy_machine(tmp_path: Path, busy: None) -> None:
    assert workers_of(tmp_path, "instant", 1500, 500) <= 2 * (os.cpu_count() or 1)


def test_an_agent_that_waits_gets_more_workers_than_there_are_processors(tmp_path: Path) -> None:
    assert workers_of(tmp_path, "waiting", 60, 12) > (os.cpu_count() or 1)
