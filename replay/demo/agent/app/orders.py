"""The orders of the shop. A file stands in for its database."""

from __future__ import annotations

import json
from pathlib import Path

_ORDERS = json.loads(Path(__file__).with_name("orders.json").read_text(encoding="utf-8"))


def status(order_id: str) -> dict:
    """Return item, status and date of arrival of an order."""
    order = _ORDERS.get(order_id)
    return {"order_id": order_id, **order} if order else {"error": f"order {order_id} not found"}


def cancel(order_id: str, confirmation: bool) -> dict:
    """Cancel an order that has not shipped."""
    order = _ORDERS.get(order_id)
    if not order:
        return {"error": f"order {order_id} not found"}
    if not confirmation:
        return {"error": "the customer has to confirm first"}
    if order["status"] != "processing":
        return {"error": f"order {order_id} is {order['status']} and cannot be cancelled"}
    return {"order_id": order_id, "status": "cancelled", "refund": order["total"]}
