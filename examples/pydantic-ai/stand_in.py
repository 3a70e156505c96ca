"""Takes the place of a model, so that the example needs no key: rules that read prompt and conversation."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo

SUBJECTS = {"descal": "descale", "tank": "water", "water": "water", "grind": "grinder", "coarse": "grinder"}


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Return the next tool call; the answer is a call, too, because it has a type."""
    parts: list[Any] = [part for message in messages for part in message.parts]
    text = next(part.content for part in parts if part.part_kind == "user-prompt").lower()
    results = {part.tool_name: part.content for part in parts if part.part_kind == "tool-return"}
    name, args = _next(text, "only for those" in (info.instructions or ""), results)
    name = name or info.output_tools[0].name
    return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=f"call_{len(messages)}")])


def _next(text: str, sparing: bool, results: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    subject = next((subject for word, subject in SUBJECTS.items() if word in text), None)
    if "search_manual" not in results and (subject or not sparing):
        return "search_manual", {"query": subject or "general"}
    if "broken" in text and "open_ticket" not in results:
        return "open_ticket", {"summary": text}
    if "open_ticket" in results:
        reply = f"I am sorry. The workshop has your ticket {results['open_ticket']['ticket']}."
    elif subject:
        reply = results["search_manual"]
    else:
        reply = "You are welcome. Ask me anything about your machine."
    return None, {"text": reply, "topic": subject or "other"}
