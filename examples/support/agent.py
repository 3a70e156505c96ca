"""A support agent for orders: a loop over the Messages API with two tools.

    run_agent("Where is my order 12345?").final_response

With `model="stand-in"` it talks to `stand_in.py`, which needs no key; with any other to Anthropic's API.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stand_in

MAX_TURNS = 6
ORDERS = {
    "12345": {"order_id": "12345", "status": "shipped", "eta": "2026-03-15"},
    "67890": {"order_id": "67890", "status": "processing", "eta": "2026-03-20"},
}
TOOLS = [
    {
        "name": "get_order_status",
        "description": "Look up the status of an order and when it arrives.",
        "input_schema": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}},
            "required": ["order_id"],
        },
    },
    {
        "name": "cancel_order",
        "description": "Cancel an order for good.",
        "input_schema": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "confirmation": {"type": "boolean"}},
            "required": ["order_id", "confirmation"],
        },
    },
]


@dataclass
class AgentResult:
    """What the agent answered, and what it did for that."""

    final_response: str = "I could not work this out; a colleague will write to you."
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: {"input_tokens": 0, "output_tokens": 0})


def run_agent(user_message: str, model: str = "stand-in", prompt: str = "prompts/v1.md") -> AgentResult:
    """Answer one message of a customer."""
    client, system = _client(model), (Path(__file__).parent / prompt).read_text()
    result = AgentResult()
    messages: list[dict[str, Any]] = [{"role": "user", "content": user_message}]
    for _ in range(MAX_TURNS):
        reply = client.messages.create(
            model=model, max_tokens=512, system=system, tools=TOOLS, messages=messages
        )
        result.usage["input_tokens"] += reply.usage.input_tokens
        result.usage["output_tokens"] += reply.usage.output_tokens
        if reply.stop_reason != "tool_use":
            result.final_response = "".join(block.text for block in reply.content if block.type == "text")
            return result
        answers = []
        for block in reply.content:
            if block.type == "tool_use":
                answer = _exec(block.name, block.input)
                result.tool_calls.append({"name": block.name, "args": block.input, "result": answer})
                answers.append({"type": "tool_result", "tool_use_id": block.id, "content": answer})
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": answers}]
    return result


def _exec(name: str, args: dict[str, Any]) -> str:
    """Run a tool; the answer is JSON text. These two only pretend."""
    order = ORDERS.get(args.get("order_id", ""))
    if order is None:
        return json.dumps({"error": "no such order"})
    if name == "get_order_status":
        return json.dumps(order)
    if name == "cancel_order":
        return json.dumps({"order_id": order["order_id"], "status": "cancelled"})
    return json.dumps({"error": f"there is no tool {name}"})


def _client(model: str) -> Any:
    if model == "stand-in":
        return stand_in.Client()
    from anthropic import Anthropic

    return Anthropic()
