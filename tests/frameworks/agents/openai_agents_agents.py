"""Agents of OpenAI Agents."""

import json
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunContextWrapper,
    Runner,
    Usage,
    WebSearchTool,
    function_tool,
    handoff,
)
from canary import ran
from models.openai_agents import Scripted
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel


class Order(BaseModel):
    status: str


@function_tool
def get_order(context: RunContextWrapper[Any], order_id: str, verbose: bool = False) -> Order:
    """Look an order up."""
    return Order(status=ran(f"get_order {order_id}"))


@function_tool
async def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


@function_tool(failure_error_function=None)
def strict(order_id: str) -> str:
    """A tool whose errors end the run."""
    return ran(f"strict {order_id}")


@function_tool(failure_error_function=lambda context, error: f"failed: {error}")
def open_(order_id: str) -> str:
    """A tool whose errors the model sees."""
    return ran(f"open {order_id}")


async def invoke(context: Any, arguments: str) -> Any:
    return ran(f"raw {arguments}")


raw = FunctionTool(
    name="raw",
    description="A tool of its own making.",
    params_json_schema={"type": "object", "properties": {}, "additionalProperties": False},
    on_invoke_tool=invoke,
)


def closure_tools(prefix: str) -> list[Any]:
    @function_tool(name_override="inner")
    def one(order_id: str) -> str:
        """Look something up."""
        return ran(f"{prefix} {order_id}")

    return [one]


def make() -> Agent:
    helper = Agent(name="helper", model=Scripted())
    return Agent(
        name="shop",
        model=Scripted(),
        tools=[
            get_order,
            cancel_order,
            strict,
            open_,
            raw,
            *closure_tools("shop"),
            helper.as_tool("ask_helper", "Ask the helper."),
        ],
    )


agent = make()


async def run_agent(text: str) -> Any:
    return await Runner.run(agent, text)


def run_sync(text: str) -> Any:
    return Runner.run_sync(make(), text)


async def with_handoff(text: str) -> Any:
    """The first agent hands over to one that calls the tools."""
    second = make()
    first = Agent(name="front", model=Front(), handoffs=[handoff(second, tool_name_override="to_shop")])
    return await Runner.run(first, text)


class Front(Model):
    """Hands over at once."""

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        call = ResponseFunctionToolCall(
            type="function_call", name="to_shop", arguments="{}", call_id="handoff"
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


async def by_hand(text: str) -> str:
    """The function that a tool was made of, called past the framework."""
    return json.dumps([await cancel_order.__wrapped__("7"), get_order.__wrapped__(None, "7").status])


async def hosted(text: str) -> Any:
    searching = Agent(name="search", model=Scripted())
    searching.tools = [WebSearchTool()]
    return await Runner.run(searching, text)


def make_hosted() -> Any:
    Agent(name="search", model=Scripted(), tools=[WebSearchTool()])
    return run_agent
