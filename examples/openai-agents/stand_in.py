"""Takes the place of a model, so that the example needs no key: rules that read the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agents import Handoff, Model, ModelResponse, Tool, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)  # the SDK would send its own traces to OpenAI


class StandIn(Model):
    """A model of the Agents SDK."""

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Handoff[Any, Any]],
        tracing: Any,
        **_: Any,
    ) -> ModelResponse:
        """Return the next tool call, the next handoff, or the answer."""
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        text = next(item["content"] for item in items if item.get("role") == "user")
        names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
        results = {
            names[item["call_id"]]: item["output"]
            for item in items
            if item.get("type") == "function_call_output"
        }
        answer = _next(text.lower(), [tool.name for tool in tools], handoffs, results)
        output: Any
        if isinstance(answer, str):
            part = ResponseOutputText(type="output_text", text=answer, annotations=[])
            output = ResponseOutputMessage(
                type="message", id="m", role="assistant", status="completed", content=[part]
            )
        else:
            output = ResponseFunctionToolCall(
                type="function_call",
                name=answer[0],
                arguments=json.dumps(answer[1]),
                call_id=f"call_{len(items)}",
            )
        size = len(str(items)) // 4
        usage = Usage(requests=1, input_tokens=size, output_tokens=20, total_tokens=size + 20)
        return ModelResponse(output=[output], usage=usage, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Never called: `Runner.run`, which the agent uses, does not stream."""
        raise NotImplementedError


def _next(
    text: str, tools: Sequence[str], handoffs: Sequence[Handoff[Any, Any]], results: dict[str, str]
) -> str | tuple[str, dict[str, Any]]:
    subject = next((name for name in ("invoice", "parcel") if name in text), None)
    number = re.search(r"\d{4}", text)
    if subject is None or number is None:
        return "I can help with invoices and parcels. Please give me its number."
    lookup, arguments = f"get_{subject}", {"number": number[0]}
    if lookup not in results:
        if lookup in tools:
            return lookup, arguments
        return next(one.tool_name for one in handoffs if subject in one.agent_name), {}
    if "copy" in text and "send_copy" not in results:
        return "send_copy", arguments
    sent = " A copy is on its way to you." if "copy" in text else ""
    return f"{subject.capitalize()} {number[0]}: {results[lookup]}.{sent}"
