"""Strands Agents: a tool is called through `AgentTool.stream`; a decorated function also as what it was."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from .. import answers, replies
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
            self.replace(module.DecoratedFunctionTool, "__call__", self._direct)
            self.replace(module.DecoratedFunctionTool, "__init__", self._make)
        else:
            self.replace_methods(module.AgentTool, {"stream": (self._stream, self._stream)})

    def _make(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> None:
        original(tool, *args, **kwargs)
        self.see(tool.tool_name, tool._tool_func)

    def _direct(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> Any:
        function = tool._tool_func
        call_args = calling.passed(function, args, kwargs)
        call = calling.FrameworkCall(
            str(tool.tool_name), call_args, tool, convert=answers.converter(function)
        )
        if inspect.iscoroutinefunction(function):
            return self.answer_async(call, lambda: original(tool, *args, **kwargs))
        return self.answer(call, lambda: original(tool, *args, **kwargs))

    async def _stream(
        self, original: Callable[..., Any], tool: Any, tool_use: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        def run() -> Any:
            return original(tool, tool_use, *args, **kwargs)

        call = calling.FrameworkCall(
            str(tool_use["name"]),
            replies.read_args(tool_use.get("input")),
            tool,
            convert=lambda answer: [self._result(tool_use, answer)],
            fail=calling.RecordedError,
            untouched=original.__module__.startswith(ANSWER_SHAPING_MODULES),
        )
        try:
            async for event in self.answer_stream(call, run):
                yield event
        except calling.RecordedError as error:
            text = error.text if error.text.startswith("Error: ") else f"Error: {error.text}"
            yield self._result(tool_use, {"status": "error", "content": [{"text": text}]})

    def _result(self, tool_use: Mapping[str, Any], answer: Any) -> Any:
        """Return a recorded answer as the event of a tool's result."""
        result = {"status": "success", **answer} if _is_result(answer) else {"status": "success"}
        if isinstance(answer, list) and answer and all(_is_block(block) for block in answer):
            result["content"] = answer
        elif not _is_result(answer):
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            result["content"] = [{"text": text}]
        return self._event({**result, "toolUseId": tool_use["toolUseId"]})


def _is_result(answer: Any) -> bool:
    return isinstance(answer, Mapping) and isinstance(answer.get("content"), list)


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and bool({"text", "json", "image", "document"} & value.keys())


ADAPTER = Strands
