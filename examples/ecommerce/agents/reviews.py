"""Reads what customers wrote: a product's reviews, what they come to, and what people complain of."""

from __future__ import annotations

from typing import Any

from agents.base import Call, ShopAgent, writer

_REVIEWS: list[dict[str, Any]] = [
    {"author": "Mirela", "rating": 5, "text": "Warm, and it does not scratch.", "date": "2026-10-30"},
    {"author": "Tomas", "rating": 3, "text": "Smaller than I thought.", "date": "2026-11-04"},
]


def list_reviews(product: str) -> list[dict[str, Any]]:
    """The reviews of a product, newest last."""
    return [{**review, "product": product} for review in _REVIEWS]


def summarise_reviews(product: str) -> dict[str, Any]:
    """What they come to."""
    return {"product": product, "rating": 4.0, "count": 2, "praise": "warmth", "complaint": "size"}


def find_complaints(category: str) -> list[dict[str, Any]]:
    """What is complained of most."""
    return [{"product": "Fjord Blanket", "complaint": "size", "count": 14, "category": category}]


def submit_review(product: str, rating: int) -> dict[str, Any]:
    """Write one (here: pretend to)."""
    return {"product": product, "rating": rating, "status": "published"}


def create_reviews_agent(model: str = "shop-model", brief: bool = False) -> ShopAgent:
    """An agent; a brief one leaves out all but who or what it is about."""
    tools = (list_reviews, summarise_reviews, find_complaints, submit_review)
    fields = ("product", "author", "rating", "text", "date", "count", "praise", "complaint", "status")
    write = writer(fields, brief, "Which product is it about?")
    return ShopAgent(model, {tool.__name__: tool for tool in tools}, _plan, write)


def _plan(question: str) -> list[Call]:
    text = question.lower()
    product = "Hush Mini" if "hush" in text else "Fjord Blanket"
    if "stars" in text:
        stars = next((int(sign) for sign in text if sign.isdigit()), 5)
        return [("submit_review", {"product": product, "rating": stars})]
    if "complain" in text:
        return [("find_complaints", {"category": "home"})]
    if "worth" in text:
        return [("list_reviews", {"product": product}), ("summarise_reviews", {"product": product})]
    if "say about" in text or "review" in text:
        return [("list_reviews", {"product": product})]
    return []
