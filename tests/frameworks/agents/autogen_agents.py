"""Agents of AutoGen."""

import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.tools import BaseTool, FunctionTool, TextResultContent, ToolResult, Workbench
from canary import ran
from models.autogen import Scripted
from pydantic import BaseModel


def get_order(order_id: str, verbose: bool = False) -> dict:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id}")}


async def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


class Given(BaseModel):
    order_id: str


class Refund(BaseTool[Given, str]):
    """A tool that is a class."""

    def __init__(self) -> None:
        super().__init__(Given, str, "refund", "Refund an order.")

    async def run(self, args: Given, cancellation_token: CancellationToken) -> str:
        return ran(f"refund {args.order_id}")


class Bench(Workbench):
    """A workbench of the user's own."""

    async def list_tools(self) -> Any:
        return [
            {"name": "search", "description": "Search.", "parameters": {"type": "object", "properties": {}}}
        ]

    async def call_tool(
        self, name: str, arguments: Any = None, cancellation_token: Any = None, call_id: Any = None
    ) -> Any:
        return ToolResult(name=name, result=[TextResultContent(content=ran(name))])

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def reset(self) -> None: ...
    async def save_state(self) -> Any:
        return {}

    async def load_state(self, state: Any) -> None: ...


def make() -> AssistantAgent:
    async def inner(order_id: str) -> str:
        """Look something up."""
        return ran(f"inner {order_id}")

    return AssistantAgent(
        "shop",
        Scripted(),
        tools=[get_order, cancel_order, Refund(), FunctionTool(inner, "Look something up.")],
        reflect_on_tool_use=True,
        max_tool_iterations=5,
    )


async def run(agent: AssistantAgent, text: str) -> str:
    return str((await agent.run(task=text)).messages[-1].content)


async def run_agent(text: str) -> str:
    return await run(make(), text)


async def run_bench(text: str) -> str:
    return await run(AssistantAgent("shop", Scripted(), workbench=Bench(), max_tool_iterations=5), text)


async def by_hand(text: str) -> str:
    one, token = Refund(), CancellationToken()
    given = {"order_id": "7"}
    return json.dumps([await one.run_json(given, token), await one.run(Given(**given), token)])
