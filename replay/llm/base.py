"""What a model is to the rest of the house: one method, a request in, a reply out.

How a call ends:

    ModelReply       the model answered; `stop` says whether it finished, was cut off, or refused
    ModelFailure     this one call failed for good (after retries, or the request itself is at fault): the
                     caller notes it and goes on
    ReplayError      no call could succeed (key, billing, permission, unknown model): everything stops
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from replaydiff.replay.model import Json, JsonObject, Message, ToolCall, Usage


class Stop(StrEnum):
    """Why the model stopped writing."""

    END = "end"
    """It had finished."""
    TRUNCATED = "truncated"
    """It met `max_tokens`, or the end of its context: the text is incomplete."""
    REFUSED = "refused"
    """It declined to answer. Not an error of the transport."""
    TOOLS = "tools"
    """It asks for tools; `calls` says which."""
    OTHER = "other"
    """A stop sequence, a pause, or a reason that is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool that the model may ask for."""

    name: str
    description: str
    schema: JsonObject
    """JSON Schema of its arguments."""


@dataclass(frozen=True, slots=True)
class ToolRequests:
    """A turn of the model that requests tools, as the provider returned it: sent back as it is."""

    content: Json


@dataclass(frozen=True, slots=True)
class ToolAnswers:
    """What the tools answered to the turn before: its calls, by their ids, with results or errors."""

    calls: tuple[ToolCall, ...]


Turn = Message | ToolRequests | ToolAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model."""

    model: str
    system: str
    messages: tuple[Turn, ...]
    """The conversation; the last turn is the user's, or what tools answered. `system` turns are left out."""
    max_tokens: int
    """The most tokens it may write, thinking included."""
    schema: JsonObject | None = None
    """JSON Schema of the answer; the provider is asked to keep to it, the caller checks that it did."""
    tools: tuple[ToolDefinition, ...] = ()
    extra: JsonObject = field(default_factory=dict)
    """Further parameters of the provider's own."""
    via: str | None = None
    """The base URL of a gateway that this question goes through; None: straight to the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What a model answered."""

    text: str
    """Its text blocks, joined."""
    stop: Stop
    usage: Usage
    cost_usd: float | None
    """By the price table; None where the model's price is not known."""
    attempts: int = 1
    """Requests it took."""
    calls: tuple[ToolCall, ...] = ()
    """The tools it asks for, in order, with the provider's ids."""
    content: Json = None
    """The turn as the provider gave it, for `ToolRequests`."""
    latency_ms: float = 0.0
    """How long the request took that was answered."""


class ModelFailure(Exception):  # noqa: N818 - it reads as what it says of a call
    """One call failed for good. The text is one sentence; other calls may succeed."""

    def __init__(self, text: str, *, passing: bool = True) -> None:
        self.passing = passing
        """The same request might succeed later; False where the request itself is at fault."""
        super().__init__(text)


class Model(Protocol):
    """A provider of models."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once (tries after passing faults included). Any number of calls may run at the same time.

        Raises:
            ModelFailure: this call failed for good.
            ReplayError: no call can succeed; the sentence says what to do.
        """
