"""Agents of smolagents."""

from typing import Any

from canary import ran
from models.smolagents import Scripted
from smolagents import CodeAgent, LogLevel, Tool, ToolCallingAgent, tool
from smolagents.remote_executors import RemotePythonExecutor


@tool
def get_order(order_id: str) -> dict:
    """Look an order up.

    Args:
        order_id: its id.
    """
    return {"order": ran(f"get_order {order_id}")}


class Cancel(Tool):
    """A tool that is a class."""

    name = "cancel_order"
    description = "Cancel an order."
    inputs = {"order_id": {"type": "string", "description": "its id"}}  # noqa: RUF012 - smolagents reads it so
    output_type = "string"

    def forward(self, order_id: str) -> str:
        return ran(f"cancel_order {order_id}")


def run_agent(text: str) -> Any:
    agent = ToolCallingAgent([get_order, Cancel()], Scripted(), verbosity_level=LogLevel.OFF)
    return agent.run(text)


def run_code(text: str) -> Any:
    agent = CodeAgent([get_order, Cancel()], Scripted(writes_code=True), verbosity_level=LogLevel.OFF)
    return agent.run(text)


def by_hand(text: str) -> str:
    one = Cancel()
    return "; ".join(
        [one(order_id="7"), one("7"), one({"order_id": "7"}), one.forward("7"), get_order("7")["order"]]
    )


class Elsewhere(RemotePythonExecutor):
    """An executor on another machine."""


def run_elsewhere(text: str) -> Any:
    Elsewhere([], None)
    return "it began"
