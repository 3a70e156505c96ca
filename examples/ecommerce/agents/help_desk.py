"""Answers what is written down: policies, opening hours, a ticket for what is not."""

from __future__ import annotations

import re
from typing import Any

from agents.base import Call, ShopAgent, writer

_POLICIES: dict[str, dict[str, Any]] = {
    "warranty": {"policy": "warranty", "period": "24 months", "source": "terms, section 7"},
    "payment": {"policy": "payment", "methods": "card, invoice", "source": "terms, section 4"},
}


def search_policies(topic: str) -> dict[str, Any]:
    """A policy by its topic."""
    return _POLICIES[topic]


def get_opening_hours(day: str) -> dict[str, Any]:
    """When somebody answers the telephone."""
    return {"day": day, "hours": "8:00 to 18:00" if day != "Sunday" else "closed"}


def create_ticket(subject: str) -> dict[str, Any]:
    """Hand it to a person (here: pretend to)."""
    return {"ticket_id": "T-4471", "status": "open", "subject": subject}


def get_ticket(ticket_id: str) -> dict[str, Any]:
    """How far a ticket is."""
    return {"ticket_id": ticket_id, "status": "answered", "subject": "a broken lamp"}


def create_help_desk_agent(model: str = "shop-model", brief: bool = False) -> ShopAgent:
    """An agent; a brief one names the policy or ticket and says no more."""
    tools = (search_policies, get_opening_hours, create_ticket, get_ticket)
    fields = ("policy", "ticket_id", "day", "period", "methods", "hours", "status", "subject", "source")
    write = writer(fields, brief, "Hello! What can I help you with?")
    return ShopAgent(model, {tool.__name__: tool for tool in tools}, _plan, write)


def _plan(question: str) -> list[Call]:
    text = question.lower()
    ticket = re.search(r"\bT-\d+\b", question)
    if ticket:
        return [("get_ticket", {"ticket_id": ticket[0]})]
    if "warranty" in text:
        return [("search_policies", {"topic": "warranty"})]
    if "pay" in text:
        return [("search_policies", {"topic": "payment"})]
    if "sunday" in text or "open" in text:
        return [("get_opening_hours", {"day": "Sunday" if "sunday" in text else "Monday"})]
    if "broken" in text:
        return [("search_policies", {"topic": "warranty"}), ("create_ticket", {"subject": "a broken lamp"})]
    return []
