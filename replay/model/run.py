"""A sample or golden set replayed in its lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from replaydiff.replay.model.json import JsonObject
from replaydiff.replay.model.lane import Lane
from replaydiff.replay.model.version import Version


class Mode(StrEnum):
    """What is replayed of an item."""

    ROLLOUT = "rollout"
    """The whole agent, from the input on."""
    STEP = "step"
    """Each recorded decision of the model with what it was given: only the next action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as the store keeps it: resumable, never rewritten; only `finished_at` is set later."""

    id: str
    created_at: datetime
    lanes: dict[Lane, Version]
    trials: int
    """Trials an item and lane; observed lanes may have fewer or more."""
    seed: int
    sample: str | None = None
    """Name of the sample; None for a golden set."""
    golden_path: str | None = None
    """Path of the golden set as it was given; None for a sample."""
    mode: Mode = Mode.ROLLOUT
    budget_usd: float | None = None
    max_tokens: int | None = None
    """What its agents may read and write together; None for any number."""
    settings: JsonObject = field(default_factory=dict)
    """What else decided the outcome: time-out, concurrency, ignored arguments, rule on a miss, pairing."""
    finished_at: datetime | None = None
    """None while trials are missing."""
