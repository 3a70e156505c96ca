"""What an agent asked its model, as the gateway recorded it, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replaydiff.replay.gateway.answers import read_answer
from replaydiff.replay.messages import read_messages
from replaydiff.replay.model import ModelCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    summary: str
    """Model, size, what it took: `claude-haiku-4-5: 3 messages, 2 tools; 1,000 tokens read, 10 written …`."""
    asked: str
    """The last thing the model was told; empty where that cannot be read."""
    said: str
    """What it said, or why nothing came."""


def in_words(call: ModelCall) -> Asked:
    """A request as a person reads it."""
    request: Any = call.request if isinstance(call.request, dict) else {}
    turns = read_messages(request.get("messages", request.get("input"))) or ()
    tools = request.get("tools")
    sizes = [
        _counted(len(turns), "message") if turns else "",
        _counted(len(tools), "tool") if isinstance(tools, list) and tools else "",
    ]
    took = [
        f"{call.usage.input_tokens:,} tokens read, {call.usage.output_tokens:,} written"
        if call.usage
        else "",
        f"${call.cost_usd:.4f}" if call.cost_usd is not None else "",
        f"{call.latency_ms:.0f} ms" if call.latency_ms is not None else "",
    ]
    asked = turns[-1].text if turns else request.get("input")
    said = "" if call.response is None else read_answer(call.content_type or "", call.response).text
    failed = call.error or (f"status {call.status}" if (call.status or 0) >= 400 else "")
    return Asked(
        summary=f"{call.model or call.path}: "
        + "; ".join(filter(None, (", ".join(filter(None, part)) for part in (sizes, took)))),
        asked=asked if isinstance(asked, str) else "",
        said=failed or said or ("" if call.tool_calls else call.response or ""),
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
