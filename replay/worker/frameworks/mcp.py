"""The Model Context Protocol: a client calls tools through `ClientSession.call_tool`, over any transport.

The session itself is real: it connects, and lists the server's tools. What a tool answered, or that it
failed, is given as a `CallToolResult`, which is what a server makes of both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .. import replies
from . import base, calling


class ToolFailed(Exception):  # noqa: N818 - it is only used to carry a recorded error to where it is returned
    """A recorded error, which a server answers with."""


class MCP(base.Framework):
    """The adapter."""

    name = "mcp"
    distribution = "mcp"
    supported = ("1", "2")
    required = ("mcp.client.session",)

    def install(self, module: Any) -> None:
        """Replace the call sites."""
        self._types = module.types
        session = module.ClientSession
        answered = (self._call_tool, self._call_tool)
        self.replace_methods(session, {"call_tool": answered})
        sender = next(cls for cls in session.__mro__ if "send_request" in vars(cls))
        self.replace(sender, "send_request", self._send)

    async def _call_tool(
        self,
        original: Callable[..., Any],
        session: Any,
        name: str,
        arguments: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        self.seen.add(name)
        return await self._answered(
            session, name, arguments, lambda: original(session, name, arguments, *args, **kwargs)
        )

    async def _send(
        self, original: Callable[..., Any], session: Any, request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Answer a call that was sent without `call_tool`."""
        inner = getattr(request, "root", request)
        if not isinstance(inner, self._types.CallToolRequest):
            return await original(session, request, *args, **kwargs)
        called = inner.params
        return await self._answered(
            session, called.name, called.arguments, lambda: original(session, request, *args, **kwargs)
        )

    async def _answered(self, session: Any, name: str, arguments: Any, run: Callable[[], Any]) -> Any:
        call = calling.FrameworkCall(
            name, replies.read_args(arguments), session, convert=self._result, fail=ToolFailed
        )
        try:
            return await self.answer_async(call, run)
        except ToolFailed as failed:
            return self._call_result({"content": [_text(str(failed))], "isError": True})

    def _result(self, answer: Any) -> Any:
        """Return a recorded answer as the result of a call."""
        if isinstance(answer, Mapping) and isinstance(answer.get("content"), list):
            return self._call_result(answer)
        if isinstance(answer, list) and answer and all(_is_block(block) for block in answer):
            return self._call_result({"content": answer})
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        more = {"structuredContent": dict(answer)} if isinstance(answer, Mapping) else {}
        return self._call_result({"content": [_text(text)], **more})

    def _call_result(self, data: Mapping[str, Any]) -> Any:
        return self._types.CallToolResult.model_validate(data)


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


ADAPTER = MCP
