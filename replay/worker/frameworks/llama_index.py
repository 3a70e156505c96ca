"""LlamaIndex: a tool is called through `call` or `acall`; its callbacks see the recorded answer."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from .. import answers
from . import base, calling

HANDOFF = "llama_index.core.agent.workflow."
"""Where the tool is defined by which one agent hands over to another."""
PLAIN = ("BaseTool.", "AsyncBaseTool.", "BaseToolAsyncAdapter.", "FunctionTool.__call__")
"""Methods that call `call` of the same tool or of the one inside."""


class LlamaIndex(base.Framework):
    """The adapter."""

    name = "llama-index"
    distribution = "llama-index-core"
    supported = ("0.14",)
    required = ("llama_index.core.tools.types", "llama_index.core.tools.function_tool")

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules."""
        if module.__name__ == "llama_index.core.tools.function_tool":
            self._function_tool = module.FunctionTool
            self.replace(module.FunctionTool, "__init__", self._make)
            return
        self._output = module.ToolOutput
        called = (self._called, self._called_async)
        self.replace_methods(module.BaseTool, {"call": called, "acall": called, "__call__": called})

    def _make(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> None:
        original(tool, *args, **kwargs)
        if not self._hands_over(tool):
            self.seen.add(str(tool.metadata.get_name()))

    def _called(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> Any:
        if self._is_plain(original, tool):
            return original(tool, *args, **kwargs)
        call = self._read(original, tool, args, kwargs)
        answered = self.answer(call, lambda: _Ran(original(tool, *args, **kwargs)))
        if isinstance(answered, _Ran):
            return answered.value
        if isinstance(tool, self._function_tool):
            return original(_answering(tool, answered), *args, **kwargs)
        return self._tool_output(tool, args, kwargs, answered)

    async def _called_async(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> Any:
        if self._is_plain(original, tool):
            return await original(tool, *args, **kwargs)
        call = self._read(original, tool, args, kwargs)

        async def run() -> Any:
            return _Ran(await original(tool, *args, **kwargs))

        answered = await self.answer_async(call, run)
        if isinstance(answered, _Ran):
            return answered.value
        if isinstance(tool, self._function_tool):
            return await original(_answering(tool, answered), *args, **kwargs)
        return self._tool_output(tool, args, kwargs, answered)

    def _read(
        self, original: Callable[..., Any], tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> calling.FrameworkCall:
        function = getattr(tool, "_fn", None)
        if function is None:
            call_args = calling.passed(original, (tool, *args), kwargs)
            call_args.pop(next(iter(call_args), ""), None)
        else:
            call_args = calling.passed(function, args, kwargs) if args else dict(kwargs)
        call_args.pop(getattr(tool, "ctx_param_name", None) or "", None)
        convert = _as_recorded if function is None else answers.converter(function)
        return calling.FrameworkCall(str(tool.metadata.get_name()), call_args, tool, convert=convert)

    def _tool_output(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any) -> Any:
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return self._output(
            tool_name=tool.metadata.get_name(),
            content=text,
            raw_input={"args": args, "kwargs": kwargs},
            raw_output=answer,
        )

    def _is_plain(self, original: Callable[..., Any], tool: Any) -> bool:
        if self._hands_over(tool):
            self.steering.add(str(tool.metadata.get_name()))
            return True
        return original.__qualname__.startswith(PLAIN)

    def _hands_over(self, tool: Any) -> bool:
        function = getattr(tool, "_real_fn", None) or getattr(tool, "_fn", None)
        return str(getattr(function, "__module__", "")).startswith(HANDOFF)


class _Ran:
    """What a tool returned that ran."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _answering(tool: Any, answer: Any) -> Any:
    """Return a copy of a tool whose function gives this answer."""

    def function(*_: Any, **__: Any) -> Any:
        return answer

    async def function_async(*_: Any, **__: Any) -> Any:
        return answer

    answering = copy.copy(tool)
    answering._fn, answering._async_fn = function, function_async
    return answering


def _as_recorded(answer: Any) -> Any:
    return answer


ADAPTER = LlamaIndex
