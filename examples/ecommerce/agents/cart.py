"""Looks after the basket: what is in it, more of it, less of it, a voucher, what it comes to."""

from __future__ import annotations

import re
from typing import Any

from agents.base import Call, ShopAgent, writer

_BASKET: list[dict[str, Any]] = [
    {"item": "Fjord Blanket", "quantity": 2, "price": 59},
    {"item": "Hush Mini", "quantity": 1, "price": 119},
]


def view_cart() -> list[dict[str, Any]]:
    """What is in the basket."""
    return _BASKET


def add_to_cart(item: str, quantity: int) -> dict[str, Any]:
    """Put something into it (here: pretend to)."""
    return {"item": item, "quantity": quantity, "total": 237 + 59 * quantity}


def remove_from_cart(item: str) -> dict[str, Any]:
    """Take something out (here: pretend to)."""
    return {"item": item, "quantity": 0, "total": 118}


def apply_voucher(code: str) -> dict[str, Any]:
    """A voucher's worth."""
    return {"item": f"voucher {code}", "discount": 23.7, "total": 213.3}


def estimate_delivery(country: str) -> dict[str, Any]:
    """What delivery costs and how long it takes."""
    return {"item": f"delivery to {country}", "price": 9, "days": 4}


def create_cart_agent(model: str = "shop-model", brief: bool = False) -> ShopAgent:
    """An agent; a brief one names the items alone."""
    tools = (view_cart, add_to_cart, remove_from_cart, apply_voucher, estimate_delivery)
    fields = ("item", "quantity", "price", "discount", "days", "total")
    write = writer(fields, brief, "What shall I do with your basket?")
    return ShopAgent(model, {tool.__name__: tool for tool in tools}, _plan, write)


def _plan(question: str) -> list[Call]:
    text = question.lower()
    number = re.search(r"\b(\d+)\b", text)
    voucher = re.search(r"\b[A-Z]{4,}\d+\b", question)
    if voucher:
        return [("view_cart", {}), ("apply_voucher", {"code": voucher[0]})]
    if "deliver" in text:
        return [("estimate_delivery", {"country": "Norway" if "norway" in text else "home"})]
    if "blanket" in text and re.search(r"\b(put|add)\b", text):
        return [("add_to_cart", {"item": "Fjord Blanket", "quantity": int(number[1]) if number else 1})]
    if re.search(r"\b(remove|take out|drop)\b", text):
        return [("remove_from_cart", {"item": "Hush Mini"})]
    return [("view_cart", {})] if "basket" in text else []
