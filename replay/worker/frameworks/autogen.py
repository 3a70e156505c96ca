"""AutoGen: a tool is called through `run_json`, a workbench of another kind through `call_tool`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from .. import answers, replies
from . import base, calling

HANDOFF = "autogen_agentchat.base._handoff"
"""Where the tool is defined by which one agent hands over to another."""
STATIC = "autogen_core.tools._static_workbench"
"""Workbenches that call `run_json` of the tools that they are given."""


class AutoGen(base.Framework):
    """The adapter."""

    name = "autogen"
    distribution = "autogen-core"
    supported = ("0.7",)
    required = ("autogen_core.tools._base", "autogen_core.tools._workbench")

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules."""
        if module.__name__ == "autogen_core.tools._workbench":
            self._types = module
            called = {"call_tool": (self._call_tool,) * 2, "call_tool_stream": (self._call_tool_stream,) * 2}
            self.replace_methods(module.Workbench, called)
            return
        self.replace(module.BaseTool, "__init__", self._make)
        names = {"run_json": (self._run_json,) * 2, "run_json_stream": (self._run_json_stream,) * 2}
        run = {"run": (self._run,) * 2, "run_stream": (self._run_stream,) * 2}
        self.replace_methods(module.BaseTool, {**names, **run})

    def _make(self, original: Callable[..., Any], tool: Any, *args: Any, **kwargs: Any) -> None:
        original(tool, *args, **kwargs)
        if not _hands_over(tool):
            self.seen.add(str(tool.name))

    async def _run_json(
        self, original: Callable[..., Any], tool: Any, args: Any, *more: Any, **kwargs: Any
    ) -> Any:
        call = _read(tool, replies.read_args(args))
        return await self.answer_async(call, lambda: original(tool, args, *more, **kwargs))

    async def _run(
        self, original: Callable[..., Any], tool: Any, args: Any, *more: Any, **kwargs: Any
    ) -> Any:
        call = _read(tool, _passed_args(args))
        return await self.answer_async(call, lambda: original(tool, args, *more, **kwargs))

    async def _run_json_stream(
        self, original: Callable[..., Any], tool: Any, args: Any, *more: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        call = _read(tool, replies.read_args(args), stream=True)
        async for item in self.answer_stream(call, lambda: original(tool, args, *more, **kwargs)):
            yield item

    async def _run_stream(
        self, original: Callable[..., Any], tool: Any, args: Any, *more: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        call = _read(tool, _passed_args(args), stream=True)
        async for item in self.answer_stream(call, lambda: original(tool, args, *more, **kwargs)):
            yield item

    async def _call_tool(
        self,
        original: Callable[..., Any],
        workbench: Any,
        name: str,
        arguments: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        def run() -> Any:
            return original(workbench, name, arguments, *args, **kwargs)

        if original.__module__ == STATIC:
            return await run()
        call = calling.FrameworkCall(
            name,
            replies.read_args(arguments),
            workbench,
            convert=lambda answer: self._result(name, answer),
            fail=calling.RecordedError,
        )
        try:
            return await self.answer_async(call, run)
        except calling.RecordedError as error:
            return self._result(name, error.text, is_error=True)

    async def _call_tool_stream(
        self,
        original: Callable[..., Any],
        workbench: Any,
        name: str,
        arguments: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        if original.__module__ == STATIC:
            async for item in original(workbench, name, arguments, *args, **kwargs):
                yield item
            return
        yield await self._call_tool(original, workbench, name, arguments, *args, **kwargs)

    def _result(self, name: str, answer: Any, *, is_error: bool = False) -> Any:
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        content = [self._types.TextResultContent(content=text)]
        return self._types.ToolResult(name=name, result=content, is_error=is_error)


def _read(tool: Any, args: dict[str, Any], *, stream: bool = False) -> calling.FrameworkCall:
    function = getattr(tool, "_func", None)
    convert = answers.converter(function) if callable(function) else lambda answer: answer
    return calling.FrameworkCall(
        str(tool.name),
        args,
        tool,
        convert=(lambda answer: [convert(answer)]) if stream else convert,
        untouched=_hands_over(tool),
    )


def _passed_args(args: Any) -> dict[str, Any]:
    """Return the arguments out of a tool's model of them, those that were passed."""
    dumped = args.model_dump(exclude_unset=True) if hasattr(args, "model_dump") else args
    return replies.read_args(dumped)


def _hands_over(tool: Any) -> bool:
    return str(getattr(getattr(tool, "_func", None), "__module__", "")) == HANDOFF


ADAPTER = AutoGen
