"""What an agent's process leaves behind is ended with it, and is found without a look at every process."""

import asyncio
import ctypes
import os
import sys
import time
from pathlib import Path

import pytest

from replaydiff.replay.agents import descendants, subprocess
from replaydiff.replay.model import Item, Status
from tests.agents.running import agent
from tests.stand_ins.processes import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are adopted on Linux only")
SOURCE = """
import os, pathlib, subprocess, sys

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

def started(number):
    with open("pids", "a") as file:
        file.write(f"{number}\\n")

def daemon():
    # A child of a child that has ended, in a session of its own, without any of our file descriptors.
    script = (
        "import os, subprocess, sys;"
        "os.setsid() if os.fork() == 0 else os._exit(0);"
        f"print(subprocess.Popen({SLEEP!r}, start_new_session=True, stdout=subprocess.DEVNULL).pid)"
    )
    started(int(subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE).stdout))

def without_environment():
    started(os.posix_spawn(sys.executable, SLEEP, {}, setpgroup=0))

def background():
    # Each of them is left by a shell that ends.
    os.system("for n in 1 2 3 4 5; do sleep 0 & done")

def run(text):
    for start in text.split():
        globals()[start]()
    return text

def run_and_die(text):
    run(text)
    os._exit(3)
"""
STARTS = "daemon without_environment"


def is_subreaper() -> bool:
    found = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(37, ctypes.byref(found), 0, 0, 0) == 0
    return bool(found.value)


def ended(folder: Path) -> bool:
    """Whether all that the agent started is gone, and no longer counts as a process of ours."""
    numbers = [int(line) for line in (folder / "pids").read_text().split()]
    assert len(numbers) == 2
    return not any(Path(f"/proc/{number}").exists() for number in numbers)


@pytest.mark.parametrize("entrypoint", ["run", "run_and_die"])
def test_what_left_the_group_ends_with_the_worker(tmp_path: Path, entrypoint: str) -> None:
    (tmp_path / "agent.py").write_text(SOURCE)

    async def one() -> Status:
        running = agent(f"agent:{entrypoint}", folder=tmp_path)
        await running.start()
        assert is_subreaper()
        outcome = await running.run(Item(id="x", input=STARTS), 0)
        await running.close()
        return outcome.status

    assert asyncio.run(one()) is (Status.OK if entrypoint == "run" else Status.CRASHED)
    assert ended(tmp_path)
    assert not is_subreaper()


def test_no_other_process_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent.py").write_text(SOURCE)
    looked_at: list[str] = []
    listdir = os.listdir

    def noting(path: str = ".") -> list[str]:
        looked_at.append(str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", noting)

    async def some() -> None:
        running = agent("agent:run", folder=tmp_path, concurrency=2)
        await running.start()
        await asyncio.gather(*(running.run(Item(id="x", input="without_environment"), 0) for _ in range(4)))
        await running.close()

    asyncio.run(some())
    assert "/proc/self/task" in looked_at
    assert "/proc" not in looked_at


def test_other_children_of_this_process_stay(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(SOURCE)
    own = os.posix_spawn(
        sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], os.environ, setsid=True
    )
    try:

        async def one() -> None:
            running = agent("agent:run", folder=tmp_path)
            await running.start()
            await running.run(Item(id="x", input=STARTS), 0)
            await running.close()

        asyncio.run(one())
        assert os.waitpid(own, os.WNOHANG) == (0, 0)
    finally:
        os.kill(own, 9)
        os.waitpid(own, 0)


def test_what_ended_before_the_worker_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (descendants, subprocess):
        monkeypatch.setattr(module, "COLLECT_S", 0.05)
    (tmp_path / "agent.py").write_text(SOURCE)

    def left() -> list[str]:
        tasks = Path("/proc/self/task")
        return [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]

    async def one() -> tuple[int, int]:
        before = len(left())
        running = agent("agent:run", folder=tmp_path)
        await running.start()
        await running.run(Item(id="x", input="background"), 0)
        deadline = time.monotonic() + PATIENCE_S
        while (now := len(left())) > before + 1 and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        await running.close()
        return before, now

    before, with_worker = asyncio.run(one())
    assert with_worker == before + 1
