"""A server of the Model Context Protocol whose tools leave a mark: `python mcp_server.py [PORT]`."""

import sys

from canary import ran
from mcp.server.mcpserver import MCPServer

server = MCPServer("shop")


@server.tool()
def get_order(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": ran(f"get_order {order_id}")}


@server.tool()
def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    return ran(f"cancel_order {order_id}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
