"""Looks after orders: what was ordered, where it is, and sending it back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agents.base import Call, ShopAgent, lines

ORDERS: list[dict[str, Any]] = [
    {
        "order_id": "7d1f0c52-6a0b-4f43-9a51-0c5f2f1f7a10",
        "status": "shipped",
        "total": 249,
        "items": "Aurora 700",
        "created_at": "2026-11-02",
        "tracking_number": "TRK-88123",
    },
    {
        "order_id": "1b9e6a34-2c8d-4b7e-8f10-5d2c3e4f5a61",
        "status": "delivered",
        "total": 899,
        "items": "Nimbus laptop",
        "created_at": "2026-10-20",
        "tracking_number": "TRK-77001",
    },
]


def get_user_orders() -> list[dict[str, Any]]:
    """The customer's orders."""
    return ORDERS


def get_order_details(order_id: str) -> dict[str, Any]:
    """One order."""
    return next(order for order in ORDERS if order["order_id"] == order_id)


def get_order_tracking(order_id: str) -> dict[str, Any]:
    """Where it is."""
    return get_order_details(order_id)


def cancel_order(order_id: str) -> dict[str, Any]:
    """Cancel it (here: pretend to)."""
    order = get_order_details(order_id)
    return {"order_id": order_id, "new_status": "cancelled", "refund_amount": order["total"]}


def check_return_eligibility(order_id: str) -> dict[str, Any]:
    """Whether it may be sent back."""
    return {"order_id": order_id, "return_eligible": True}


def initiate_return(order_id: str) -> dict[str, Any]:
    """Send it back (here: pretend to)."""
    return {"order_id": order_id, "return_eligible": True, "label": "RET-3"}


def create_order_management_agent(model: str = "shop-model", check_first: bool = True) -> ShopAgent:
    """An agent; without `check_first` it starts a return before it has asked whether there may be one."""

    def plan(question: str) -> list[Call]:
        return [call for call in _plan(question) if check_first or call[0] != "check_return_eligibility"]

    def write(results: Sequence[Any]) -> str:
        if not results:
            return "Which order is it about?"
        last = results[-1] if isinstance(results[-1], list) else [results[-1]]
        return lines(last, list(last[0]))

    tools = (
        get_user_orders,
        get_order_details,
        get_order_tracking,
        cancel_order,
        check_return_eligibility,
        initiate_return,
    )
    return ShopAgent(model, {tool.__name__: tool for tool in tools}, plan, write)


def _plan(question: str) -> list[Call]:
    text = question.lower()
    named = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)
    order = {"order_id": named[0] if named else ORDERS["laptop" in text]["order_id"]}
    if "return" in text:
        return [("check_return_eligibility", order), ("initiate_return", order)]
    if "cancel" in text:
        return [("cancel_order", order)]
    if "package" in text:
        return [("get_order_tracking", order)]
    if named:
        return [("get_order_details", order)]
    return [("get_user_orders", {})] if "orders" in text else []
