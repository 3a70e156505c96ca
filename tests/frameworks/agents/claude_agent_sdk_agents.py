"""Agents of the Claude Agent SDK."""

import os
from typing import Any

from canary import ran
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool


@tool("get_order", "Look an order up.", {"order_id": str})
async def get_order(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": ran(f"get_order {args['order_id']}")}]}


@tool("cancel_order", "Cancel an order.", {"order_id": str})
async def cancel_order(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": ran(f"cancel_order {args['order_id']}")}]}


async def run_agent(text: str) -> str:
    options = ClaudeAgentOptions(
        mcp_servers={"shop": create_sdk_mcp_server("orders", tools=[get_order, cancel_order])},
        allowed_tools=["mcp__shop__get_order", "mcp__shop__cancel_order"],
        max_turns=6,
        setting_sources=[],
        env={"ANTHROPIC_BASE_URL": os.environ["MODEL_URL"], "ANTHROPIC_API_KEY": "k"},
    )
    async for message in query(prompt=text, options=options):
        if isinstance(message, ResultMessage):
            return str(message.result)
    return ""
