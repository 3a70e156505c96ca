"""An MCP server of a ticket system: `list_tickets` returns a page of three tickets."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

OPEN = {"billing": 7, "search": 2, "login": 4, "export": 8, "mobile": 3, "api": 5}
server = MCPServer("tickets")


@server.tool()
def list_tickets(team: str, page: int) -> dict[str, list[str] | bool]:
    """Return a page of a team's open tickets, and whether there are more pages."""
    tickets = [f"{team}-{number}" for number in range(1, OPEN[team] + 1)]
    return {"tickets": tickets[page * 3 - 3 : page * 3], "more": page * 3 < len(tickets)}


if __name__ == "__main__":
    server.run("stdio")
