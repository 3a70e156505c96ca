"""The agent: a loop over the Messages API with two tools."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path

from anthropic import AsyncAnthropic

from app import orders

MAX_TURNS = 6
SYSTEM = Path(__file__).with_name("prompt.md").read_text(encoding="utf-8")

TOOLS = [
    {
        "name": "get_order_status",
        "description": "Look up an order: what was bought, its status, and when it arrives.",
        "input_schema": {
            "type": "object",
            "properties": {"order_id": {"type": "string", "description": "Five digits."}},
            "required": ["order_id"],
        },
    },
    {
        "name": "cancel_order",
        "description": "Cancel an order for good and refund it.",
        "input_schema": {
            "type": "object",
            "properties": {
                "order_id": {"type": "string", "description": "Five digits."},
                "confirmation": {"type": "boolean", "description": "The customer has confirmed."},
            },
            "required": ["order_id", "confirmation"],
        },
    },
]


@dataclass
class AgentResult:
    """What the agent answered, and how it got there."""

    final_response: str
    tool_calls: list[dict] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: {"input_tokens": 0, "output_tokens": 0})


async def run_agent(user_message: str, model: str = "claude-haiku-5-5") -> AgentResult:
    """Answer one message of a customer."""
    result = AgentResult(
        final_response="I am sorry, I could not work this out. A colleague will write to you."
    )
    messages = [{"role": "user", "content": user_message}]
    for _ in range(MAX_TURNS):
        reply = await _client().messages.create(
            model=model, max_tokens=512, system=SYSTEM, tools=TOOLS, messages=messages
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
                result.tool_calls.append({"name": block.name, "args": block.input})
                answers.append({"type": "tool_result", "tool_use_id": block.id, "content": answer})
        messages += [
            {
                "role": "assistant",
                "content": [block.model_dump(exclude_none=True) for block in reply.content],
            },
            {"role": "user", "content": answers},
        ]
    return result


def _exec(name: str, args: dict) -> str:
    """Run a tool; the answer is JSON text."""
    if name == "get_order_status":
        return json.dumps(orders.status(args["order_id"]))
    if name == "cancel_order":
        return json.dumps(orders.cancel(args["order_id"], args["confirmation"]))
    return json.dumps({"error": f"there is no tool {name}"})


@functools.cache
def _client() -> AsyncAnthropic:
    return AsyncAnthropic()
