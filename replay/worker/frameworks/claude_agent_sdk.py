"""Claude Agent SDK: Claude Code calls tools of in-process MCP servers by requests that `Query` answers.

A call is recorded as the model names it, `mcp__SERVER__TOOL`. Claude Code's own tools, and MCP servers of
other processes, run in its process, behind the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import calls, replies
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
            self.answer(module.Query, "_handle_sdk_mcp_request", self._read)

    def _create(
        self, original: Callable[..., Any], name: str, version: str = "1.0.0", tools: Any = None
    ) -> Any:
        for tool in tools or ():
            self.see(f"mcp__{name}__{tool.name}", tool.handler)
        return original(name, version, tools)

    def _read(self, _: Any, query: Any, server: str, message: Mapping[str, Any]) -> calls.PatchedCall | None:
        if message.get("method") != "tools/call":
            return None
        called = message.get("params", {})
        return calling.FrameworkCall(
            f"mcp__{server}__{called.get('name')}",
            replies.read_args(called.get("arguments")),
            id(query),
            convert=lambda answer: _response(message, answer),
            failed=lambda text: _response(message, text, is_error=True),
        )


def _response(message: Mapping[str, Any], answer: Any, *, is_error: bool = False) -> dict[str, Any]:
    """Return a recorded answer as the response to a request of JSON-RPC."""
    content = answer.get("content") if isinstance(answer, Mapping) else answer
    if not calling.are_blocks(content):
        content = [{"type": "text", "text": calling.text_of(answer)}]
    return {
        "jsonrpc": "2.0",
        "id": message.get("id"),
        "result": {"content": content, "isError": is_error},
    }


ADAPTER = ClaudeAgentSDK
