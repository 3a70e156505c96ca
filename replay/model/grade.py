"""A scorer's result for one trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from replaydiff.replay.model.json import JsonObject
from replaydiff.replay.model.lane import Lane


class GradeState(StrEnum):
    """Whether there is a score, and if not, why."""

    SCORED = "scored"
    ABSTAINED = "abstained"
    """The grader could not decide."""
    REFUSED = "refused"
    """The judge's model refused."""
    TRUNCATED = "truncated"
    """The judge's answer was cut off."""
    ERROR = "error"
    """The grader failed."""
    EXPIRED = "expired"
    """The judge's batch ended before this was asked."""
    CANCELLED = "cancelled"
    """The judge's batch was cancelled before this was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One answer of the judge."""

    index: int
    state: GradeState
    score: float | None = None
    """0..1; None unless scored."""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """Identified by run, item, lane, trial, grader and grader version."""

    run_id: str
    item_id: str
    lane: Lane
    trial: int
    grader: str
    grader_version: str
    state: GradeState
    score: float | None = None
    """0..1; None unless scored."""
    passed: bool | None = None
    reason: str | None = None
    detail: JsonObject = field(default_factory=dict)
    votes: tuple[Vote, ...] = ()
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeId:
    """What a judge's grades and its calibration are bound to."""

    model: str
    prompt_hash: str
    rubric_hash: str
