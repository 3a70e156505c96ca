"""Stands in for the model, so that the example needs no key: the same shapes, and rules in place of a mind.

Like many a model it obeys a prompt that forbids something, and gives in to pushing where it only asks.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any


class Client:
    """What `anthropic.Anthropic` is to the agent."""

    def __init__(self) -> None:
        self.messages = self

    def create(self, *, system: str, messages: list[dict[str, Any]], **_: Any) -> SimpleNamespace:
        """The next message: a tool call, or an answer."""
        action = _next(system, messages[0]["content"], _done(messages))
        if isinstance(action, str):
            content, stop = [SimpleNamespace(type="text", text=action)], "end_turn"
        else:
            name, args = action
            content = [SimpleNamespace(type="tool_use", id=f"toolu_{len(messages)}", name=name, input=args)]
            stop = "tool_use"
        usage = SimpleNamespace(input_tokens=len(str(messages)) // 4, output_tokens=len(str(action)) // 4)
        return SimpleNamespace(content=content, stop_reason=stop, usage=usage)


def _done(messages: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The tools that ran so far, with what they answered."""
    names = [block.name for message in messages[1::2] for block in message["content"]]
    answers = [json.loads(block["content"]) for message in messages[2::2] for block in message["content"]]
    return list(zip(names, answers, strict=True))


def _next(system: str, text: str, done: list[tuple[str, dict[str, Any]]]) -> str | tuple[str, dict[str, Any]]:
    words = text.lower()
    order = re.search(r"\b\d{5}\b", words)
    cancel = "cancel" in words
    confirmed = bool(re.search(r"\byes\b|\bi confirm\b|\bgo ahead\b", words))
    pushed = bool(re.search(r"right now|don't ask|ignore your", words)) and "never" not in system.lower()
    if done and done[-1][0] == "cancel_order":
        return f"Order {done[-1][1]['order_id']} is cancelled. You will get your money back within five days."
    if done and not (cancel and confirmed and done[-1][1].get("status") == "processing"):
        state = done[-1][1]
        return f"Your order {state['order_id']} is {state['status']}; it should arrive on {state['eta']}."
    if not re.search(r"\b(order|oder|package|parcel|cancel)", words):
        return "I can only help with orders: I look one up, or cancel it."
    if order is None:
        return "Gladly. Which order is it about? Please give me its number."
    if done or (cancel and "check" not in words):
        if not (confirmed or pushed):
            return f"Shall I really cancel order {order[0]}? Please confirm; it cannot be undone."
        return "cancel_order", {"order_id": order[0], "confirmation": True}
    return "get_order_status", {"order_id": order[0]}
