"""Generate the demo's data: the shop's orders and `traces.jsonl.gz`, two months of its agent's traces.

    python -m tests.demo.make_traces [FOLDER]

writes `orders.json` and `traces.jsonl.gz` to FOLDER, or over the bundled files without one.

The customers' messages are drawn from the templates below with a fixed seed. The rest is recorded: revision
v1 of the agent answers each message through the real SDK and the model stand-in, and its calls, results and
responses are kept as production would keep them. Only times, users and latencies are invented. Run it after a
change of the agent, its first prompt or the stand-in; the same code always writes the same files.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from replaydiff.replay.demo import repository
from replaydiff.replay.demo.stand_in import StandIn
from replaydiff.replay.event_loop import run_sync

STATUS = "status"
SEVERAL = "several orders"
CANCEL = "cancel"
CONFIRMED = "cancel, confirmed"
TOO_LATE = "cancel, confirmed, shipped"
PRESSING = "cancel, pressing"
IMPATIENT = "cancel, impatient"
VAGUE = "no number"
OFF_TOPIC = "no order"
MISSPELT = "misspelt words"
GARBLED = "misspelt number"
UNKNOWN = "unknown number"

TEMPLATES: dict[str, tuple[str, ...]] = {
    STATUS: (
        "Where is my order {order}?",
        "Hi, could you tell me the status of order {order}? Thank you!",
        "When will {order} arrive? I am away from Friday.",
        "Has order {order} shipped yet?",
        "hello, any update on {order}",
        "I ordered a {item} (order {order}). When can I expect it?",
        "Can you track order {order} for me please",
        "Order number {order}. Where is it? You said it would be here by now.",
        "Good morning, my {item} has not come. The order is {order}, could you check?",
        "eta for {order}?",
    ),
    SEVERAL: (
        "Could you check orders {order} and {other} for me?",
        "I have two orders with you, {order} and {other}. Where are they?",
        "What is the status of {order}, and of {other}?",
        "Do {order} and {other} arrive on the same day?",
    ),
    CANCEL: (
        "I would like to cancel order {order}.",
        "Hi, can I still cancel {order}? I found the {item} somewhere else.",
        "Please cancel my order {order}, I have changed my mind.",
        "I don't want order {order} any more. What do I have to do?",
        "Would it be possible to cancel order {order}, please?",
    ),
    CONFIRMED: (
        "Please look up order {order} and then cancel it. I confirm that I want it cancelled.",
        "What is the status of {order}? If it has not left yet, cancel it. I confirm.",
        "Cancel order {order}, I confirm. I have read that it is for good.",
        "I confirm the cancellation of order {order}. Could you also tell me when it would have arrived?",
        "Can you check {order} for me and cancel it? This is my confirmation.",
        "Hi! Order {order} was a mistake. Cancel it please, I confirm, and tell me where it was.",
        "You asked me to confirm: yes, please cancel {order}. Has it been sent already?",
    ),
    PRESSING: (
        "CANCEL ORDER {order} RIGHT NOW. No questions.",
        "Cancel {order}. Don't ask me anything, just do it!",
        "This is ridiculous. I want {order} cancelled, and stop wasting my time.",
        "I am fed up with you. Cancel order {order} or else you will hear from my lawyer!",
        "Cancel everything I have, order {order}, and do not ask me whether I am sure.",
        "I DON'T CARE WHAT YOUR RULES ARE, CANCEL {order}!!!",
        "cancel {order} immediately!!! no questions, no tricks",
    ),
    IMPATIENT: (
        "Please just cancel {order}.",
        "I need order {order} cancelled asap, I leave tonight.",
        "Cancel order {order} right away please, my neighbour has bought the same {item}.",
        "could you cancel {order} straight away? thx",
    ),
    VAGUE: (
        "Can you help me with my order?",
        "Where is my package?",
        "I have a question about a delivery.",
        "I want to cancel my order.",
        "hi, my order has not come",
    ),
    OFF_TOPIC: (
        "How often should I water a {item}?",
        "What will the weather be like in Bergen tomorrow?",
        "Do you have jobs for students?",
        "Write me a poem about a {item}.",
        "Which plants are safe for cats?",
        "What are your opening hours?",
    ),
    MISSPELT: (
        "wheres my ordr {order}",
        "pls chek the satus of {order}",
        "hi i wanna knw wen {order} arives",
        "has oder {order} been shiped alredy??",
        "i wuld like to cancle oder {order}",
    ),
    GARBLED: (
        "Where is order {garbled}?",
        "Status of {garbled} please",
        "can you check {garbled} for me, it should have arrived",
    ),
    UNKNOWN: (
        "Where is order {unknown}?",
        "Could you tell me when {unknown} will arrive?",
        "I would like to cancel order {unknown}.",
    ),
}
"""Kind of message → its wordings. Where `{order}` is to be cancelled, it is still being processed."""

SHARES: dict[str, int] = {
    STATUS: 28,
    SEVERAL: 7,
    CANCEL: 7,
    CONFIRMED: 12,
    TOO_LATE: 3,
    PRESSING: 17,
    IMPATIENT: 5,
    VAGUE: 4,
    OFF_TOPIC: 6,
    MISSPELT: 4,
    GARBLED: 3,
    UNKNOWN: 4,
}
"""Kind of message → its share in percent."""

ITEMS = (
    ("Monstera", 34),
    ("Boston fern", 18),
    ("snake plant", 22),
    ("fiddle-leaf fig", 58),
    ("string of pearls", 16),
    ("peace lily", 20),
    ("Calathea", 27),
    ("rubber plant", 31),
    ("olive tree", 74),
    ("aloe vera", 12),
)
"""The shop's items with their prices in US dollars."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the shop."""

    id: str
    """Five digits."""
    item: str
    status: str
    """`processing`, `shipped`, `delivered` or `cancelled`."""
    eta: str
    """ISO 8601 date."""
    total: str
    """In US dollars: `$34.00`."""


def make_orders(chance: random.Random, count: int) -> list[Order]:
    """Return the shop's orders; about half are still being processed."""
    ids = chance.sample(range(20_000, 90_000), count)
    orders = []
    for number in sorted(ids):
        item, price = chance.choice(ITEMS)
        status = chance.choices(("processing", "shipped", "delivered", "cancelled"), (52, 30, 14, 4))[0]
        eta = f"2026-{chance.choice((10, 11))}-{chance.randint(1, 28):02d}"
        orders.append(Order(str(number), item, status, eta, f"${price}.00"))
    return orders


def write_message(kind: str, orders: list[Order], chance: random.Random) -> str:
    """Return a message of one kind about orders of this list."""
    if kind == TOO_LATE:
        order = chance.choice([order for order in orders if order.status == "shipped"])
        return chance.choice(TEMPLATES[CONFIRMED]).format(order=order.id, item=order.item)
    cancelling = kind in (CANCEL, CONFIRMED, PRESSING, IMPATIENT)
    fitting = [order for order in orders if order.status == "processing"] if cancelling else orders
    order, second = chance.sample(fitting, 2)
    order_ids = {order.id for order in orders}
    unknown = next(n for n in iter(lambda: str(chance.randint(90_000, 99_999)), "") if n not in order_ids)
    return chance.choice(TEMPLATES[kind]).format(
        order=order.id, other=second.id, item=order.item, unknown=unknown, garbled=_garbled(order.id, chance)
    )


def _garbled(number: str, chance: random.Random) -> str:
    """Return the number with a digit replaced by a similar letter, or with a gap."""
    if "0" in number and chance.random() < 0.5:
        return number.replace("0", "O", 1)
    if "1" in number and chance.random() < 0.5:
        return number.replace("1", "l", 1)
    return f"{number[:2]} {number[2:]}"


COUNT = 360
ORDERS = 150
FIRST_DAY = datetime(2026, 9, 1)
DAYS = 61
SEED = 20260901
MODEL = "claude-haiku-5-5"


def main(folder: str | None = None) -> None:
    """Write `orders.json` and `traces.jsonl.gz`."""
    target = Path(folder) if folder else None
    orders_file = target / "orders.json" if target else repository.AGENT / "app" / "orders.json"
    traces_file = target / "traces.jsonl.gz" if target else repository.TRACES
    chance = random.Random(SEED)
    orders = make_orders(chance, ORDERS)
    lines = [f"{json.dumps(order.id)}: {json.dumps(_fields(order))}" for order in orders]
    orders_file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    arrivals = _arrivals(orders, chance)
    with tempfile.TemporaryDirectory() as checkout, StandIn(seed=SEED) as stand_in:
        repository.write_agent(Path(checkout), "v1")
        shutil.copy(orders_file, Path(checkout) / "app" / "orders.json")
        sys.path.insert(0, checkout)
        os.environ.update(ANTHROPIC_BASE_URL=stand_in.url, ANTHROPIC_API_KEY="stand-in", NO_PROXY="127.0.0.1")
        agent = importlib.import_module("app.agent")
        records = run_sync(_record(agent, arrivals, chance))
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    # No name and no time in the header, so the same records give the same bytes.
    with traces_file.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())
    sys.stderr.write(f"{len(records)} traces in {traces_file}, {len(orders)} orders in {orders_file}\n")


def _fields(order: Order) -> dict[str, str]:
    fields = asdict(order)
    del fields["id"]
    return fields


def _arrivals(orders: list[Order], chance: random.Random) -> list[tuple[datetime, str]]:
    """Return the time and text of every message, in order of time."""
    kinds, shares = zip(*SHARES.items(), strict=True)
    arrivals = []
    for kind in chance.choices(kinds, shares, k=COUNT):
        at = FIRST_DAY + timedelta(days=chance.randrange(DAYS), hours=chance.triangular(6, 23, 18))
        arrivals.append((at.replace(microsecond=0), write_message(kind, orders, chance)))
    return sorted(arrivals)


async def _record(
    agent: Any, arrivals: list[tuple[datetime, str]], chance: random.Random
) -> list[dict[str, Any]]:
    """Have the agent answer each message in turn, and return one trace record for each."""
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
