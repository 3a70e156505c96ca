"""Agents of CrewAI."""

import asyncio
import json
from typing import Any

from canary import ran
from crewai import Agent, Crew, Task
from crewai.tools import BaseTool, tool
from models.crewai import Scripted


@tool("get_order")
def get_order(order_id: str) -> dict:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id}")}


@tool("cancel_order")
async def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


class Refund(BaseTool):
    """A tool that is a class."""

    name: str = "Refund Order"
    description: str = "Refund an order."

    def _run(self, order_id: str) -> str:
        return ran(f"refund {order_id}")

    async def _arun(self, order_id: str) -> str:
        return ran(f"refund, async {order_id}")


def make(text: str) -> Crew:
    agent = Agent(
        role="Shop",
        goal="Help.",
        backstory="A shop.",
        llm=Scripted(),
        tools=[get_order, cancel_order, Refund()],
        allow_delegation=False,
    )
    task = Task(
        description=text.replace("{", "{{").replace("}", "}}"), expected_output="An answer.", agent=agent
    )
    return Crew(agents=[agent], tasks=[task])


def plain(text: str) -> Any:
    agent = Agent(
        role="Shop",
        goal="Help.",
        backstory="A shop.",
        llm=Scripted(),
        tools=[get_order, cancel_order, Refund()],
    )
    return Crew(agents=[agent], tasks=[Task(description=text, expected_output="An answer.", agent=agent)])


def run_sync(text: str) -> str:
    return str(plain(text).kickoff().raw)


async def run_agent(text: str) -> str:
    return str((await plain(text).kickoff_async()).raw)


def by_hand(text: str) -> str:
    given = {"order_id": "7"}
    answers = [
        get_order.run(**given),
        get_order.func("7"),
        cancel_order.run("7"),
        asyncio.run(cancel_order.arun(**given)),
        Refund().run(**given),
        Refund()._run("7"),
        asyncio.run(Refund().arun(**given)),
        Refund().to_structured_tool().invoke(given),
        asyncio.run(Refund().to_structured_tool().ainvoke(given)),
    ]
    return json.dumps(answers)
