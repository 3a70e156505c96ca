"""How long `replay diff` takes on ten thousand cases: the whole process, and what the machine does meanwhile.

    python benchmarks/diff_ten_thousand.py [CASES]
    python benchmarks/diff_ten_thousand.py CASES STORE      # only makes the store

Makes a store with two lanes of CASES items (default 10,000), one trial each, with costs, latencies and tokens,
then runs `replay diff` on it five times in fresh processes. Beside the wall clock stands the processor time,
which says the same on a busy machine.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from replaydiff.replay.clock import utc_now
from replaydiff.replay.model import (
    Item,
    Lane,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Usage,
    Version,
    VersionKind,
)
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.trials import write_trials

CALLS = tuple(
    ToolCall(name=name, args={"order_id": "1"}, result="done", index=index)
    for index, name in enumerate(("get_order_status", "cancel_order"))
)


def main(cases: int) -> None:
    """Make the store, time the command, print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.duckdb"
        _fill(path, cases)
        walls, works = zip(*(_timed(path) for _ in range(5)), strict=True)
    print(
        f"replay diff, {cases:,} cases in two lanes: {statistics.median(walls):.2f} s "
        f"({min(walls):.2f}-{max(walls):.2f}), processor {statistics.median(works):.2f} s; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def _fill(path: Path, cases: int) -> None:
    chance = random.Random(1)
    lanes = {Lane.OLD: 0.9, Lane.NEW: 0.85}
    versions = {lane: Version(name=str(lane), kind=VersionKind.PYTHON) for lane in lanes}
    items = [
        Item(id=f"t{number}", trace_id=f"t{number}", input="cancel it", tape=CALLS) for number in range(cases)
    ]
    run = RunRecord(id="run", created_at=utc_now(), finished_at=utc_now(), lanes=versions, trials=1, seed=1)
    with open_store(path) as con:
        create_run(con, run, items)
        write_trials(
            con, [_trial(item.id, lane, rate, chance) for item in items for lane, rate in lanes.items()]
        )


def _trial(item: str, lane: Lane, rate: float, chance: random.Random) -> Trial:
    made = CALLS if chance.random() < rate else CALLS[1:]
    return Trial(
        run_id="run",
        item_id=item,
        lane=lane,
        index=0,
        status=Status.OK,
        final_response="It is done.",
        served=tuple(ServedCall(call=call, rule=Rule.TAPE) for call in made),
        cost_usd=chance.gammavariate(4, 0.003),
        latency_ms=chance.gammavariate(3, 300),
        usage=Usage(input_tokens=chance.randrange(800, 1600), output_tokens=chance.randrange(50, 200)),
    )


def _timed(path: Path) -> tuple[float, float]:
    """Wall clock and processor seconds of one `replay diff`."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "replaydiff", "--db", str(path), "diff"], check=True, stdout=subprocess.DEVNULL
    )
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _fill(Path(sys.argv[2]), int(sys.argv[1]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
