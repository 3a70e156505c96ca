"""How long `replay diff` takes on ten thousand cases: the whole process, and what the machine does meanwhile.

    python benchmarks/diff_ten_thousand.py [--noisy] [CASES]
    python benchmarks/diff_ten_thousand.py [--noisy] CASES STORE      # only makes the store

Makes a store with two lanes of CASES items (default 10,000), one trial each, with costs, latencies and tokens,
then runs `replay diff` on it five times in fresh processes. It prints the processor time beside the wall
clock: a busy machine changes that least.

With `--noisy` each lane has three trials of an item, each graded by a judge of three votes that vary, and one
item in ten leaves a tool call out in some of its trials at random: hardly two items have the same outcome.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
from pathlib import Path

from measuring import run

from replaydiff.replay.clock import utc_now
from replaydiff.replay.model import (
    Grade,
    GradeState,
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
    Vote,
)
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import write_grades
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.trials import write_trials

CALLS = tuple(
    ToolCall(name=name, args={"order_id": "1"}, result="done", index=index)
    for index, name in enumerate(("get_order_status", "cancel_order"))
)


TRIALS, VOTES = 3, 3
FLAKY = 0.1
"""The share of items that fail at random."""
_TOGETHER = 5000


def main(cases: int, *, noisy: bool) -> None:
    """Make the store, time the command, print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.duckdb"
        fill(path, cases, noisy=noisy)
        costs = [run([sys.executable, "-m", "replaydiff", "--db", path, "diff"]) for _ in range(5)]
    walls, works = [cost.wall_s for cost in costs], [cost.cpu_s for cost in costs]
    print(
        f"replay diff, {cases:,} {'noisy, judged ' if noisy else ''}cases in two lanes: "
        f"{statistics.median(walls):.2f} s ({min(walls):.2f}-{max(walls):.2f}), "
        f"processor {statistics.median(works):.2f} s, {max(cost.memory_mb for cost in costs):.0f} MB; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def fill(path: Path, cases: int, *, noisy: bool = False) -> None:
    """Make a store with one run of so many items."""
    chance = random.Random(1)
    lanes = {Lane.OLD: 0.9, Lane.NEW: 0.85}
    versions = {lane: Version(name=str(lane), kind=VersionKind.PYTHON) for lane in lanes}
    names = [f"t{number}" for number in range(cases)]
    trials = TRIALS if noisy else 1
    record = RunRecord(
        id="run", created_at=utc_now(), finished_at=utc_now(), lanes=versions, trials=trials, seed=1
    )
    with open_store(path) as con:
        create_run(
            con, record, (Item(id=name, trace_id=name, input="cancel it", tape=CALLS) for name in names)
        )
        for first in range(0, cases, _TOGETHER):
            done = []
            for name in names[first : first + _TOGETHER]:
                is_flaky = not noisy or chance.random() < FLAKY
                for lane, rate in lanes.items():
                    passes = rate if is_flaky else 1.0
                    done += [_trial(name, lane, passes, chance, index) for index in range(trials)]
            write_trials(con, done)
            if noisy:
                write_grades(con, [_judged(trial, chance) for trial in done])


def _judged(trial: Trial, chance: random.Random) -> Grade:
    votes = [round(min(1.0, max(0.0, chance.gauss(0.8, 0.1))), 2) for _ in range(VOTES)]
    score = statistics.fmean(votes)
    return Grade(
        run_id=trial.run_id,
        item_id=trial.item_id,
        lane=trial.lane,
        trial=trial.index,
        grader="judge",
        grader_version="judge-1",
        state=GradeState.SCORED,
        score=score,
        passed=score >= 0.75,
        reason="it answers what the user wanted, and the tone is friendly",
        detail={"model": "judge", "prompt_hash": "p", "rubric_hash": "r"},
        votes=tuple(
            Vote(index=index, state=GradeState.SCORED, score=vote, reason="it answers what the user wanted")
            for index, vote in enumerate(votes)
        ),
        cost_usd=0.002,
    )


def _trial(item: str, lane: Lane, rate: float, chance: random.Random, index: int) -> Trial:
    made = CALLS if chance.random() < rate else CALLS[1:]
    return Trial(
        run_id="run",
        item_id=item,
        lane=lane,
        index=index,
        status=Status.OK,
        final_response="It is done.",
        served=tuple(ServedCall(call=call, rule=Rule.TAPE) for call in made),
        cost_usd=chance.gammavariate(4, 0.003),
        latency_ms=chance.gammavariate(3, 300),
        usage=Usage(input_tokens=chance.randrange(800, 1600), output_tokens=chance.randrange(50, 200)),
    )


if __name__ == "__main__":
    given = [one for one in sys.argv[1:] if one != "--noisy"]
    if len(given) > 1:
        fill(Path(given[1]), int(given[0]), noisy="--noisy" in sys.argv)
    else:
        main(int(given[0]) if given else 10_000, noisy="--noisy" in sys.argv)
