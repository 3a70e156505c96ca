"""What grading costs beside the judge's model, and beside the bare client of its API.

    python benchmarks/judging.py [ITEMS] [--questions FILE]       # default 10,000 items, two lanes

First with a model that answers at once: milliseconds a trial (prompt, three votes, tally, storing) and the peak
of memory. Then over the real client, against a server of its own process that answers at once: calls a second
of processor time, as a share of what `AsyncAnthropic` alone does with the same questions, eight at a time, the
two in turn. The import of the client counts on neither side. Measured 2026-11-23 on two shared cores at a
load of 16: 0.95 of it (536 calls a second, median of five pairs).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from duckdb import DuckDBPyConnection

from replaydiff.diff.judge import questions
from replaydiff.diff.judge.grading import grade_run
from replaydiff.diff.judge.judge import Judge
from replaydiff.replay.llm import anthropic
from replaydiff.replay.llm.base import Model, ModelReply, ModelRequest, Stop
from replaydiff.replay.model import (
    Item,
    JudgeId,
    Lane,
    Rule,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Usage,
    Version,
)
from replaydiff.replay.model import VersionKind as Kind
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run, get_run
from replaydiff.replay.store.trials import write_trials

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


JUDGE = Judge(
    id=JudgeId(model="m", prompt_hash="p", rubric_hash="r"),
    model="claude-opus-5-5",
    rubric="3 is good.",
    user_rubric=False,
    votes=3,
    max_tokens=100,
    concurrency=8,
    connect=connect,
)
PAIRS = 5
TRIALS = 400
SERVER = Path(__file__).resolve().parent / "peers" / "model_server.py"


def main() -> None:
    """Both parts, or one round of the second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", type=int, nargs="?", default=10_000)
    parser.add_argument(
        "--questions", type=Path, help="grade once over the client, and write the calls there"
    )
    options = parser.parse_args()
    if options.questions is not None:
        once(options.questions)
        return
    at_once(options.items)
    over_the_client()


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """A model's API that answers at once, in a process of its own; gives its URL."""
    command = [sys.executable, SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def graded(url: str) -> tuple[list[ModelRequest], float, float]:
    """Grade a new run; returns its questions, and the seconds of the processor and of the clock."""
    judge = replace(JUDGE, connect=lambda: anthropic.connect(base_url=url))
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "s.duckdb") as con:
        _fill(con, TRIALS // 2)
        requests = [question.request for question in questions.questions(con, get_run(con, RUN), judge, {})]
        # The other side has imported the client, too, before its clock starts.
        importlib.import_module("anthropic")
        began, wall = time.process_time(), time.perf_counter()
        report = grade_run(con, RUN, judge)
        took, wall = time.process_time() - began, time.perf_counter() - wall
        assert report.calls == len(requests) == TRIALS * 3
    return requests, took, wall


def once(file: Path) -> None:
    """Grade a run, print what it took as JSON, and write the arguments of its calls."""
    with serving() as url:
        requests, took, wall = graded(url)
    file.write_text(json.dumps([anthropic.arguments_of(request) for request in requests]))
    print(json.dumps({"wall_s": wall, "cpu_s": took}))


def over_the_client() -> None:
    """Grade a run over HTTP, and put the same questions to the bare client."""
    ratios, rates = [], []
    with serving() as url:
        for _ in range(PAIRS):
            requests, took, _ = graded(url)
            began = time.process_time()
            asyncio.run(_bare(url, requests))
            ratios.append((time.process_time() - began) / took)
            rates.append(len(requests) / took)
    print(
        f"over the client: {statistics.median(rates):,.0f} calls a second of processor time, "
        f"{statistics.median(ratios):.2f} of the bare client's"
    )


async def _bare(url: str, requests: list[ModelRequest]) -> None:
    from anthropic import AsyncAnthropic

    waiting = iter(requests)
    async with AsyncAnthropic(api_key="none", base_url=url, max_retries=0) as client:

        async def ask() -> None:
            for request in waiting:
                await client.messages.create(**anthropic.arguments_of(request))

        async with asyncio.TaskGroup() as group:
            for _ in range(JUDGE.concurrency):
                group.create_task(ask())


def at_once(count: int) -> None:
    """Make a run, grade it, print."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "s.duckdb") as con:
        _fill(con, count)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        report = grade_run(con, RUN, JUDGE)
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
    create_run(
        con, RunRecord(id=RUN, created_at=datetime(2026, 11, 21), lanes=lanes, trials=1, seed=0), items
    )
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
