"""Counts a team's open tickets, which it reads from an MCP server. Rules take the place of a model."""

from __future__ import annotations

import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVER = StdioServerParameters(command=sys.executable, args=["../server.py"])


async def run_agent(text: str) -> str:
    """Answer a question about a team's tickets."""
    team = text.rstrip("?").split()[-1]
    tickets: list[str] = []
    async with stdio_client(SERVER) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        more, page = True, 1
        while more:
            result = await session.call_tool("list_tickets", {"team": team, "page": page})
            answer = result.structured_content or {}
            tickets += answer["tickets"]
            more, page = answer["more"], page + 1
    return f"The team {team} has {len(tickets)} open tickets."
