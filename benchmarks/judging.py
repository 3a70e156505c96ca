"""What grading a trial costs beside the judge's model: one that answers at once, 10,000 items, two lanes.

    python benchmarks/judging.py [ITEMS]

Prints milliseconds a trial (prompt, three votes, tally, storing) and the peak of memory. Measured 2026-11-21
on two shared cores: 0.16 ms a trial with 10,000 items and 0.19 with 2,500; 39 and 36 MB while grading.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

from duckdb import DuckDBPyConnection

from diff.grading import grade_run
from diff.judge.judge import Judge
from replay.llm.base import Model, ModelReply, ModelRequest, Stop
from replay.model import Item, JudgeId, Lane, Rule, Run, ServedCall, Status, ToolCall, Trial, Usage, Version
from replay.model import VersionKind as Kind
from replay.store.connection import open_store
from replay.store.runs import create_run
from replay.store.trials import write_trials

RUN = "20261121-000000-bbbb"
REPLY = ModelReply(text='{"reasoning": "Fine.", "score": 3}', stop=Stop.END, usage=Usage(), cost_usd=0.001)


class Instant:
    """A model that answers at once."""

    async def complete(self, request: ModelRequest) -> ModelReply:  # noqa: ARG002
        """The same to everyone."""
        return REPLY


@contextlib.asynccontextmanager
async def connect() -> AsyncIterator[Model]:
    """No connection is needed."""
    yield Instant()


def main() -> None:
    """Make a run, grade it, print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    judge = Judge(
        id=JudgeId(model="m", prompt_hash="p", rubric_hash="r"),
        model="m",
        rubric="3 is good.",
        own_rubric=False,
        votes=3,
        max_tokens=100,
        concurrency=8,
        connect=connect,
    )
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "s.duckdb") as con:
        _fill(con, count)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        report = grade_run(con, RUN, judge)
        took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{report.graded} trials, {report.calls} votes: {took:.1f} s, "
        f"{took / report.graded * 1e3:.2f} ms a trial; peak {peak / 1024:.0f} MB, "
        f"{(peak - before) / 1024:.0f} MB of it while grading"
    )


def _fill(con: DuckDBPyConnection, count: int) -> None:
    version = Version(name="v", kind=Kind.PYTHON)
    lanes = {Lane.OLD: version, Lane.NEW: version}
    items = (
        Item(id=f"i{n:06d}", input=f"Where is order {n}?", recorded_response="It has shipped.")
        for n in range(count)
    )
    create_run(con, Run(id=RUN, created_at=datetime(2026, 11, 21), lanes=lanes, trials=1, seed=0), items)
    for start in range(0, count, 1000):
        trials = [
            Trial(
                run_id=RUN,
                item_id=f"i{n:06d}",
                lane=lane,
                index=0,
                status=Status.OK,
                final_response=f"Your order {n} has shipped and arrives on 1 December ({lane}).",
                served=(_served(n),),
            )
            for n in range(start, min(count, start + 1000))
            for lane in (Lane.OLD, Lane.NEW)
        ]
        write_trials(con, trials)


def _served(number: int) -> ServedCall:
    result = '{"status": "shipped", "eta": "2026-12-01", "address": "Storgata 1, 5003 Bergen, Norway"}'
    call = ToolCall(name="look_up", args={"id": number}, result=result)
    return ServedCall(call=call, rule=Rule.TAPE)


if __name__ == "__main__":
    main()
