"""What grading costs beside the judge's model, and beside the bare client of its API.

    python benchmarks/judging.py [ITEMS]       # default 10,000 items, two lanes

First with a model that answers at once: milliseconds a trial (prompt, three votes, tally, storing) and the peak
of memory. Then over the real client, against a server of its own process that answers at once: calls a second
of processor time, as a share of what `AsyncAnthropic` alone does with the same questions, eight at a time, the
two in turn. Measured 2026-11-21 on two shared cores: 0.67 of it
(446 calls a second, with other work on both cores).
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
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
    own_rubric=False,
    votes=3,
    max_tokens=100,
    concurrency=8,
    connect=connect,
)
PAIRS = 5
TRIALS = 400
SERVER = """
import asyncio, json
text = json.dumps({"reasoning": "Fine.", "score": 3})
body = json.dumps({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
                   "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                   "usage": {"input_tokens": 900, "output_tokens": 20}}).encode()
answer = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body

async def serve(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        length = next(line for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
        writer.write(answer)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def main() -> None:
    """Both parts."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    at_once(count)
    over_the_client()


def over_the_client() -> None:
    """Grade a run over HTTP, and put the same questions to the bare client."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        try:
            judge = replace(JUDGE, connect=lambda: anthropic.connect(base_url=url))
            ratios, rates = [], []
            for _ in range(PAIRS):
                with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "s.duckdb") as con:
                    _fill(con, TRIALS // 2)
                    asked = [one.request for one in questions.questions(con, get_run(con, RUN), judge, {})]
                    began = time.process_time()
                    report = grade_run(con, RUN, judge)
                    took = time.process_time() - began
                    assert report.calls == len(asked) == TRIALS * 3
                began = time.process_time()
                asyncio.run(_bare(url, asked))
                ratios.append((time.process_time() - began) / took)
                rates.append(len(asked) / took)
        finally:
            server.kill()
    print(
        f"over the client: {statistics.median(rates):,.0f} calls a second of processor time, "
        f"{statistics.median(ratios):.2f} of the bare client's"
    )


async def _bare(url: str, asked: list[ModelRequest]) -> None:
    from anthropic import AsyncAnthropic

    waiting = iter(asked)
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
