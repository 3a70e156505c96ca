"""Agents that call the tools of a server, over every transport; the user's message lists the calls."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

SERVER = str(Path(__file__).parent / "mcp_server.py")


@contextlib.asynccontextmanager
async def over_stdio() -> AsyncIterator[ClientSession]:
    command = StdioServerParameters(command=sys.executable, args=[SERVER], env={**os.environ})
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def over_http() -> AsyncIterator[ClientSession]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, SERVER, str(port)], stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(300):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                    break
                await asyncio.sleep(0.1)
            url = f"http://127.0.0.1:{port}/mcp"
            async with (
                streamable_http_client(url) as (read, write, *_),
                ClientSession(read, write) as session,
            ):
                await session.initialize()
                yield session
        finally:
            server.terminate()


async def run(text: str, opened: Any) -> str:
    async with opened as session:
        listed = [tool.name for tool in (await session.list_tools()).tools]
        results = []
        for calls in json.loads(text):
            results += await asyncio.gather(*(session.call_tool(name, given) for name, given in calls))
        return json.dumps([listed, [shown(result) for result in results]])


def shown(result: Any) -> Any:
    assert type(result) is CallToolResult
    return [[block.text for block in result.content], result.is_error, result.structured_content]


async def stdio(text: str) -> str:
    return await run(text, over_stdio())


async def http(text: str) -> str:
    return await run(text, over_http())


async def client(text: str) -> str:
    """The client of a higher level."""
    command = StdioServerParameters(command=sys.executable, args=[SERVER], env={**os.environ})
    return await run(text, Client(stdio_client(command)))


async def sent(text: str) -> str:
    """A request that is sent past `call_tool`."""
    async with over_stdio() as session:
        [[[name, given]]] = json.loads(text)
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=given))
        return json.dumps(shown(await session.send_request(request, CallToolResult)))
