"""How fast and in how much memory traces are imported, against DuckDB's own reading of the same file.

    .venv/bin/python benchmarks/import_100k.py [TRACES] [PAIRS]

Writes that many traces (default 100,000) and a tenth of them to a temporary folder as trace JSONL. Then, in
turn and each in a process of its own, `replay import jsonl` and DuckDB's `read_json` bring each file into the
same tables. DuckDB only takes the fields apart, in SQL: it recognises no messages, joins no results, hashes
nothing and lets nothing be rejected. Printed are MB/s, processor time and peak memory of both (of ours for
all processes together), and the median of the ratios. The two sizes say whether memory depends on the file.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

SCHEMA = Path(__file__).parent.parent / "replay" / "store" / "schema" / "0001_initial.sql"
THEIRS = """
CREATE TEMP TABLE staged AS SELECT * FROM read_json(?, format='newline_delimited', columns={
    trace_id: 'VARCHAR', started_at: 'TIMESTAMP', release: 'VARCHAR', session_id: 'VARCHAR',
    messages: 'JSON', usage: 'JSON', metadata: 'JSON'});
INSERT INTO traces BY NAME
SELECT trace_id, 'jsonl' AS source, trace_id AS source_id, '' AS content_hash, now()::TIMESTAMP AS imported_at,
    started_at, release, session_id, []::VARCHAR[] AS tags, false AS incomplete, 'complete' AS state,
    '' AS tool_path, messages->>'$[1].content' AS input, messages->>'$[#-1].content' AS final_response,
    (usage->'input_tokens')::BIGINT AS input_tokens, (usage->'output_tokens')::BIGINT AS output_tokens,
    usage, '{}' AS scores, metadata, messages, '[]' AS steps
FROM staged;
INSERT INTO tool_calls BY NAME
SELECT trace_id, index, call->>'$.function.name' AS name, call->>'$.function.arguments' AS args,
    call->>'$.id' AS call_id, '"-"' AS result, true AS answered
FROM (SELECT trace_id, unnest(json_extract(messages, '$[*].tool_calls[*]')) AS call,
    generate_subscripts(json_extract(messages, '$[*].tool_calls[*]'), 1) - 1 AS index FROM staged);
"""


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


class Cost(NamedTuple):
    """What one import took."""

    seconds: float
    cpu_seconds: float
    """Of all its processes."""
    peak_mb: float
    """Memory of all its processes at one time, without what they share."""


def load(source: str, store: str) -> None:
    """DuckDB's way, in a process of its own."""
    import duckdb

    with duckdb.connect(store) as con:
        con.execute(SCHEMA.read_text(encoding="utf-8"))
        con.execute("SET memory_limit = '4GB'")
        first, *others = THEIRS.split(";\n")
        con.execute(first, [source])
        for statement in filter(str.strip, others):
            con.execute(statement)


def run(arguments: list[str]) -> Cost:
    """Run a process and watch it and its children."""
    began, before = time.perf_counter(), os.times()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    peak = [0.0]
    watch = threading.Thread(target=_watch, args=(process, peak))
    watch.start()
    code = process.wait()
    seconds, after = time.perf_counter() - began, os.times()
    watch.join()
    if code:
        raise SystemExit(f"{arguments} ended with {code}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(seconds, cpu, peak[0])


def _watch(process: subprocess.Popen[bytes], peak: list[float]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], _memory_mb(process.pid))
        time.sleep(0.05)


def _memory_mb(pid: int) -> float:
    """Private and shared-in-proportion memory of a process and its children."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    own = next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return own / 1024 + sum(_memory_mb(int(child)) for child in children)


def measure(folder: Path, traces: int, pairs: int) -> None:
    """Import one generated file in turn in both ways, and print what each took."""
    source = folder / f"{traces}.jsonl"
    write(source, traces)
    size = source.stat().st_size / 1e6
    ours, theirs = [], []
    for _ in range(pairs):
        store = folder / "ours.duckdb"
        ours.append(run(["-m", "replaydiff", "--db", str(store), "import", "jsonl", str(source)]))
        store.unlink()
        store = folder / "theirs.duckdb"
        theirs.append(run([__file__, "--load", str(source), str(store)]))
        store.unlink()
    print(f"{traces:,} traces, {size:.0f} MB, {pairs} pairs")
    for name, costs in (("replay import", ours), ("read_json", theirs)):
        rates = sorted(size / cost.seconds for cost in costs)
        cpu = statistics.median(cost.cpu_seconds for cost in costs)
        peak = max(cost.peak_mb for cost in costs)
        middle = statistics.median(rates)
        print(f"  {name:13} {middle:5.1f} MB/s ({rates[0]:.1f} to {rates[-1]:.1f}), ", end="")
        print(f"{cpu:.1f} s of processor, peak {peak:.0f} MB")
    both = list(zip(ours, theirs, strict=True))
    wall = statistics.median(their.seconds / our.seconds for our, their in both)
    cpu = statistics.median(their.cpu_seconds / our.cpu_seconds for our, their in both)
    print(f"  ratio of the speeds {wall:.2f}, of the processor times {cpu:.2f}")
    source.unlink()


def main() -> None:
    """A tenth first, then all."""
    if sys.argv[1:2] == ["--load"]:
        load(*sys.argv[2:])
        return
    traces = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for size in (traces // 10, traces):
            measure(Path(folder), size, pairs)


if __name__ == "__main__":
    main()
