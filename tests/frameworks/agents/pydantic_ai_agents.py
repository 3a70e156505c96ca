"""Agents of Pydantic AI."""

import dataclasses
from typing import Any

from canary import ran
from models.pydantic_ai import model
from pydantic_ai import Agent, FunctionToolset, RunContext, Tool
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset


@dataclasses.dataclass
class Deps:
    shop: str = "shop"


agent = Agent(model, deps_type=Deps, retries=2)


@agent.tool
async def get_order(ctx: RunContext[Deps], order_id: str, verbose: bool = False) -> dict:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id} {ctx.deps.shop}")}


@agent.tool_plain
def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


class Loud(WrapperToolset[Any]):
    """A toolset of the user's own around another one, which does its own work."""

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        ran(f"loud {name}")
        return await super().call_tool(name, tool_args, ctx, tool)


def make() -> Agent[Any, str]:
    """Tools in closures, toolsets around toolsets."""

    def inner(order_id: str) -> str:
        """Look something up."""
        return ran(f"inner {order_id}")

    def search(query: str) -> str:
        """Search."""
        return ran(f"search {query}")

    toolsets: list[AbstractToolset[Any]] = [
        FunctionToolset([search]).prefixed("web"),
        Loud(FunctionToolset([inner])),
    ]
    return Agent(model, tools=[Tool(cancel_order)], toolsets=toolsets)


async def run_agent(text: str) -> Any:
    return await agent.run(text, deps=Deps())


def run_sync(text: str) -> Any:
    return agent.run_sync(text, deps=Deps())


async def run_made(text: str) -> Any:
    return await make().run(text)


async def hosted(text: str) -> Any:
    from pydantic_ai.capabilities import NativeTool

    return await Agent(model, capabilities=[NativeTool(WebSearchTool())]).run(text)
