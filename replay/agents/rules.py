"""What holds for every trial of a version: how long it may take, and what answers its tool calls.

A call is answered by the first of these that applies:

    tape        the item's own recording of the same call
    corpus      another trace's recording of the same call, nearest in time; tools with `effect = "read"` only
    live        the tool itself; only tools named in `live`, and never one with `effect = "write"`
    simulated   a model plays the tool; only with `on_miss = "simulate"`, and never with `effect = "write"`
    miss        nothing does: the trial stops, or the agent gets an error

A tool whose effect nobody named may be one that writes, so no other trace answers for it. The corpus and the
simulator are what the engine hands in; without them there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from replaydiff.replay.model import Item, Json, JsonObject, ServedCall, ToolCall

if TYPE_CHECKING:
    from replaydiff.replay.gateway.recording import Line

OnMiss = Literal["stop", "error", "simulate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A recording of the same call in another trace."""

    recorded: ToolCall
    trace_id: str


class Corpus(Protocol):
    """All recordings there are."""

    def find(self, item: Item, name: str, args: JsonObject, ignore: Collection[str]) -> Elsewhere | None:
        """The answered recording of this call nearest in time to the item, in a trace other than its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a model says a tool answers."""

    result: Json
    cost_usd: float
    """What asking it cost just now; 0 where it was asked before, or where its price is not known."""


class Simulator(Protocol):
    """A model that plays tools."""

    async def play(
        self, item: Item, name: str, args: JsonObject, nth: int, before: Sequence[ServedCall]
    ) -> Simulated:
        """What the tool answers when this call is made for the `nth` time (from 0) in a trial of the item.

        Every trial of an item that asks the same gets the same, whatever its lane.

        Raises:
            replay.llm.base.ModelFailure: it was asked in vain.
        """


class Address(Protocol):
    """Where one process reaches the models, one trial at a time."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that lead it there."""

    def serving(self, line: Line | None) -> AbstractContextManager[None]:
        """What comes there is of this trial, for as long as the context lasts."""

    def close(self) -> None:
        """Nobody is there any more."""


class Gateway(Protocol):
    """A proxy between agents and the models' APIs."""

    @property
    def replays(self) -> bool:
        """Answers come from a recording, and no model is asked."""

    def address(self, environment: Mapping[str, str]) -> Address:
        """A new address; `environment` is that of the version, beside the command's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for every trial of a version."""

    timeout_s: float
    """Seconds that one trial may take."""
    on_miss: OnMiss = "stop"
    ignore_args: Collection[str] = ()
    """Arguments that never count in matching a call with a recording."""
    ignore_by_tool: Mapping[str, Collection[str]] = field(default_factory=dict)
    effects: Mapping[str, str] = field(default_factory=dict)
    """Tool → `read` or `write`, for the tools whose effect was named."""
    live: Collection[str] = ()
    """Tools that may run."""
    corpus: Corpus | None = None
    simulator: Simulator | None = None
    network: Collection[str] | None = None
    """The only hosts that an agent may connect to, besides loopback; None: any."""
    memory_mb: float | None = None
    """What a worker or program and its children may hold; None for any."""
    gateway: Gateway | None = None
    """What agents ask their models through; None where they ask them themselves."""
    patched: bool = True
    """The version's tool calls come to us, so one that only the agent reports is one we missed."""

    def ignored(self, name: str) -> Collection[str]:
        """The arguments of a tool that do not count."""
        own = self.ignore_by_tool.get(name, ())
        return {*self.ignore_args, *own} if own else self.ignore_args
