"""Finds, compares and explains products."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agents.base import Call, ShopAgent, lines

PRODUCTS: list[dict[str, Any]] = [
    {"id": "abc-123", "name": "Aurora 700", "category": "headphones", "price": 249, "rating": 4.6,
     "description": "Wireless, closed headphones", "specs": "30 h battery, 250 g"},
    {"id": "abc-124", "name": "Hush Mini", "category": "headphones", "price": 119, "rating": 4.1,
     "description": "Wireless earbuds", "specs": "8 h battery, 12 g"},
    {"id": "hom-7", "name": "Fjord Blanket", "category": "home", "price": 59, "rating": 4.8,
     "description": "A thick woollen blanket", "specs": "130 x 180 cm"},
]  # fmt: skip


def search_products(query: str, max_price: float | None = None) -> list[dict[str, Any]]:
    """Products whose category is in the query, within the price."""
    found = [product for product in PRODUCTS if product["category"] in query.lower()]
    return [product for product in found if max_price is None or product["price"] <= max_price]


def semantic_search(query: str) -> list[dict[str, Any]]:
    """Products that fit a mood."""
    return [product for product in PRODUCTS if "cosy" in query.lower() and product["category"] == "home"]


def get_product_details(product_id: str) -> dict[str, Any]:
    """One product."""
    return next(product for product in PRODUCTS if product["id"] == product_id)


def compare_products(product_ids: list[str]) -> list[dict[str, Any]]:
    """Some products side by side."""
    return [product for product in PRODUCTS if product["id"] in product_ids]


def get_trending_products(category: str) -> list[dict[str, Any]]:
    """What sells."""
    return PRODUCTS[:2] if category == "electronics" else PRODUCTS[2:]


def create_product_discovery_agent(model: str = "shop-model", brief: bool = False) -> ShopAgent:
    """An agent; a brief one answers with names alone."""

    def write(results: Sequence[Any]) -> str:
        if not results:
            return "Tell me what you are looking for."
        last = results[-1] if isinstance(results[-1], list) else [results[-1]]
        fields = ["name", "price", "rating", "category"]
        if len(last) == 1:
            fields += ["description", "specs"]
        return lines(last, fields[:1] if brief else fields)

    tools = (search_products, semantic_search, get_product_details, compare_products, get_trending_products)
    return ShopAgent(model, {tool.__name__: tool for tool in tools}, _plan, write)


def _plan(question: str) -> list[Call]:
    text = question.lower()
    limit = re.search(r"\$(\d+)", text)
    product = re.search(r"\b[a-z]{3}-\d+\b", text)
    if product:
        return [("get_product_details", {"product_id": product[0]})]
    if "compare" in text:
        return [
            ("search_products", {"query": text}),
            ("compare_products", {"product_ids": ["abc-123", "abc-124"]}),
        ]
    if "cosy" in text:
        return [("semantic_search", {"query": text})]
    if "trending" in text:
        return [("get_trending_products", {"category": "electronics"})]
    if "headphones" in text:
        return [("search_products", {"query": text, **({"max_price": int(limit[1])} if limit else {})})]
    return []
