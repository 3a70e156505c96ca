"""What replaying and grading cost beside the agent: two lanes, one call from the tape.

    .venv/bin/python benchmarks/overhead.py [ITEMS …] [--concurrency 1 50 500] [--seconds 0]
    .venv/bin/python benchmarks/overhead.py 5000 50000 --concurrency 50      # memory: 10,000 and 100,000 trials

Without arguments 5,000 items (10,000 trials) at concurrency 1, 50 and 500, of an agent that answers at once;
`--seconds 0.05` makes it an async one that waits so long. Each line is a process of its own, which makes a
store and a sample (not measured), then runs `replay run` and `replay diff --json` in it.

*Bare* is the same function called as often and as concurrently in one process, with nothing around it.
*Overhead* is what `replay run` takes above that, a trial, its whole wall time included: workers started and
stopped, the run written down, journal, store. Beside it is the processor time of the engine and its
workers, which other work on the machine changes less. Peak memory is that of the process of `replay run`, workers
aside; with several sizes the last line is the ratio of the largest to the smallest.
"""

import argparse
import asyncio
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

from replaydiff.replay.cli import cli
from replaydiff.replay.commands.options import App
from replaydiff.replay.model import Message, ToolCall, Trace
from replaydiff.replay.sampling import draw
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.samples import write_sample
from replaydiff.replay.store.traces import write_traces

AGENT = """
import asyncio

def call(name, args) -> str:
    return "{}"

def run(text):
    order = text.split()[-1]
    status = call("get_order_status", {"order_id": order})
    usage = {"input_tokens": 900, "output_tokens": 60}
    return {"final_response": "Order " + order + ": " + status, "usage": usage}

async def wait(text):
    await asyncio.sleep(SECONDS)
    return run(text)
"""
SETTINGS = """
[agent]
entrypoint = "agent:{entrypoint}"
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


def prepare(items: int, concurrency: int, seconds: float) -> None:
    Path("agent.py").write_text(AGENT.replace("SECONDS", str(seconds)))
    entrypoint = "wait" if seconds else "run"
    Path("replay.toml").write_text(SETTINGS.format(concurrency=concurrency, entrypoint=entrypoint))
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


def processor_s() -> float:
    """Of this process and of those it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bare(items: int, concurrency: int, seconds: float) -> float:
    """Seconds that the function alone takes for both lanes."""
    sys.path.insert(0, "")
    import agent

    texts = iter([trace(number).input for number in range(items)] * LANES)

    async def work() -> None:
        for text in texts:
            if seconds:
                await agent.wait(text)
            else:
                agent.run(text)

    async def everything() -> None:
        await asyncio.gather(*(work() for _ in range(concurrency)))

    began = time.perf_counter()
    asyncio.run(everything())
    return time.perf_counter() - began


def measure(items: int, concurrency: int, seconds: float) -> None:
    size = [str(items), "--concurrency", str(concurrency), "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        # In a process of its own, so that its memory does not count.
        subprocess.run([sys.executable, __file__, *size, "--prepare"], check=True)
        used = processor_s()
        ran, _ = timed("run", "--old", "one", "--new", "two", "--no-aa", "--trials", "1", "--json")
        after_run, used = memory_mb(), processor_s() - used
        graded, document = timed("diff", "--json")
        found = json.loads(document)
        assert found["items"]["compared"] == items
        assert found["metrics"]["tool_calls"]["new"] == 1.0
        alone = bare(items, concurrency, seconds)
        trials = items * LANES
        measured = {
            "memory": after_run,
            "text": f"{trials:>8,} trials, {concurrency:>3} at once: bare {alone / trials * 1000:.3f} ms, "
            f"replay run {ran / trials * 1000:.3f} ms, overhead {(ran - alone) / trials * 1000:.3f} ms a trial "
            f"(processor time {used / trials * 1000:.3f} ms); diff {graded / trials * 1000:.3f} ms a trial; peak memory {after_run:.0f} MB, "
            f"{memory_mb():.0f} MB after the diff",
        }
        print(json.dumps(measured))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", type=int, nargs="*", default=[5000])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 50, 500])
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare or options.measure:
        (prepare if options.prepare else measure)(options.items[0], options.concurrency[0], options.seconds)
        return
    memory = {}
    for items in options.items:
        for concurrency in options.concurrency:
            size = [str(items), "--concurrency", str(concurrency), "--seconds", str(options.seconds)]
            done = subprocess.run(
                [sys.executable, __file__, *size, "--measure"], check=True, capture_output=True, text=True
            )
            measured = json.loads(done.stdout)
            memory[items] = max(memory.get(items, 0.0), measured["memory"])
            print(measured["text"], flush=True)
    if len(memory) > 1:
        least, most = min(memory), max(memory)
        print(
            f"memory at {most * LANES:,} trials is {memory[most] / memory[least]:.2f} times that at "
            f"{least * LANES:,}"
        )


if __name__ == "__main__":
    main()
