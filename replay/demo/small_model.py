"""What the stand-in answers as an assistant with tools.

It behaves as a small model does: it follows its system prompt mostly, gives way under pressure, takes
what a prompt leaves out as left to itself, and does not always do the same. What it does depends on the
prompt's sentences (`Policy`), the tools that are offered, the conversation, its size (`claude-haiku-…` is
more easily led than `claude-opus-…`) and chance. Nothing depends on which customer or order it is.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replaydiff.replay.demo.reading import Reading, read

LOOK_UP, CANCEL = "get_order_status", "cancel_order"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a system prompt asks for, as far as a small model takes it in."""

    confirm: bool
    """Ask before cancelling."""
    confirm_firmly: bool
    """… also when the customer presses."""
    look_up_first: bool
    """Look an order up before anything else."""
    cancel_at_once: bool
    """Cancel without further steps once the customer has confirmed."""
    orders_only: bool

    @classmethod
    def of(cls, system: str) -> Policy:
        """Read a system prompt."""
        text = " ".join(system.lower().split())
        return cls(
            confirm="confirm" in text,
            confirm_firmly=bool(
                re.search(
                    r"(never|not) cancel[^.]*confirm[^.]*(however|even (if|when|though)|no matter)", text
                )
            ),
            look_up_first=bool(re.search(r"(always|first)[^.]*look[^.]*(before|first)", text)),
            cancel_at_once=bool(
                re.search(r"(once|when|as soon as)[^.]*confirmed[^.]*(at once|right away)", text)
            ),
            orders_only=bool(re.search(r"not about (an order|orders)", text)),
        )


@dataclass(frozen=True, slots=True)
class Nature:
    """How easily a model of some size is led."""

    gives_way: tuple[float, float, float]
    """Chance of cancelling unasked, by pressure, where the prompt asks for a confirmation but not firmly."""
    gives_way_firmly: float
    """The same under much pressure where the prompt is firm."""
    skips: float
    """Chance of leaving out a look-up that the prompt does not insist on."""
    reads_garbled: float
    """Chance of reading a misspelt number instead of asking for it."""
    swaps: float
    """Chance of beginning with the last of several orders."""


_NATURES = {
    "haiku": Nature(
        gives_way=(0.0, 0.4, 0.96), gives_way_firmly=0.01, skips=0.97, reads_garbled=0.7, swaps=0.15
    ),
    "sonnet": Nature(
        gives_way=(0.0, 0.2, 0.7), gives_way_firmly=0.005, skips=0.8, reads_garbled=0.85, swaps=0.1
    ),
    "opus": Nature(
        gives_way=(0.0, 0.05, 0.25), gives_way_firmly=0.0, skips=0.4, reads_garbled=0.95, swaps=0.05
    ),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool the model wants to call."""

    name: str
    args: dict[str, Any]


def answer(request: dict[str, Any], chance: random.Random) -> str | list[Call]:
    """What the model does next: text, or the tools it calls.

    Args:
        request: the body of `POST /v1/messages`.
        chance: decides what is not settled.
    """
    messages = request["messages"]
    text = _last_words(messages)
    tools = {tool["name"] for tool in request.get("tools") or ()}
    turn = _Turn(
        reading=read(text),
        policy=Policy.of(_text(request.get("system") or "")),
        nature=_nature(request["model"]),
        tools=tools,
        results=_results(messages),
        chance=chance,
    )
    return turn.next()


@dataclass(frozen=True, slots=True)
class _Turn:
    reading: Reading
    policy: Policy
    nature: Nature
    tools: set[str]
    results: list[tuple[Call, dict[str, Any]]]
    """What was called so far for this message, with what it answered."""
    chance: random.Random

    def next(self) -> str | list[Call]:
        reading = self.reading
        if not reading.about_orders:
            return self._elsewhere()
        orders = self._in_order(reading.orders)
        if not orders and reading.garbled:
            # Once looked up, it stays with its reading.
            if not self.results and self.chance.random() > self.nature.reads_garbled:
                return self._say("I cannot make out the order number. Could you send me its five digits?")
            orders = (reading.garbled,)
        if not orders:
            return self._say(
                "Of course. Could you tell me the number of your order? It has five digits.",
                "Happy to help! What is the order number? It has five digits.",
            )
        wanted = [call for order in orders if (call := self._look_up(order))]
        if wanted:
            return wanted if self.chance.random() < 0.5 and len(wanted) > 1 else wanted[:1]
        wanted = [call for order in orders if (call := self._cancel(order))]
        return wanted[:1] if wanted else " ".join(self._report(order) for order in orders)

    def _in_order(self, orders: tuple[str, ...]) -> tuple[str, ...]:
        """Several orders mostly as they are named; once begun with another, it stays with that."""
        begun = [call.args.get("order_id") for call, _ in self.results]
        if begun and begun[0] in orders:
            return tuple(sorted(orders, key=lambda order: (order not in begun, orders.index(order))))
        swap = len(orders) > 1 and self.chance.random() < self.nature.swaps
        return orders[::-1] if swap else orders

    def _look_up(self, order: str) -> Call | None:
        if LOOK_UP not in self.tools or self._found(LOOK_UP, order) is not None:
            return None
        if self._found(CANCEL, order) is not None:
            return None
        reading, policy = self.reading, self.policy
        settled = reading.cancel and (reading.confirmed or not policy.confirm)
        if settled and not policy.look_up_first and self._skips():
            return None
        return Call(LOOK_UP, {"order_id": order})

    def _skips(self) -> bool:
        """Everything it needs is there and nothing tells it to look first: whether it goes ahead."""
        return self.policy.cancel_at_once or self.chance.random() < self.nature.skips

    def _cancel(self, order: str) -> Call | None:
        reading = self.reading
        if CANCEL not in self.tools or not reading.cancel or self._found(CANCEL, order) is not None:
            return None
        known = self._found(LOOK_UP, order)
        if known is not None and known.get("status") != "processing":
            return None
        return Call(CANCEL, {"order_id": order, "confirmation": True}) if self._may_cancel() else None

    def _may_cancel(self) -> bool:
        reading, policy = self.reading, self.policy
        if reading.confirmed or not policy.confirm:
            return True
        if policy.confirm_firmly:
            return reading.pressure == 2 and self.chance.random() < self.nature.gives_way_firmly
        return self.chance.random() < self.nature.gives_way[reading.pressure]

    def _found(self, name: str, order: str) -> dict[str, Any] | None:
        for call, result in self.results:
            if call.name == name and call.args.get("order_id") == order:
                return result
        return None

    def _report(self, order: str) -> str:
        cancelled, known = self._found(CANCEL, order), self._found(LOOK_UP, order)
        facts = _facts(known)
        if cancelled is not None:
            if "error" in cancelled:
                return self._say(f"I could not cancel order {order}: {cancelled['error']}.")
            refund = cancelled.get("refund")
            told = f"{facts} " if facts else ""
            return self._say(
                f"{told}I have cancelled order {order}. You will get {refund} back.",
                f"{told}Order {order} is cancelled, and {refund} will be refunded.",
            )
        if known is None:
            return self._ask(order, "")
        if "error" in known:
            return self._say(
                f"I cannot find order {order}. Could you check the number?",
                f"There is no order {order} here. Would you check the number for me?",
            )
        if not self.reading.cancel:
            return self._say(facts, f"{facts} Is there anything else I can do?")
        if known["status"] == "processing":
            return self._ask(order, f"{facts} ")
        why = "has already been cancelled" if known["status"] == "cancelled" else "can no longer be cancelled"
        return self._say(f"{facts} It {why}.", f"{facts} I am sorry, it {why}.")

    def _ask(self, order: str, facts: str) -> str:
        return self._say(
            f"{facts}Do you want me to cancel order {order}? Please confirm, and I will.",
            f"{facts}Before I cancel order {order}: please confirm that you want this.",
        )

    def _elsewhere(self) -> str:
        if self.policy.orders_only:
            return self._say(
                "I am sorry, I can only help with orders. Is there an order I can look up for you?",
                "That is not something I can help with, sorry. I can look up an order for you.",
            )
        return self._say("I am not sure about that, but I will gladly tell you more about our plants!")

    def _say(self, *ways: str) -> str:
        return self.chance.choice(ways)


def _facts(known: dict[str, Any] | None) -> str:
    """What was looked up, in a sentence."""
    if not known or "error" in known:
        return ""
    order, item, status, eta = (known.get(key) for key in ("order_id", "item", "status", "eta"))
    return {
        "processing": f"Order {order} ({item}) is being processed and should arrive on {eta}.",
        "shipped": f"Order {order} ({item}) has shipped and should arrive on {eta}.",
        "delivered": f"Order {order} ({item}) was delivered on {eta}.",
        "cancelled": f"Order {order} ({item}) was cancelled.",
    }.get(str(status), f"Order {order} is {status}.")


def _nature(model: str) -> Nature:
    return next((nature for name, nature in _NATURES.items() if name in model), _NATURES["sonnet"])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block.get("type") == "text")


def _last_words(messages: Sequence[dict[str, Any]]) -> str:
    """What the customer said last: the last user turn that is not tool results."""
    return next(
        (text for m in reversed(messages) if m["role"] == "user" and (text := _text(m["content"]))), ""
    )


def _results(messages: Sequence[dict[str, Any]]) -> list[tuple[Call, dict[str, Any]]]:
    """The calls since the customer's last words, each with its result."""
    start = max(
        (i for i, m in enumerate(messages) if m["role"] == "user" and _text(m["content"])), default=-1
    )
    blocks = [b for m in messages[start + 1 :] if not isinstance(m["content"], str) for b in m["content"]]
    calls = {b["id"]: Call(b["name"], b["input"]) for b in blocks if b.get("type") == "tool_use"}
    return [
        (calls[block["tool_use_id"]], _decoded(block.get("content")))
        for block in blocks
        if block.get("type") == "tool_result" and block.get("tool_use_id") in calls
    ]


def _decoded(content: Any) -> dict[str, Any]:
    text = _text(content or "")
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    return result if isinstance(result, dict) else {"error": text or "no answer"}
