"""The stand-in's assistant: reads the customer's message and answers as a small model with tools would.

It follows its system prompt imperfectly: it gives way under pressure, decides by itself what the prompt
leaves open, and varies between trials. Its turn depends on the prompt's sentences (`Policy`), the tools
offered, the conversation, the model's size (`claude-haiku-…` gives way more easily than `claude-opus-…`) and
chance, never on the identity of a customer or an order.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_ORDER = re.compile(r"(?<![\d.,-])\d{5}(?![\d-])")
_GARBLED = re.compile(
    r"(?<!\w)(?=\d*[oOlI]\d|\d[\doOlI]*[oOlI])[\doOlI]{5}(?!\w)|(?<!\d)\d{2}[ -]\d{3}(?!\d)"
)
_CANCEL = re.compile(
    r"\bcan[cs]\w*|\bcnacel\w*|call (it |this |that )?off|don'?t want (it|this|(my |the )?order)", re.I
)
_STATUS = re.compile(
    r"status|satus|stauts|where|track|arriv|eta\b|deliver|shipp|look(ing)? (it )?up|check|when|update"
    r"|how long|sent",
    re.I,
)
_CONFIRMED = re.compile(
    r"\bi('ve| have)? (hereby )?confirm\b|\bconfirmed\b|yes,? (please )?cancel|you have my confirmation"
    r"|this is my confirmation|go ahead and cancel",
    re.I,
)
_HARD = re.compile(
    r"no questions|don'?t ask|do not ask|stop asking|stop wasting|right this (second|minute)|immediately!"
    r"|my lawyer|or else|fed up|ridiculous|i don'?t care|just do it",
    re.I,
)
_SOFT = re.compile(r"\bjust cancel|\basap\b|straight away|right away|\bplease hurry|as soon as", re.I)
_ORDERS = re.compile(r"\b(my |the |an? )?(orders?|ordr|oder|package|parcel|purchase|deliver\w*)\b", re.I)


@dataclass(frozen=True, slots=True)
class MessageReading:
    """A customer's message as the stand-in model understands it."""

    orders: tuple[str, ...]
    """Order numbers in the order of the text, without duplicates."""
    garbled: str | None
    """The number meant by a misspelt one (`48 213`, `482l3`); None if there is none."""
    cancel: bool
    """The customer wants to cancel."""
    status: bool
    """The customer asks for the status of an order."""
    confirmed: bool
    """The customer confirms the cancellation."""
    pressure: int
    """0 none, 1 some, 2 strong: shouting, threats, refusing questions."""
    about_orders: bool
    """The message concerns an order."""


def read_message(text: str) -> MessageReading:
    """Return what a customer's message asks for."""
    orders = tuple(dict.fromkeys(_ORDER.findall(text)))
    match = None if orders else _GARBLED.search(text)
    garbled = match.group() if match else None
    if garbled:
        garbled = garbled.translate(str.maketrans("oOlI", "0011", " -"))
    cancel = bool(_CANCEL.search(text))
    shouted = sum(word.isupper() and len(word) > 2 for word in re.findall(r"[A-Za-z]+", text)) >= 3
    hard = bool(_HARD.search(text)) or shouted
    return MessageReading(
        orders=orders,
        garbled=garbled,
        cancel=cancel,
        status=bool(_STATUS.search(text)),
        confirmed=bool(_CONFIRMED.search(text)),
        pressure=2 if hard else 1 if _SOFT.search(text) else 0,
        about_orders=bool(orders or garbled or cancel or _ORDERS.search(text)),
    )


LOOK_UP, CANCEL = "get_order_status", "cancel_order"


@dataclass(frozen=True, slots=True)
class Policy:
    """The instructions of a system prompt that the stand-in model follows."""

    confirm: bool
    """Ask before cancelling."""
    confirm_firmly: bool
    """Ask before cancelling even under pressure."""
    look_up_first: bool
    """Look an order up before anything else."""
    cancel_at_once: bool
    """Cancel without further steps once the customer has confirmed."""
    orders_only: bool
    """Decline questions that are not about an order."""

    @classmethod
    def of(cls, system: str) -> Policy:
        """Return the policy that a system prompt states."""
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
class Temperament:
    """How a model of one size deviates from its prompt."""

    gives_way: tuple[float, float, float]
    """Probability of cancelling without confirmation, by pressure, under a mild prompt."""
    gives_way_firmly: float
    """The same under strong pressure and a firm prompt."""
    skips: float
    """Probability of skipping a look-up that the prompt does not require."""
    reads_garbled: float
    """Probability of correcting a misspelt number instead of asking."""
    swaps: float
    """Probability of handling several orders in reverse."""


_TEMPERAMENTS = {
    "haiku": Temperament(
        gives_way=(0.0, 0.4, 0.96), gives_way_firmly=0.01, skips=0.97, reads_garbled=0.7, swaps=0.15
    ),
    "sonnet": Temperament(
        gives_way=(0.0, 0.2, 0.7), gives_way_firmly=0.005, skips=0.8, reads_garbled=0.85, swaps=0.1
    ),
    "opus": Temperament(
        gives_way=(0.0, 0.05, 0.25), gives_way_firmly=0.0, skips=0.4, reads_garbled=0.95, swaps=0.05
    ),
}


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool call that the model requests."""

    name: str
    args: dict[str, Any]


def answer(request: dict[str, Any], chance: random.Random) -> str | list[ModelToolCall]:
    """Return the model's next turn: text, or tool calls.

    Args:
        request: the body of `POST /v1/messages`.
        chance: source of the model's randomness.
    """
    messages = request["messages"]
    text = _last_user_text(messages)
    tools = {tool["name"] for tool in request.get("tools") or ()}
    turn = _Turn(
        reading=read_message(text),
        policy=Policy.of(_text(request.get("system") or "")),
        temperament=_temperament(request["model"]),
        tools=tools,
        results=_results(messages),
        chance=chance,
    )
    return turn.next()


@dataclass(frozen=True, slots=True)
class _Turn:
    reading: MessageReading
    policy: Policy
    temperament: Temperament
    tools: set[str]
    results: list[tuple[ModelToolCall, dict[str, Any]]]
    """Tool calls made for this message, each with its result."""
    chance: random.Random

    def next(self) -> str | list[ModelToolCall]:
        reading = self.reading
        if not reading.about_orders:
            return self._off_topic()
        orders = self._in_order(reading.orders)
        if not orders and reading.garbled:
            # After the first look-up the corrected number is kept.
            if not self.results and self.chance.random() > self.temperament.reads_garbled:
                return self._choose("I cannot make out the order number. Could you send me its five digits?")
            orders = (reading.garbled,)
        if not orders:
            return self._choose(
                "Of course. Could you tell me the number of your order? It has five digits.",
                "Happy to help! What is the order number? It has five digits.",
            )
        lookups = [call for order in orders if (call := self._look_up(order))]
        if lookups:
            return lookups if self.chance.random() < 0.5 and len(lookups) > 1 else lookups[:1]
        lookups = [call for order in orders if (call := self._cancel(order))]
        return lookups[:1] if lookups else " ".join(self._report(order) for order in orders)

    def _in_order(self, orders: tuple[str, ...]) -> tuple[str, ...]:
        """Return the orders as named, sometimes reversed; an order that was started stays first."""
        begun = [call.args.get("order_id") for call, _ in self.results]
        if begun and begun[0] in orders:
            return tuple(sorted(orders, key=lambda order: (order not in begun, orders.index(order))))
        swap = len(orders) > 1 and self.chance.random() < self.temperament.swaps
        return orders[::-1] if swap else orders

    def _look_up(self, order: str) -> ModelToolCall | None:
        if LOOK_UP not in self.tools or self._result(LOOK_UP, order) is not None:
            return None
        if self._result(CANCEL, order) is not None:
            return None
        reading, policy = self.reading, self.policy
        settled = reading.cancel and (reading.confirmed or not policy.confirm)
        if settled and not policy.look_up_first and self._skips():
            return None
        return ModelToolCall(LOOK_UP, {"order_id": order})

    def _skips(self) -> bool:
        """Decide whether to cancel without a look-up when the prompt does not require one."""
        return self.policy.cancel_at_once or self.chance.random() < self.temperament.skips

    def _cancel(self, order: str) -> ModelToolCall | None:
        reading = self.reading
        if CANCEL not in self.tools or not reading.cancel or self._result(CANCEL, order) is not None:
            return None
        order_facts = self._result(LOOK_UP, order)
        if order_facts is not None and order_facts.get("status") != "processing":
            return None
        return (
            ModelToolCall(CANCEL, {"order_id": order, "confirmation": True}) if self._may_cancel() else None
        )

    def _may_cancel(self) -> bool:
        reading, policy = self.reading, self.policy
        if reading.confirmed or not policy.confirm:
            return True
        if policy.confirm_firmly:
            return reading.pressure == 2 and self.chance.random() < self.temperament.gives_way_firmly
        return self.chance.random() < self.temperament.gives_way[reading.pressure]

    def _result(self, name: str, order: str) -> dict[str, Any] | None:
        for call, result in self.results:
            if call.name == name and call.args.get("order_id") == order:
                return result
        return None

    def _report(self, order: str) -> str:
        cancelled, order_facts = self._result(CANCEL, order), self._result(LOOK_UP, order)
        facts = _facts(order_facts)
        if cancelled is not None:
            if "error" in cancelled:
                return self._choose(f"I could not cancel order {order}: {cancelled['error']}.")
            refund = cancelled.get("refund")
            prefix = f"{facts} " if facts else ""
            return self._choose(
                f"{prefix}I have cancelled order {order}. You will get {refund} back.",
                f"{prefix}Order {order} is cancelled, and {refund} will be refunded.",
            )
        if order_facts is None:
            return self._ask(order, "")
        if "error" in order_facts:
            return self._choose(
                f"I cannot find order {order}. Could you check the number?",
                f"There is no order {order} here. Would you check the number for me?",
            )
        if not self.reading.cancel:
            return self._choose(facts, f"{facts} Is there anything else I can do?")
        if order_facts["status"] == "processing":
            return self._ask(order, f"{facts} ")
        why = (
            "has already been cancelled"
            if order_facts["status"] == "cancelled"
            else "can no longer be cancelled"
        )
        return self._choose(f"{facts} It {why}.", f"{facts} I am sorry, it {why}.")

    def _ask(self, order: str, facts: str) -> str:
        return self._choose(
            f"{facts}Do you want me to cancel order {order}? Please confirm, and I will.",
            f"{facts}Before I cancel order {order}: please confirm that you want this.",
        )

    def _off_topic(self) -> str:
        if self.policy.orders_only:
            return self._choose(
                "I am sorry, I can only help with orders. Is there an order I can look up for you?",
                "That is not something I can help with, sorry. I can look up an order for you.",
            )
        return self._choose("I am not sure about that, but I will gladly tell you more about our plants!")

    def _choose(self, *ways: str) -> str:
        return self.chance.choice(ways)


def _facts(order_facts: dict[str, Any] | None) -> str:
    """Return a looked-up order as a sentence."""
    if not order_facts or "error" in order_facts:
        return ""
    order, item, status, eta = (order_facts.get(key) for key in ("order_id", "item", "status", "eta"))
    return {
        "processing": f"Order {order} ({item}) is being processed and should arrive on {eta}.",
        "shipped": f"Order {order} ({item}) has shipped and should arrive on {eta}.",
        "delivered": f"Order {order} ({item}) was delivered on {eta}.",
        "cancelled": f"Order {order} ({item}) was cancelled.",
    }.get(str(status), f"Order {order} is {status}.")


def _temperament(model: str) -> Temperament:
    return next(
        (temperament for name, temperament in _TEMPERAMENTS.items() if name in model), _TEMPERAMENTS["sonnet"]
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block.get("type") == "text")


def _last_user_text(messages: Sequence[dict[str, Any]]) -> str:
    """Return the text of the last user turn that is not a tool result."""
    return next(
        (text for m in reversed(messages) if m["role"] == "user" and (text := _text(m["content"]))), ""
    )


def _results(messages: Sequence[dict[str, Any]]) -> list[tuple[ModelToolCall, dict[str, Any]]]:
    """Return the tool calls since the last user text, each with its result."""
    start = max(
        (i for i, m in enumerate(messages) if m["role"] == "user" and _text(m["content"])), default=-1
    )
    blocks = [b for m in messages[start + 1 :] if not isinstance(m["content"], str) for b in m["content"]]
    calls = {b["id"]: ModelToolCall(b["name"], b["input"]) for b in blocks if b.get("type") == "tool_use"}
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
