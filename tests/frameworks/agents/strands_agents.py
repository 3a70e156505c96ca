"""Agents of Strands."""

import json
from collections.abc import AsyncIterator
from typing import Any

from canary import ran
from models.strands import Scripted
from strands import Agent, tool
from strands.types.tools import AgentTool


@tool
def get_order(order_id: str, verbose: bool = False) -> dict:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id}")}


@tool
async def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


class Refund(AgentTool):
    """A tool that is a class."""

    tool_name = "refund"
    tool_type = "python"
    tool_spec = {  # noqa: RUF012 - Strands reads it so
        "name": "refund",
        "description": "Refund.",
        "inputSchema": {"json": {"type": "object", "properties": {"order_id": {"type": "string"}}}},
    }

    async def stream(self, tool_use: Any, invocation_state: Any, **kwargs: Any) -> AsyncIterator[Any]:
        yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": ran("refund")}]}


def make() -> Agent:
    @tool
    def inner(order_id: str) -> str:
        """Look something up."""
        return ran(f"inner {order_id}")

    return Agent(model=Scripted(), tools=[get_order, cancel_order, Refund(), inner], callback_handler=None)


def run_sync(text: str) -> str:
    return str(make()(text))


async def run_agent(text: str) -> str:
    return str(await make().invoke_async(text))


async def by_hand(text: str) -> str:
    return json.dumps([get_order("7"), await cancel_order(order_id="7")])
