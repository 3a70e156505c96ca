"""Support for a coffee machine, built with Pydantic AI; `run_agent` is the entrypoint."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, AgentRunResult
from pydantic_ai.models.function import FunctionModel
from stand_in import respond

MANUAL = {
    "descale": "Fill the tank with descaler and hold both buttons for five seconds.",
    "water": "The tank holds 1.8 litres. Use filtered water.",
    "grinder": "Turn the ring to the left for a finer grind.",
}


class Reply(BaseModel):
    """What the customer gets."""

    text: str
    topic: str


def search_manual(query: str) -> str:
    """Return the manual's section about a subject."""
    return next((text for word, text in MANUAL.items() if word in query), "Nothing found.")


def open_ticket(summary: str) -> dict[str, str]:
    """Report a defect to the workshop."""
    return {"ticket": f"T-{len(summary)}", "summary": summary}


async def converse(text: str, prompt: str) -> AgentRunResult[Reply]:
    """Return the whole run that answers `text`."""
    agent = Agent(
        FunctionModel(respond),
        output_type=Reply,
        instructions=Path(prompt).read_text(),
        tools=[search_manual, open_ticket],
    )
    return await agent.run(text)


async def run_agent(text: str, prompt: str = "prompts/first.md") -> str:
    """Answer a customer."""
    return (await converse(text, prompt)).output.text
