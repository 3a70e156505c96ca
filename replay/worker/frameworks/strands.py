"""Strands Agents: a tool is called through `AgentTool.stream`; a decorated function also as what it was."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from .. import answers, calls, replies
from . import base, calling

ANSWER_SHAPING_MODULES = ("strands.tools.structured_output",)
"""Modules of tools that do nothing but shape the agent's answer."""


class Strands(base.Framework):
    """The adapter."""

    name = "strands"
    distribution = "strands-agents"
    supported = ("1",)
    packages = ("strands.",)
    required = ("strands.types.tools", "strands.types._events", "strands.tools.decorator")

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules."""
        if module.__name__ == "strands.types._events":
            self._event = module.ToolResultEvent
        elif module.__name__ == "strands.tools.decorator":
            self.answer(module.DecoratedFunctionTool, "__call__", self._read_direct)
            self.after(module.DecoratedFunctionTool, "__init__", self._see_tool)
        else:
            self.answer_methods(module.AgentTool, self._read, "stream")

    def _see_tool(self, tool: Any) -> None:
        self.see(tool.tool_name, tool._tool_func)

    def _read_direct(self, _: Any, tool: Any, *args: Any, **kwargs: Any) -> calls.PatchedCall | None:
        function = tool._tool_func
        return calling.FrameworkCall(
            str(tool.tool_name),
            calling.passed(function, args, kwargs),
            id(tool),
            convert=answers.converter(function),
            awaits=inspect.iscoroutinefunction(function),
        )

    def _read(self, original: Any, tool: Any, tool_use: Any, *_: Any, **__: Any) -> calls.PatchedCall | None:
        name = str(tool_use["name"])
        if original.__module__.startswith(ANSWER_SHAPING_MODULES):
            return self.steers(name)
        return calling.FrameworkCall(
            name,
            replies.read_args(tool_use.get("input")),
            id(tool),
            convert=lambda answer: self._result(tool_use, answer),
            failed=lambda text: self._error(tool_use, text),
        )

    def _error(self, tool_use: Mapping[str, Any], text: str) -> Any:
        content = [{"text": text if text.startswith("Error: ") else f"Error: {text}"}]
        return self._result(tool_use, {"status": "error", "content": content})

    def _result(self, tool_use: Mapping[str, Any], answer: Any) -> Any:
        """Return a recorded answer as the event of a tool's result."""
        result = {"status": "success", **answer} if _is_result(answer) else {"status": "success"}
        if isinstance(answer, list) and answer and all(_is_block(block) for block in answer):
            result["content"] = answer
        elif not _is_result(answer):
            result["content"] = [{"text": calling.text_of(answer)}]
        return self._event({**result, "toolUseId": tool_use["toolUseId"]})


def _is_result(answer: Any) -> bool:
    return isinstance(answer, Mapping) and isinstance(answer.get("content"), list)


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and bool({"text", "json", "image", "document"} & value.keys())


ADAPTER = Strands
