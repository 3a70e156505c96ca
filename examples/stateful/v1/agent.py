"""A support agent without a model: looks an order up before it cancels it."""

import re

import tools


def run_agent(text: str) -> str:
    order_id = re.search(r"\d+", text)[0]
    status = tools.get_order(order_id)
    if "cancel" in text.lower() and status == "open":
        tools.cancel_order(order_id)
        status = tools.get_order(order_id)
    return f"Order {order_id} is {status}."
