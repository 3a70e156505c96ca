"""One replay of one item in one lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from replaydiff.replay.model.lane import Lane
from replaydiff.replay.model.trace import Score, ToolCall, Usage


class Status(StrEnum):
    """How a trial ended. Failure is data."""

    OK = "ok"
    DIVERGED = "diverged"
    """Stopped at a tool call that the tape could not answer."""
    AGENT_ERROR = "agent_error"
    """The agent raised, or returned something that is no answer."""
    INFRA_ERROR = "infra_error"
    """429, 5xx or the network, after retries: not the agent's doing."""
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    """The worker process died."""
    CANCELLED = "cancelled"
    """Not finished: interrupted, or its block was left out. Never scored."""

    @property
    def is_error(self) -> bool:
        """True for the third state: neither a pass nor a fail of the agent's answer."""
        return self not in (Status.OK, Status.DIVERGED)


class Rule(StrEnum):
    """How a tool call was answered during a replay."""

    TAPE = "tape"
    CORPUS = "corpus"
    SIMULATED = "simulated"
    LIVE = "live"
    MISS = "miss"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCall:
    """A tool call of a replay, and how it was answered."""

    call: ToolCall
    rule: Rule
    from_trace_id: str | None = None
    """The trace whose recording answered."""
    note: str | None = None
    """For a miss: why, and the nearest recorded call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a trial did at one of the user's turns."""

    number: int
    """The turn's place among all turns of the user, from 1."""
    calls: int
    """How many of the trial's tool calls were made at it."""
    response: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Identified by run, item, lane and index."""

    run_id: str
    item_id: str
    lane: Lane
    index: int
    """From 0; never paired with the same index of another lane."""
    status: Status
    reason: str | None = None
    """Why it did not end `ok`, in one sentence."""
    final_response: str | None = None
    served: tuple[ServedCall, ...] = ()
    """The tool calls in the order they were made."""
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    started_at: datetime | None = None
    attempts: int = 1
    """How often it was tried; more than one after infrastructure errors."""
    scores: dict[str, Score] = field(default_factory=dict)
    """Scores that came with the trace of an observed trial; empty for a replayed one."""
    stderr: str | None = None
    """The tail of what the agent printed during a trial that failed."""
    turns: tuple[Turn, ...] = ()
    """Where several turns of the user were replayed, what was done at each; else empty."""

    @property
    def fidelity(self) -> float | None:
        """Share of its calls answered from the item's own tape by an exact match; None without calls."""
        if not self.served:
            return None
        return sum(served.rule is Rule.TAPE for served in self.served) / len(self.served)
