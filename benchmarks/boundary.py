"""What the boundary costs: starting a worker, and a trial, behind each kind and behind none.

    python benchmarks/boundary.py

Prints the median of several starts of a worker whose agent imports nothing, the milliseconds of a trial of
an agent that answers at once, and how much each kind adds.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from replaydiff.replay.agents import Rules, build
from replaydiff.replay.agents.boundary import KINDS, refusal_of
from replaydiff.replay.model import Item, Version, VersionKind

AGENT = "def run_agent(text):\n    return text\n"
STARTS = 15
TRIALS = 3000


async def measure(folder: str, kind: str) -> tuple[float, float]:
    """Return the seconds of starting a worker, and of a trial."""
    version = Version(
        name="bench", kind=VersionKind.PYTHON, entrypoint="quick:run_agent", path=folder, tools=()
    )
    agent = build(version, Rules(timeout_s=60, boundary=kind))
    began = time.perf_counter()
    await agent.start()
    started = time.perf_counter() - began
    items = [Item(id=str(number), input="hello") for number in range(TRIALS // STARTS)]
    for item in items[:20]:
        await agent.run(item, 0)
    began = time.perf_counter()
    for item in items:
        await agent.run(item, 0)
    trial = (time.perf_counter() - began) / len(items)
    await agent.close()
    return started, trial


def main() -> None:
    """Measure every kind in turn, several times, so that a busy machine disturbs all alike."""
    kinds = ["none", *(kind for kind in KINDS if refusal_of(kind) is None)]
    starts: dict[str, list[float]] = {kind: [] for kind in kinds}
    trials: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "quick.py").write_text(AGENT)
        for _ in range(STARTS):
            for kind in kinds:
                started, trial = asyncio.run(measure(folder, kind))
                starts[kind].append(started)
                trials[kind].append(trial)
    print(f"{'boundary':12} {'start':>10} {'more':>10} {'trial':>10} {'more':>10}   (milliseconds)")
    for kind in kinds:
        start, trial = statistics.median(starts[kind]) * 1000, statistics.median(trials[kind]) * 1000
        more = [start - statistics.median(starts["none"]) * 1000]
        more.append(trial - statistics.median(trials["none"]) * 1000)
        print(f"{kind:12} {start:10.1f} {more[0]:10.1f} {trial:10.3f} {more[1]:10.3f}")


if __name__ == "__main__":
    main()
