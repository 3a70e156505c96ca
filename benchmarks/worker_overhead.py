"""What a trial costs beside the agent's own work: an instant agent, two tool calls answered from the tape.

    .venv/bin/python benchmarks/worker_overhead.py [TRIALS]

Prints milliseconds a trial for a sync and an async agent at several concurrencies (worker, pipes, tape and
outcome; no store, no grading), the bare call of the same function in this process, and the parent's memory.
"""

import asyncio
import importlib.util
import resource
import sys
import tempfile
import time
from pathlib import Path

from replaydiff.replay.agents import Rules, build
from replaydiff.replay.model import Item, Status, ToolCall, Version, VersionKind

AGENT = """
def call(name, args) -> str:
    return "{}"

def run(text):
    call("get_order_status", {"order_id": text})
    call("cancel_order", {"order_id": text, "confirmation": True})
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"final_response": "Order " + text + " is cancelled.", "usage": usage}

async def run_async(text):
    return run(text)
"""


def item(number: int) -> Item:
    order = str(number)
    cancel = {"order_id": order, "confirmation": True}
    tape = (
        ToolCall(name="get_order_status", args={"order_id": order}, result='{"status": "processing"}'),
        ToolCall(name="cancel_order", args=cancel, result='{"ok": true}'),
    )
    return Item(id=order, input=order, tape=tape)


async def measure(entrypoint: str, folder: str, trials: int, concurrency: int) -> tuple[float, int]:
    """Milliseconds a trial, start of the first worker excluded; and the number of workers at the end."""
    version = Version(
        name="bench", kind=VersionKind.PYTHON, entrypoint=entrypoint, path=folder, tools=("agent:call",)
    )
    agent = build(version, Rules(timeout_s=60, concurrency=concurrency))
    await agent.start()
    numbers = iter(range(trials))

    async def work() -> None:
        for number in numbers:
            outcome = await agent.run(item(number), 0)
            assert outcome.status is Status.OK, outcome.reason
            assert len(outcome.served) == 2

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    took = time.perf_counter() - began
    workers = len(agent._shared._workers)
    await agent.close()
    return took / trials * 1000, workers


def bare(folder: str, trials: int) -> float:
    spec = importlib.util.spec_from_file_location("agent", Path(folder, "agent.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    began = time.perf_counter()
    for number in range(trials):
        module.run(item(number).input)
    return (time.perf_counter() - began) / trials * 1000


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "agent.py").write_text(AGENT)
        print(f"bare call, no process    {bare(folder, trials):.4f} ms")
        for entrypoint in ("agent:run", "agent:run_async"):
            for concurrency in (1, 4, 50):
                took, workers = asyncio.run(measure(entrypoint, folder, trials, concurrency))
                what = "async" if entrypoint.endswith("async") else "sync"
                print(f"{what:5} agent, {concurrency:3} at once  {took:.3f} ms a trial, {workers} worker(s)")
    print(f"memory of the parent     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
