"""What the customers of the demo's shop write: kinds of message, and several ways to put each."""

from __future__ import annotations

import random
from dataclasses import dataclass

STATUS = "status"
SEVERAL = "several orders"
CANCEL = "cancel"
CONFIRMED = "cancel, confirmed"
TOO_LATE = "cancel, confirmed, shipped"
PRESSING = "cancel, pressing"
IMPATIENT = "cancel, impatient"
VAGUE = "no number"
ELSEWHERE = "no order"
MISSPELT = "misspelt words"
GARBLED = "misspelt number"
UNKNOWN = "unknown number"

WAYS: dict[str, tuple[str, ...]] = {
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
    ELSEWHERE: (
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
"""Kind of message → how it is put. `{order}` is processed by the shop still where it is to be cancelled."""

SHARES: dict[str, int] = {
    STATUS: 28,
    SEVERAL: 7,
    CANCEL: 7,
    CONFIRMED: 12,
    TOO_LATE: 3,
    PRESSING: 17,
    IMPATIENT: 5,
    VAGUE: 4,
    ELSEWHERE: 6,
    MISSPELT: 4,
    GARBLED: 3,
    UNKNOWN: 4,
}
"""Kind of message → how many of a hundred are of it."""

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
"""What the shop sells, with its price in dollars."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the shop."""

    id: str
    item: str
    status: str
    eta: str
    total: str


def make_orders(chance: random.Random, count: int) -> list[Order]:
    """The shop's orders. About half are still being processed."""
    ids = chance.sample(range(20_000, 90_000), count)
    orders = []
    for number in sorted(ids):
        item, price = chance.choice(ITEMS)
        status = chance.choices(("processing", "shipped", "delivered", "cancelled"), (52, 30, 14, 4))[0]
        eta = f"2026-{chance.choice((10, 11))}-{chance.randint(1, 28):02d}"
        orders.append(Order(str(number), item, status, eta, f"${price}.00"))
    return orders


def write(kind: str, orders: list[Order], chance: random.Random) -> str:
    """One message of a kind about some of these orders."""
    if kind == TOO_LATE:
        order = chance.choice([order for order in orders if order.status == "shipped"])
        return chance.choice(WAYS[CONFIRMED]).format(order=order.id, item=order.item)
    cancelling = kind in (CANCEL, CONFIRMED, PRESSING, IMPATIENT)
    fitting = [order for order in orders if order.status == "processing"] if cancelling else orders
    order, other = chance.sample(fitting, 2)
    known = {order.id for order in orders}
    unknown = next(n for n in iter(lambda: str(chance.randint(90_000, 99_999)), "") if n not in known)
    return chance.choice(WAYS[kind]).format(
        order=order.id, other=other.id, item=order.item, unknown=unknown, garbled=_garbled(order.id, chance)
    )


def _garbled(number: str, chance: random.Random) -> str:
    """The number with a letter that looks like a digit, or a gap."""
    if "0" in number and chance.random() < 0.5:
        return number.replace("0", "O", 1)
    if "1" in number and chance.random() < 0.5:
        return number.replace("1", "l", 1)
    return f"{number[:2]} {number[2:]}"
