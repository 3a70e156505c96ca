"""What all agents of the shop are: an object with `await agent.run(messages=[…])`.

A planner decides which tools to call for a question, and a writer makes the answer of what they gave. With a
real model both are one loop over its API; here they are rules, so that the example needs no key. To use the
real one, replace `plan` and `write` by that loop: whatever fills `Reply` will do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Call = tuple[str, dict[str, Any]]
Tools = Mapping[str, Callable[..., Any]]


@dataclass
class Reply:
    """What an agent answered, and how."""

    text: str
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)


@dataclass
class ShopAgent:
    """An agent with some tools."""

    model: str
    """Named for its price; nothing asks it here."""
    tools: Tools
    plan: Callable[[str], list[Call]]
    write: Callable[[Sequence[Any]], str]

    async def run(self, messages: list[dict[str, Any]]) -> Reply:
        """Answer the last message of a customer."""
        question = messages[-1]["content"]
        calls = []
        for name, args in self.plan(question):
            calls.append({"name": name, "args": args, "result": self.tools[name](**args)})
        text = self.write([call["result"] for call in calls])
        used = {"input_tokens": len(json.dumps([messages, calls])) // 4, "output_tokens": len(text) // 4}
        return Reply(text, calls, used)


def writer(fields: Sequence[str], brief: bool, nothing: str) -> Callable[[Sequence[Any]], str]:
    """Writes these fields of what the last tool gave, a brief one the first alone; `nothing` without any."""

    def write(results: Sequence[Any]) -> str:
        if not results:
            return nothing
        rows = results[-1] if isinstance(results[-1], list) else [results[-1]]
        return lines(rows, [name for name in fields[: 1 if brief else None] if rows and name in rows[0]])

    return write


def lines(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> str:
    """Rows as a list that a customer reads: `name: Aurora 700, price: 249`."""
    shown = (", ".join(f"{name.replace('_', ' ')}: {row[name]}" for name in fields) for row in rows)
    return "\n".join(f"- {line}" for line in shown) or "I found nothing."
