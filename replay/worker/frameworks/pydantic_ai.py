"""Pydantic AI: a tool is called through the `call_tool` of the toolset that has it.

Toolsets around it (prefixes, approvals, filters) stay as they are, and so do validation, retries and output
tools. The call is that of the model: its name with every prefix, its arguments before they were validated.
"""

from __future__ import annotations

import contextvars
import json
from collections.abc import Callable
from typing import Any

from .. import answers, calls, replies
from . import base, calling

PASSING_ON = ("WrapperToolset", "CombinedToolset", "DynamicToolset", "_OutputToolset", "OutputToolset")
"""Toolsets of the framework that hand a call to another one, by the class that they derive from."""
RETRY = "\n\nFix the errors and try again."
"""What the framework puts after an error that the model is to correct."""

_CURRENT: contextvars.ContextVar[tuple[str, dict[str, Any]] | None] = contextvars.ContextVar(
    "replay_pydantic_ai", default=None
)
"""Name and arguments of the call that the model made."""


class PydanticAI(base.Framework):
    """The adapter."""

    name = "pydantic-ai"
    distribution = "pydantic-ai-slim"
    supported = ("2",)
    packages = ("pydantic_ai.",)
    required = (
        "pydantic_ai.toolsets.abstract",
        "pydantic_ai.tool_manager",
        "pydantic_ai.models",
        "pydantic_ai.tools",
    )

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules."""
        if module.__name__ == "pydantic_ai.tools":
            self.after(module.Tool, "__init__", lambda tool: self.see(tool.name, tool.function))
        elif module.__name__ == "pydantic_ai.models":
            self.replace_methods(module.Model, "prepare_request", self._see_request)
        elif module.__name__ == "pydantic_ai.tool_manager":
            self.replace(module.ToolManager, "_raw_execute", self._enter)
            self._retry = module.ModelRetry
        else:
            self.answer_methods(module.AbstractToolset, self._read, "call_tool")

    async def _enter(
        self, original: Callable[..., Any], manager: Any, validated: Any, *args: Any, **kwargs: Any
    ) -> Any:
        call = validated.call
        token = _CURRENT.set((call.tool_name, replies.read_args(call.args)))
        try:
            return await original(manager, validated, *args, **kwargs)
        finally:
            _CURRENT.reset(token)

    def _read(
        self,
        original: Any,
        toolset: Any,
        name: str,
        tool_args: dict[str, Any],
        ctx: Any,  # noqa: ARG002 - may be passed by name
        tool: Any,
        *_: Any,
        **__: Any,
    ) -> calls.PatchedCall | None:
        if _passes_on(type(toolset), original):
            return None
        called, call_args = _CURRENT.get() or (name, tool_args)
        function = getattr(getattr(getattr(tool, "call_func", None), "__self__", None), "function", None)
        return calling.FrameworkCall(
            called,
            call_args,
            id(tool),
            convert=answers.converter(function) if function is not None else calling.as_recorded,
            fail=self._fail,
        )

    def _fail(self, text: str) -> BaseException:
        """Return the exception of a recorded error: one that the model saw was a `ModelRetry`."""
        return calling.recorded_error(_plain_error(text), self._retry)

    def _see_request(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        request = original(model, *args, **kwargs)
        for parameters in request if isinstance(request, tuple) else (request,):
            for tool in getattr(parameters, "native_tools", None) or ():
                if type(tool).__name__ != "ToolSearchTool":
                    name = getattr(tool, "id", None) or getattr(tool, "kind", type(tool).__name__)
                    self.refuse_tool(str(name), "runs at the model's provider")
        return request


def _plain_error(text: str) -> str:
    """Return a recorded error without what the framework puts around it."""
    try:
        wrapped = json.loads(text)
    except ValueError:
        return text.removesuffix(RETRY)
    inner = wrapped.get("error") if isinstance(wrapped, dict) and len(wrapped) == 1 else None
    return inner if isinstance(inner, str) else text


def _passes_on(cls: type, original: Callable[..., Any]) -> bool:
    """Return whether a toolset's method is the framework's own and hands the call to another toolset."""
    return original.__module__.startswith("pydantic_ai.") and any(
        base_.__name__ in PASSING_ON for base_ in cls.__mro__
    )


ADAPTER = PydanticAI
