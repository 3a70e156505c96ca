"""Makes the demo's data: the shop's orders and `traces.jsonl.gz`, what its agent did for two months.

    python -m replaydiff.replay.demo.make_traces [FOLDER]

writes `orders.json` and `traces.jsonl.gz` to the folder, without one to their places here.

The customers' messages are written here (`customers`), seeded. What was done about them is not: revision
v1 of the agent answers each through the real SDK and the model stand-in, and its calls, results and words
are recorded as production would have. Only times, users and latencies are invented. Run it after a change
of the agent, of its first prompt or of the stand-in; the same code writes the same files.
"""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from replaydiff.replay.demo import customers, repository
from replaydiff.replay.demo.stand_in import StandIn

COUNT = 360
ORDERS = 150
FIRST_DAY = datetime(2026, 9, 1)
DAYS = 61
SEED = 20260901
MODEL = "claude-haiku-5-5"


def main(folder: str | None = None) -> None:
    """Write both files anew."""
    to = Path(folder) if folder else None
    orders_file = to / "orders.json" if to else repository.AGENT / "app" / "orders.json"
    traces_file = to / "traces.jsonl.gz" if to else repository.TRACES
    chance = random.Random(SEED)  # noqa: S311
    orders = customers.make_orders(chance, ORDERS)
    lines = [f"{json.dumps(order.id)}: {json.dumps(_fields(order))}" for order in orders]
    orders_file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    arrivals = _arrivals(orders, chance)
    with tempfile.TemporaryDirectory() as checkout, StandIn(seed=SEED) as stand_in:
        repository.write_agent(Path(checkout), "v1")
        shutil.copy(orders_file, Path(checkout) / "app" / "orders.json")
        sys.path.insert(0, checkout)
        os.environ.update(ANTHROPIC_BASE_URL=stand_in.url, ANTHROPIC_API_KEY="stand-in", NO_PROXY="127.0.0.1")
        agent = importlib.import_module("app.agent")
        records = asyncio.run(_record(agent, arrivals, chance))
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    # Without name and time, so the same records are the same file.
    with traces_file.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())
    sys.stderr.write(f"{len(records)} traces in {traces_file}, {len(orders)} orders in {orders_file}\n")


def _fields(order: customers.Order) -> dict[str, str]:
    fields = asdict(order)
    del fields["id"]
    return fields


def _arrivals(orders: list[customers.Order], chance: random.Random) -> list[tuple[datetime, str]]:
    """When which message came, in order of time."""
    kinds, shares = zip(*customers.SHARES.items(), strict=True)
    arrivals = []
    for kind in chance.choices(kinds, shares, k=COUNT):
        at = FIRST_DAY + timedelta(days=chance.randrange(DAYS), hours=chance.triangular(6, 23, 18))
        arrivals.append((at.replace(microsecond=0), customers.write(kind, orders, chance)))
    return sorted(arrivals)


async def _record(
    agent: Any, arrivals: list[tuple[datetime, str]], chance: random.Random
) -> list[dict[str, Any]]:
    """Let the agent answer each message, one after the other, and write down what it did."""
    inner, results = agent._exec, []

    def recorded(name: str, args: dict[str, Any]) -> str:
        answer: str = inner(name, args)
        results.append(answer)
        return answer

    agent._exec = recorded
    records = []
    numbers: dict[str, int] = {}
    user, session = "", ""
    for at, message in arrivals:
        results.clear()
        result = await agent.run_agent(message, model=MODEL)
        month = at.strftime("%b").lower()
        numbers[month] = numbers.get(month, 0) + 1
        if not user or chance.random() > 0.1:
            user, session = f"user-{chance.randrange(900):03d}", f"s-{chance.getrandbits(32):08x}"
        latency_ms = sum(chance.uniform(600, 1400) for _ in range(len(results) + 1))
        records.append(
            {
                "trace_id": f"{month}-{numbers[month]:03d}",
                "started_at": at.isoformat() + "Z",
                "ended_at": (at + timedelta(milliseconds=latency_ms)).isoformat(timespec="milliseconds")
                + "Z",
                "name": "support",
                "session_id": session,
                "user_id": user,
                "environment": "production",
                "release": "v1",
                "model": MODEL,
                "input": message,
                "final_response": result.final_response,
                "tool_calls": [
                    {**call, "result": answer}
                    for call, answer in zip(result.tool_calls, results, strict=True)
                ],
                "usage": result.usage,
                "latency_ms": round(latency_ms),
                "metadata": {
                    "channel": chance.choices(("chat", "email", "app"), (6, 3, 1))[0],
                    "plan": chance.choices(("guest", "member"), (7, 3))[0],
                },
            }
        )
    return records


if __name__ == "__main__":
    main(*sys.argv[1:2])
