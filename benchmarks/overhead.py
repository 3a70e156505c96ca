"""What replaying and grading cost beside the agent: an instant agent, two lanes, one call from the tape.

    .venv/bin/python benchmarks/overhead.py [ITEMS …] [--concurrency 50]

Without arguments 1,000 and 10,000 items. Each size is a process of its own, which makes a store and a sample
(not measured), then runs `replay run` and `replay diff --json` in it. Prints milliseconds a trial of both, the
whole wall time included (worker start, run written down, journal, store), and the peak memory of the process.
"""

import argparse
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path

from replay.cli import cli
from replay.model import Message, ToolCall, Trace
from replay.options import App
from replay.sampling import draw
from replay.store.connection import open_store
from replay.store.samples import write_sample
from replay.store.traces import write_traces

AGENT = """
def call(name, args) -> str:
    return "{}"

def run(text):
    order = text.split()[-1]
    status = call("get_order_status", {"order_id": order})
    usage = {"input_tokens": 900, "output_tokens": 60}
    return {"final_response": "Order " + order + ": " + status, "usage": usage}
"""
SETTINGS = """
[agent]
entrypoint = "agent:run"
tools = ["agent:call"]
[run]
concurrency = {concurrency}
[versions.one]
[versions.two]
args = {{}}
env = {{ TWO = "2" }}
"""
LANES = 2


def trace(number: int) -> Trace:
    order = f"{number:06d}"
    text = "Hello, I would like to know what became of the order I made last week, it is urgent: " + order
    status = '{"status": "shipped", "carrier": "UPS", "eta": "2026-11-02", "items": ["lamp", "desk"]}'
    call = ToolCall(name="get_order_status", args={"order_id": order}, result=status)
    return Trace(
        trace_id=f"trace-{order}",
        source="jsonl",
        started_at=datetime(2026, 10, 1) + timedelta(seconds=number),
        session_id=f"session-{number // 3}",
        input=text,
        messages=(Message(role="user", text=text), Message(role="assistant", text="It is on its way.")),
        final_response="It is on its way.",
        tool_calls=(call,),
    )


def prepare(items: int, concurrency: int) -> None:
    Path("agent.py").write_text(AGENT)
    Path("replay.toml").write_text(SETTINGS.format(concurrency=concurrency))
    with open_store(Path(".replay/replay.duckdb")) as con:
        for start in range(0, items, 2000):
            write_traces(con, [trace(number) for number in range(start, min(start + 2000, items))])
        drawn = draw(con, name="all", size=items, seed=0)
        write_sample(con, drawn.sample, drawn.items)


def timed(*args: str) -> tuple[float, str]:
    out = io.StringIO()
    began = time.perf_counter()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = cli.main(args=list(args), prog_name="replay", standalone_mode=False, obj=App())
    assert not code, f"replay {' '.join(args)} ended with {code}"
    return time.perf_counter() - began, out.getvalue()


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(items: int, concurrency: int) -> None:
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        # In a process of its own, so that its memory does not count.
        subprocess.run(
            [sys.executable, __file__, str(items), "--concurrency", str(concurrency), "--prepare"], check=True
        )
        ran, _ = timed("run", "--old", "one", "--new", "two", "--no-aa", "--trials", "1", "--json")
        after_run = memory_mb()
        graded, document = timed("diff", "--json")
        found = json.loads(document)
        assert found["items"]["compared"] == items
        assert found["metrics"]["tool_calls"]["new"] == 1.0
        trials = items * LANES
        print(
            f"{items:>7,} items, {trials:,} trials: run {ran:.2f} s, {ran / trials * 1000:.3f} ms a trial; "
            f"diff {graded:.2f} s, {graded / trials * 1000:.3f} ms a trial; "
            f"together {(ran + graded) / trials * 1000:.3f} ms; "
            f"peak memory {after_run:.0f} MB after the run, {memory_mb():.0f} MB after the diff"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.prepare:
        prepare(asked.items[0], asked.concurrency)
    elif asked.measure:
        measure(asked.items[0], asked.concurrency)
    else:
        for items in asked.items:
            subprocess.run(
                [sys.executable, __file__, str(items), "--concurrency", str(asked.concurrency), "--measure"],
                check=True,
            )


if __name__ == "__main__":
    main()
