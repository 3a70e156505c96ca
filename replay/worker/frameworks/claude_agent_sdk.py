"""Claude Agent SDK: Claude Code calls tools of in-process MCP servers by requests that `Query` answers.

A call is recorded as the model names it, `mcp__SERVER__TOOL`. Claude Code's own tools, and MCP servers of
other processes, run in its process, behind the boundary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .. import replies
from . import base, calling


class ClaudeAgentSDK(base.Framework):
    """The adapter."""

    name = "claude-agent-sdk"
    distribution = "claude-agent-sdk"
    supported = ("0",)
    required = ("claude_agent_sdk", "claude_agent_sdk._internal.query")

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules."""
        if module.__name__ == "claude_agent_sdk":
            self.replace(module, "create_sdk_mcp_server", self._create)
        else:
            self.replace(module.Query, "_handle_sdk_mcp_request", self._handle)

    def _create(
        self, original: Callable[..., Any], name: str, version: str = "1.0.0", tools: Any = None
    ) -> Any:
        for tool in tools or ():
            self.see(f"mcp__{name}__{tool.name}", tool.handler)
        return original(name, version, tools)

    async def _handle(
        self, original: Callable[..., Any], query: Any, server: str, message: Mapping[str, Any]
    ) -> Any:
        if message.get("method") != "tools/call":
            return await original(query, server, message)
        called = message.get("params", {})
        call = calling.FrameworkCall(
            f"mcp__{server}__{called.get('name')}",
            replies.read_args(called.get("arguments")),
            query,
            convert=lambda answer: _response(message, answer),
            fail=calling.RecordedError,
        )
        try:
            return await self.answer_async(call, lambda: original(query, server, message))
        except calling.RecordedError as error:
            return _response(message, error.text, is_error=True)


def _response(message: Mapping[str, Any], answer: Any, *, is_error: bool = False) -> dict[str, Any]:
    """Return a recorded answer as the response to a request of JSON-RPC."""
    content = answer.get("content") if isinstance(answer, Mapping) else answer
    if not (isinstance(content, list) and content and all(_is_block(block) for block in content)):
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        content = [{"type": "text", "text": text}]
    return {
        "jsonrpc": "2.0",
        "id": message.get("id"),
        "result": {"content": content, "isError": is_error},
    }


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


ADAPTER = ClaudeAgentSDK
