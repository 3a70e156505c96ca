"""Suggests what a customer may like: for themselves, beside what they have, as a present."""

from __future__ import annotations

import re
from typing import Any

from agents.base import Call, ShopAgent, writer

_GOODS: list[dict[str, Any]] = [
    {"name": "Ember Lamp", "price": 79, "category": "home", "reason": "you bought a blanket"},
    {"name": "Aurora 700", "price": 249, "category": "headphones", "reason": "you liked the Hush Mini"},
    {"name": "Trail Flask", "price": 35, "category": "outdoor", "reason": "it is liked by hikers"},
]


def get_user_profile() -> dict[str, Any]:
    """What the customer bought and liked."""
    return {"bought": ["Fjord Blanket"], "liked": ["Hush Mini"]}


def recommend_for_user(limit: int) -> list[dict[str, Any]]:
    """What fits the profile."""
    return _GOODS[:limit]


def goes_with(product: str) -> list[dict[str, Any]]:
    """What is bought together with it."""
    return [{**_GOODS[0], "reason": f"often bought with {product}"}]


def find_gifts(occasion: str, max_price: float | None = None) -> list[dict[str, Any]]:
    """Presents within a price."""
    fitting = _GOODS if occasion != "wedding" else []
    return [good for good in fitting if max_price is None or good["price"] <= max_price]


def create_recommendations_agent(model: str = "shop-model", brief: bool = False) -> ShopAgent:
    """An agent; a brief one gives names and no reasons."""
    tools = (get_user_profile, recommend_for_user, goes_with, find_gifts)
    write = writer(("name", "price", "category", "reason"), brief, "Who is it for?")
    return ShopAgent(model, {tool.__name__: tool for tool in tools}, _plan, write)


def _plan(question: str) -> list[Call]:
    text = question.lower()
    limit = re.search(r"\$(\d+)", text)
    if "present" in text or "gift" in text:
        price = {"max_price": int(limit[1])} if limit else {}
        return [("find_gifts", {"occasion": "birthday" if "birthday" in text else "any", **price})]
    if "goes with" in text or "go with" in text:
        return [("goes_with", {"product": "Fjord Blanket"})]
    if "recommend" in text or "might i like" in text:
        return [("get_user_profile", {}), ("recommend_for_user", {"limit": 3 if "three" in text else 2})]
    return []
