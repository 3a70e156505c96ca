"""Agents of Google's ADK."""

from typing import Any

from canary import ran
from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.adk.tools import BaseTool, ToolContext, google_search
from google.genai import types
from models.google_adk import Scripted


def get_order(order_id: str, verbose: bool = False) -> dict:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id}")}


async def cancel_order(order_id: str, tool_context: ToolContext) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


class Refund(BaseTool):
    """A tool that is a class."""

    def __init__(self) -> None:
        super().__init__(name="refund", description="Refund an order.")

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: Any, tool_context: Any) -> Any:
        return {"refund": ran("refund")}


def make() -> Agent:
    def inner(order_id: str) -> str:
        """Look something up."""
        return ran(f"inner {order_id}")

    return Agent(name="shop", model=Scripted(), tools=[get_order, cancel_order, Refund(), inner])


async def run(agent: Agent, text: str) -> str:
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    answer = ""
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        if event.is_final_response() and event.content:
            answer = event.content.parts[0].text or ""
    return answer


async def run_agent(text: str) -> str:
    return await run(make(), text)


async def run_team(text: str) -> str:
    return await run(Agent(name="front", model=Scripted(), sub_agents=[make()]), text)


async def hosted(text: str) -> str:
    return await run(
        Agent(name="search", model=Scripted(model="gemini-2.5-flash"), tools=[google_search]), text
    )
