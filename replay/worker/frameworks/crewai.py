"""CrewAI: a tool is called through `run` or, in its structured form, through `invoke`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from .. import answers, calls, replies
from . import base, calling

CONTROL = "crewai.tools.agent_tools"
"""Where the tools are defined by which one agent hands work to another."""
TOOLS = "crewai.tools.base_tool"
STRUCTURED = "crewai.tools.structured_tool"
NAMES = "crewai.utilities.string_utils"


class CrewAI(base.Framework):
    """The adapter."""

    name = "crewai"
    distribution = "crewai"
    supported = ("1",)
    required = (NAMES, STRUCTURED, TOOLS)

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules."""
        if module.__name__ == NAMES:
            self._plain_name = module.sanitize_tool_name
            return
        if module.__name__ == STRUCTURED:
            called = (self._invoked, self._invoked_async)
            methods = {"invoke": called, "ainvoke": called}
            self.replace_methods(module.CrewStructuredTool, methods)
            return
        self.replace(module.BaseTool, "model_post_init", self._make)
        called = (self._called, self._called_async)
        self.replace_methods(module.BaseTool, dict.fromkeys(("run", "arun", "_run", "_arun"), called))

    def _make(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> None:
        original(tool, *args, **kwargs)
        if _hands_over(tool):
            return
        self.seen.add(self._plain_name(str(tool.name)))
        function = vars(tool).get("func")
        if isinstance(function, types.FunctionType):
            # Called past the tool, the function asks as well.
            vars(tool)["func"] = self.guarded(
                function,
                lambda args, kwargs: self._read(tool, calling.passed(function, args, kwargs), function),
            )

    def _called(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(tool, "func", None) or tool._run
        limit = tool._claim_usage() if original.__name__ == "run" and self._counts(tool) else None
        if limit:
            return limit
        call_args = calling.passed(function, args, kwargs)
        answer = self.answer(self._read(tool, call_args, function), lambda: original(tool, *args, **kwargs))
        if original.__name__ == "_run" and inspect.iscoroutinefunction(function):
            return answer if inspect.isawaitable(answer) else _later(answer)
        return answer

    async def _called_async(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(tool, "func", None) or tool._run
        limit = tool._claim_usage() if original.__name__ == "arun" and self._counts(tool) else None
        if limit:
            return limit
        call_args = calling.passed(function, args, kwargs)
        return await self.answer_async(
            self._read(tool, call_args, function), lambda: original(tool, *args, **kwargs)
        )

    def _invoked(
        self, original: Callable[..., Any], tool: Any, tool_input: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        tool_input = kwargs.pop("input") if "input" in kwargs else tool_input
        return self.answer(
            self._read(tool, replies.read_args(tool_input), tool.func),
            lambda: original(tool, tool_input, *args, **kwargs),
        )

    async def _invoked_async(
        self, original: Callable[..., Any], tool: Any, tool_input: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        tool_input = kwargs.pop("input") if "input" in kwargs else tool_input
        return await self.answer_async(
            self._read(tool, replies.read_args(tool_input), tool.func),
            lambda: original(tool, tool_input, *args, **kwargs),
        )

    def _read(self, tool: Any, call_args: dict[str, Any], function: Any) -> calling.FrameworkCall:
        """Return the call; the structured form of a tool is the tool itself."""
        original_tool = getattr(tool, "_original_tool", None) or tool
        schema_fields = getattr(getattr(original_tool, "args_schema", None), "model_fields", None) or ()
        call_args = {
            key: value
            for key, value in call_args.items()
            if key != "security_context" or key in schema_fields
        }
        return calling.FrameworkCall(
            self._plain_name(str(tool.name)),
            call_args,
            original_tool,
            convert=answers.converter(function),
            untouched=_hands_over(original_tool),
        )

    def _counts(self, tool: Any) -> bool:
        """Return whether this call is the one that counts towards the tool's limit of usage."""
        return tool.name not in self.live and not calls.is_running(id(tool)) and not _hands_over(tool)


async def _later(answer: Any) -> Any:
    return answer


def _hands_over(tool: Any) -> bool:
    return type(tool).__module__.startswith(CONTROL)


ADAPTER = CrewAI
