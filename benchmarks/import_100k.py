"""How fast and in how much memory traces are imported.

    .venv/bin/python benchmarks/import_100k.py [traces]

Writes that many traces (default 100,000) and a tenth of them to a temporary folder as trace JSONL, then
imports each file with `replay import jsonl` in a process of its own, and prints seconds, MB/s and peak
memory. The two peaks say whether memory depends on the size of the file.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CODE = (
    "import resource, sys\n"
    "from replay.cli import main\n"
    "try: main(sys.argv[1:])\n"
    "except SystemExit as end: code = end.code\n"
    "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    "sys.exit(code)\n"
)


def write(path: Path, traces: int) -> None:
    """Support conversations with a system prompt, two turns and two tool calls: about 2 KB a trace."""
    rng = random.Random(7)
    policy = "You are a support agent. " + "Be brief, be kind, look before you act. " * 8
    with path.open("w", encoding="utf-8") as file:
        for number in range(traces):
            order = rng.randrange(10**6)
            calls = [
                {
                    "id": f"c{n}",
                    "type": "function",
                    "function": {"name": name, "arguments": f'{{"id": {order}}}'},
                }
                for n, name in enumerate(("get_order_status", "cancel_order"))
            ]
            result = json.dumps({"id": order, "status": "shipped", "items": ["socks"] * rng.randrange(1, 20)})
            messages = [
                {"role": "system", "content": policy},
                {"role": "user", "content": f"Where is my order {order}?"},
                {"role": "assistant", "content": None, "tool_calls": calls[:1]},
                {"role": "tool", "tool_call_id": "c0", "content": result},
                {"role": "assistant", "content": "It was shipped. Shall I cancel it?"},
                {"role": "user", "content": "Yes, please, and be quick about it."},
                {"role": "assistant", "content": None, "tool_calls": calls[1:]},
                {"role": "tool", "tool_call_id": "c1", "content": "cancelled"},
                {"role": "assistant", "content": "Done: the order is cancelled."},
            ]
            trace = {
                "trace_id": f"trace-{number:07}",
                "started_at": f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:00:00Z",
                "release": f"1.{number % 5}",
                "session_id": f"session-{number // 3}",
                "messages": messages,
                "usage": {"input_tokens": rng.randrange(500, 5000), "output_tokens": rng.randrange(20, 500)},
                "metadata": {"plan": rng.choice(["free", "team", "enterprise"])},
            }
            file.write(json.dumps(trace) + "\n")


def measure(folder: Path, traces: int) -> None:
    """Import one generated file in a fresh process and print what it took."""
    source, store = folder / f"{traces}.jsonl", folder / f"{traces}.duckdb"
    write(source, traces)
    size = source.stat().st_size / 1e6
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CODE, "--db", str(store), "import", "jsonl", str(source)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    peak = int(done.stderr.rsplit("peak", 1)[1]) / 1024
    rate = f"{seconds:6.2f} s  {size / seconds:5.1f} MB/s"
    print(f"{traces:>8,} traces  {size:6.1f} MB  {rate}  peak {peak:4.0f} MB")


def main() -> None:
    """A tenth first, then all."""
    traces = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        for size in (traces // 10, traces):
            measure(Path(folder), size)


if __name__ == "__main__":
    main()
