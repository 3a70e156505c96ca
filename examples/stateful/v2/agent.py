"""The next version: one look-up less, and shipped orders are cancelled as well."""

import re

import tools


def run_agent(text: str) -> str:
    order_id = re.search(r"\d+", text)[0]
    if "cancel" in text.lower():
        tools.cancel_order(order_id)
    return f"Order {order_id} is {tools.get_order(order_id)}."
