"""One request to a model that the gateway saw, with its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from replaydiff.replay.model.json import Json
from replaydiff.replay.model.lane import Lane
from replaydiff.replay.model.trace import ToolCall, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """Identified by its trial and its index within it. Headers, and so keys, are no part of it."""

    run_id: str
    item_id: str
    lane: Lane
    trial: int
    index: int
    """From 0, in the order in which the agent asked."""
    api: str
    """`anthropic` or `openai`: whose base URL the agent used."""
    path: str
    """Below the base URL, without its query: `/v1/messages`."""
    request_hash: str
    """Of method, path and body: what is the same request."""
    request: Json
    """The body; text where it is no JSON."""
    status: int | None = None
    """HTTP status; None where no answer came."""
    content_type: str | None = None
    response: str | None = None
    """The body as the agent got it, a stream included; None where it is not whole."""
    error: str | None = None
    """Why there is no whole answer."""
    model: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that the model asked for, with what they answered where a later request of the trial says."""
    usage: Usage | None = None
    cost_usd: float | None = None
    """By the price table; None where tokens or price are not known."""
    latency_ms: float | None = None
    """From the request to the end of the answer."""
    started_at: datetime
