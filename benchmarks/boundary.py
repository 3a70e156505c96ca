"""What a boundary and a folder of its own cost a worker: its start, and a trial, for each kind and for none.

    python benchmarks/boundary.py [FILES]

Prints the quickest of several starts of a worker whose agent imports nothing, in a checkout with so many
files (200), the milliseconds of a trial of an agent that answers at once and writes nothing, and how much
each kind adds to a worker without a boundary that runs in the version's own folder.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from replaydiff.replay.agents import Rules
from replaydiff.replay.agents.boundary import KINDS, refusal_of
from replaydiff.replay.agents.python import PythonAgent
from replaydiff.replay.files import mark_of
from replaydiff.replay.model import Item, Version, VersionKind

AGENT = "def run_agent(text):\n    return text\n"
ROUNDS = 3
STARTS = 8
TRIALS = 300


async def measure(folder: Path, kind: str) -> tuple[list[float], list[float]]:
    """Return the seconds of each start of a worker, and of each trial."""
    version = Version(
        name="bench", kind=VersionKind.PYTHON, entrypoint="quick:run_agent", path=str(folder), tools=()
    )
    agent = PythonAgent(version, Rules(timeout_s=60, boundary=kind))
    await agent.start()
    starts, trials = [], []
    for _ in range(STARTS):
        began = time.perf_counter()
        worker = await agent._new_worker()
        starts.append(time.perf_counter() - began)
        await worker.kill()
    for number in range(TRIALS):
        began = time.perf_counter()
        await agent.run(Item(id=str(number), input="hello"), 0)
        trials.append(time.perf_counter() - began)
    await agent.close()
    return starts, trials


def checkout(home: Path, files: int) -> Path:
    """Create a folder that counts as a checkout, with so many files."""
    folder = home / ".replay" / "worktrees" / "0123456789ab"
    for number in range(files):
        package = folder / f"package{number // 20}"
        package.mkdir(parents=True, exist_ok=True)
        (package / f"module{number}.py").write_text("VALUE = 1\n" * 400)
    (folder / "quick.py").write_text(AGENT)
    mark_of(folder).touch()
    return folder


def main() -> None:
    """Measure every kind in turn, several times, so that a busy machine disturbs all alike."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        shared = Path(name, "shared")
        shared.mkdir()
        (shared / "quick.py").write_text(AGENT)
        private = checkout(Path(name), files)
        rows = {"none, shared folder": (shared, "none"), "none": (private, "none")}
        rows |= {kind: (private, kind) for kind in KINDS if refusal_of(kind) is None}
        results: dict[str, tuple[list[float], list[float]]] = {row: ([], []) for row in rows}
        for _ in range(ROUNDS):
            for row, (folder, kind) in rows.items():
                for total, measured in zip(results[row], asyncio.run(measure(folder, kind)), strict=True):
                    total += measured
    base = [min(times) for times in results["none, shared folder"]]
    print(f"{'boundary':20} {'start':>10} {'more':>10} {'trial':>10} {'more':>10}   (milliseconds)")
    for row, times in results.items():
        start, trial = (min(values) * 1000 for values in times)
        more = [start - base[0] * 1000, trial - base[1] * 1000]
        print(f"{row:20} {start:10.1f} {more[0]:10.1f} {trial:10.3f} {more[1]:10.3f}")


if __name__ == "__main__":
    main()
