"""How fast and in how much memory traces are imported, against DuckDB's own reading of the same file.

    .venv/bin/python benchmarks/import_100k.py [TRACES] [PAIRS] [--source jsonl|langfuse|otlp] [--redact]

Writes that many traces (default 100,000) and a tenth of them to a temporary folder: trace JSONL with chat
messages, an export of Langfuse's observations, or a collector's OTLP/JSON. Then, in turn and each in a process
of its own, `replay import` brings each file into a store, and once more into the same, and DuckDB's `read_json`
into the same tables. DuckDB only takes the fields apart, in SQL: it recognises no messages, joins no results,
hashes nothing and lets nothing be rejected. Printed are MB/s, processor time and peak memory (of ours for all
processes together), and the median of the ratios. The two sizes say whether memory depends on the file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from measuring import ENVIRONMENT

SCHEMA = Path(__file__).resolve().parent.parent / "replay" / "store" / "schema" / "0001_initial.sql"
SOURCES = ("jsonl", "langfuse", "otlp")
REDACTED = "[import.redact]\n"
_COMMON = "now()::TIMESTAMP AS imported_at, []::VARCHAR[] AS tags, false AS incomplete, 'complete' AS state"
_EMPTY = "'' AS content_hash, '' AS tool_path, '{}' AS scores, []::VARCHAR[] AS media_missing"
THEIRS = {
    "jsonl": f"""
CREATE TEMP TABLE staged AS SELECT * FROM read_json(?, format='newline_delimited', columns={{
    trace_id: 'VARCHAR', started_at: 'TIMESTAMP', release: 'VARCHAR', session_id: 'VARCHAR',
    messages: 'JSON', usage: 'JSON', metadata: 'JSON'}});
INSERT INTO traces BY NAME
SELECT trace_id, 'jsonl' AS source, trace_id AS source_id, {_COMMON}, {_EMPTY}, started_at, release, session_id,
    messages->>'$[1].content' AS input, messages->>'$[#-1].content' AS final_response,
    (usage->'input_tokens')::BIGINT AS input_tokens, (usage->'output_tokens')::BIGINT AS output_tokens,
    usage, metadata, messages, '[]' AS steps
FROM staged;
INSERT INTO tool_calls BY NAME
SELECT trace_id, index, call->>'$.function.name' AS name, call->>'$.function.arguments' AS args,
    call->>'$.id' AS call_id, '"-"' AS result, true AS answered
FROM (SELECT trace_id, unnest(json_extract(messages, '$[*].tool_calls[*]')) AS call,
    generate_subscripts(json_extract(messages, '$[*].tool_calls[*]'), 1) - 1 AS index FROM staged);
""",
    "langfuse": """
CREATE TEMP TABLE staged AS SELECT * FROM read_json(?, format='newline_delimited', columns={
    id: 'VARCHAR', traceId: 'VARCHAR', type: 'VARCHAR', name: 'VARCHAR', startTime: 'TIMESTAMP',
    endTime: 'TIMESTAMP', parentObservationId: 'VARCHAR', input: 'JSON', output: 'JSON',
    usageDetails: 'JSON', sessionId: 'VARCHAR', release: 'VARCHAR'});
""",
    "otlp": """
CREATE TEMP TABLE staged AS
SELECT span->>'spanId' AS id, span->>'traceId' AS traceId, span->>'parentSpanId' AS parentObservationId,
    CASE held['gen_ai.operation.name'] WHEN 'chat' THEN 'GENERATION' WHEN 'execute_tool' THEN 'TOOL' END AS type,
    coalesce(held['gen_ai.tool.name'], span->>'name') AS name,
    make_timestamp((span->>'startTimeUnixNano')::BIGINT // 1000) AS startTime,
    make_timestamp((span->>'endTimeUnixNano')::BIGINT // 1000) AS endTime,
    coalesce(held['gen_ai.input.messages'], held['gen_ai.tool.call.arguments'], to_json(held['input'])) AS input,
    coalesce(held['gen_ai.output.messages'], to_json(held['gen_ai.tool.call.result']), to_json(held['output']))
        AS output,
    '{}' AS usageDetails, held['gen_ai.conversation.id'] AS sessionId, NULL::VARCHAR AS release
FROM (SELECT span, map_from_entries(list_transform(
        from_json(span->'attributes', '[{"key": "VARCHAR", "value": {"stringValue": "VARCHAR"}}]'),
        lambda pair: {'k': pair.key, 'v': pair.value.stringValue})) AS held
    FROM (SELECT unnest(json_extract(resourceSpans, '$[*].scopeSpans[*].spans[*]')) AS span
        FROM read_json(?, format='newline_delimited', columns={resourceSpans: 'JSON'})));
""",
}
"""Source → what DuckDB does instead; of spans it makes traces by `GROUPED`."""
GROUPED = f"""
INSERT INTO traces BY NAME
SELECT traceId AS trace_id, 'spans' AS source, traceId AS source_id, {_COMMON}, {_EMPTY},
    min(startTime) AS started_at, max(endTime) AS ended_at, max(release) AS release, max(sessionId) AS session_id,
    coalesce(max(input) FILTER (parentObservationId IS NULL), '') AS input,
    max(output) FILTER (parentObservationId IS NULL) AS final_response, '{{}}' AS metadata,
    max_by(input, startTime) FILTER (type = 'GENERATION') AS messages,
    to_json(list({{'id': id, 'type': type, 'name': name, 'messages': input, 'output': output, 'started_at': startTime,
        'ended_at': endTime, 'usage': usageDetails, 'parent': parentObservationId}} ORDER BY startTime)) AS steps
FROM staged GROUP BY traceId;
INSERT INTO tool_calls BY NAME
SELECT traceId AS trace_id, row_number() OVER (PARTITION BY traceId ORDER BY startTime) - 1 AS index, name,
    input AS args, output AS result, true AS answered
FROM staged WHERE type = 'TOOL';
"""


def write(path: Path, traces: int, source: str) -> None:
    """Write support conversations with a system prompt, two turns and two tool calls."""
    with path.open("w", encoding="utf-8") as file:
        for number, trace in enumerate(conversations(traces)):
            records = [trace] if source == "jsonl" else spans_of(trace)
            for record in [otlp_of(trace, number)] if source == "otlp" else records:
                file.write(json.dumps(record) + "\n")


def conversations(traces: int) -> Iterator[dict[str, Any]]:
    """Yield so many of them, always the same."""
    rng = random.Random(7)
    policy = "You are a support agent. " + "Be brief, be kind, look before you act. " * 8
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
        yield {
            "trace_id": f"trace-{number:07}",
            "started_at": f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:00:00Z",
            "release": f"1.{number % 5}",
            "session_id": f"session-{number // 3}",
            "messages": messages,
            "usage": {"input_tokens": rng.randrange(500, 5000), "output_tokens": rng.randrange(20, 500)},
            "metadata": {"plan": rng.choice(["free", "team", "enterprise"])},
        }


def spans_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The same trace as observations of Langfuse: an agent, and a model call or tool below it for each turn."""
    found: list[dict[str, Any]] = []
    messages, start = trace["messages"], trace["started_at"].removesuffix("Z")

    def add(kind: str, name: str, given: Any, output: Any, **more: Any) -> None:
        at = len(found)
        parent = {"parentObservationId": found[0]["id"]} if found else {}
        found.append(
            {"id": f"{trace['trace_id']}-{at}", "traceId": trace["trace_id"], "type": kind, "name": name}
            | {"startTime": f"{start}.{at:03}Z", "endTime": f"{start}.{at:03}500Z", "input": given}
            | {"output": output, "environment": "default", **parent, **more}
        )

    whole = {name: trace[name] for name in ("session_id", "release")}
    top = {"sessionId": whole["session_id"], "release": whole["release"]}
    add("AGENT", "agent", messages[1]["content"], messages[-1]["content"], **top)
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            usage = {"input": 100, "output": 20, "total": 120}
            add("GENERATION", "llm", messages[:at], message, providedModelName="gpt-4o", usageDetails=usage)
        for call in message.get("tool_calls", ()):
            arguments = json.loads(call["function"]["arguments"])
            add("TOOL", call["function"]["name"], arguments, messages[at + 1]["content"])
    return found


def otlp_of(trace: dict[str, Any], number: int) -> dict[str, Any]:
    """The same trace as a collector writes it, by the conventions for GenAI."""
    operations = {"AGENT": "invoke_agent", "GENERATION": "chat", "TOOL": "execute_tool"}
    spans = []
    for at, one in enumerate(spans_of(trace)):
        kind = one["type"]
        held = {"gen_ai.operation.name": operations[kind]}
        if kind == "GENERATION":
            held["gen_ai.request.model"] = one["providedModelName"]
            held["gen_ai.input.messages"] = json.dumps([_with_parts(message) for message in one["input"]])
            held["gen_ai.output.messages"] = json.dumps([_with_parts(one["output"])])
        elif kind == "TOOL":
            held["gen_ai.tool.name"] = one["name"]
            held["gen_ai.tool.call.arguments"] = json.dumps(one["input"])
            held["gen_ai.tool.call.result"] = one["output"]
        else:
            held |= {
                "gen_ai.conversation.id": one["sessionId"],
                "input": one["input"],
                "output": one["output"],
            }
        ids = {"traceId": f"{number + 1:032x}", "spanId": f"{number * 100 + at + 1:016x}"}
        parent = {"parentSpanId": f"{number * 100 + 1:016x}"} if at else {}
        times = {
            name: f"{int(datetime.fromisoformat(one[field]).timestamp() * 1e6)}000"
            for name, field in (("startTimeUnixNano", "startTime"), ("endTimeUnixNano", "endTime"))
        }
        attributes = [{"key": key, "value": {"stringValue": value}} for key, value in held.items()]
        spans.append(ids | parent | times | {"name": one["name"], "attributes": attributes})
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "agent"}, "spans": spans}]}]}


def _with_parts(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        answer = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
        return {"role": "tool", "parts": [answer]}
    calls = [
        {"type": "tool_call", "id": call["id"]}
        | {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
    texts = [{"type": "text", "content": message["content"]}] if message["content"] else []
    return {"role": message["role"], "parts": [*texts, *calls]}


class Cost(NamedTuple):
    """What one import took."""

    seconds: float
    cpu_seconds: float
    """Of all its processes."""
    peak_mb: float
    """Memory of all its processes at one time, without what they share."""


def load(source: str, path: str, store: str) -> None:
    """DuckDB's way, in a process of its own."""
    import duckdb

    with duckdb.connect(store) as con:
        con.execute(SCHEMA.read_text(encoding="utf-8"))
        con.execute("SET memory_limit = '4GB'")
        first, *others = (THEIRS[source] + ("" if source == "jsonl" else GROUPED)).split(";\n")
        con.execute(first, [path])
        for statement in filter(str.strip, others):
            con.execute(statement)


def run(arguments: list[str], folder: Path) -> Cost:
    """Run a process in a folder, and watch it and its children."""
    began, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, cwd=folder, env=ENVIRONMENT
    )
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


def measure(folder: Path, source: str, traces: int, pairs: int) -> None:
    """Import one generated file in turn in both ways, and print what each took."""
    file = folder / f"{traces}.jsonl"
    write(file, traces, source)
    size = file.stat().st_size / 1e6
    costs: dict[str, list[Cost]] = {"replay import": [], "the same again": [], "read_json": []}
    for _ in range(pairs):
        store = folder / "ours.duckdb"
        for which in ("replay import", "the same again"):
            command = ["-m", "replaydiff", "--db", str(store), "import", source, str(file)]
            costs[which].append(run(command, folder))
        store.unlink()
        store = folder / "theirs.duckdb"
        costs["read_json"].append(
            run([str(Path(__file__).resolve()), "--load", source, str(file), str(store)], folder)
        )
        store.unlink()
    print(f"{traces:,} traces of {source}, {size:.0f} MB, {pairs} pairs")
    for name, found in costs.items():
        rates = sorted(size / cost.seconds for cost in found)
        cpu = statistics.median(cost.cpu_seconds for cost in found)
        peak = max(cost.peak_mb for cost in found)
        middle = statistics.median(rates)
        print(f"  {name:14} {middle:6.1f} MB/s ({rates[0]:.1f} to {rates[-1]:.1f}), ", end="")
        print(f"{cpu:.1f} s of processor, peak {peak:.0f} MB")
    both = list(zip(costs["replay import"], costs["read_json"], strict=True))
    wall = statistics.median(their.seconds / our.seconds for our, their in both)
    cpu = statistics.median(their.cpu_seconds / our.cpu_seconds for our, their in both)
    again = zip(costs["the same again"], costs["replay import"], strict=True)
    share = statistics.median(second.cpu_seconds / first.cpu_seconds for second, first in again)
    print(
        f"  speed {wall:.2f} and processor {cpu:.2f} of read_json's; again {share:.2f} of the first time's processor"
    )
    file.unlink()


def main() -> None:
    """A tenth first, then all."""
    if sys.argv[1:2] == ["--load"]:
        load(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", nargs="?", type=int, default=100_000)
    parser.add_argument("pairs", nargs="?", type=int, default=3)
    parser.add_argument("--source", choices=SOURCES, default="jsonl")
    parser.add_argument("--redact", action="store_true", help="replace personal data on the way")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} before")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "replay.toml").write_text(REDACTED if options.redact else "")
        for size in (options.traces // 10, options.traces):
            measure(Path(folder), options.source, size, options.pairs)
    print(f"load {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
