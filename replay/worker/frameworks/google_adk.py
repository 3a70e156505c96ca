"""Google's Agent Development Kit: a tool is called through `BaseTool.run_async`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import calls, replies
from . import base, calling

CONTROL = (
    "google.adk.tools.transfer_to_agent_tool", "google.adk.tools.exit_loop_tool",
    "google.adk.tools.set_model_response_tool",
)  # fmt: skip
"""Modules of tools that only steer the agent."""


class GoogleADK(base.Framework):
    """The adapter."""

    name = "google-adk"
    distribution = "google-adk"
    supported = ("2",)
    packages = ("google.adk.",)
    required = ("google.adk.tools.base_tool", "google.adk.models.base_llm")

    def install(self, module: Any) -> None:
        """Replace the call sites of one of the modules."""
        if module.__name__ == "google.adk.models.base_llm":
            self.replace_methods(module.BaseLlm, "generate_content_async", self._see_request)
            return
        self.after(module.BaseTool, "__init__", self._see_tool)
        self.answer_methods(module.BaseTool, self._read, "run_async")

    def _see_tool(self, tool: Any) -> None:
        if not _steers(tool):
            self.see(tool.name, getattr(tool, "func", type(tool)))

    def _read(self, _: Any, tool: Any, *, args: Any, **__: Any) -> calls.PatchedCall | None:
        name = str(tool.name)
        return (
            self.steers(name)
            if _steers(tool)
            else calling.FrameworkCall(name, replies.read_args(args), id(tool))
        )

    async def _see_request(
        self, original: Callable[..., Any], model: Any, llm_request: Any, *args: Any, **kwargs: Any
    ) -> Any:
        tools = getattr(llm_request.config, "tools", None) or ()
        self.refuse_hosted(
            [tool.model_dump(exclude_none=True) for tool in tools if hasattr(tool, "model_dump")]
        )
        async for response in original(model, llm_request, *args, **kwargs):
            yield response


def _steers(tool: Any) -> bool:
    """Return whether a tool only steers the agent: hands over, ends a loop, or shapes its answer."""
    homes = (type(tool).__module__, str(getattr(getattr(tool, "func", None), "__module__", "")))
    return any(home in CONTROL for home in homes)


ADAPTER = GoogleADK
