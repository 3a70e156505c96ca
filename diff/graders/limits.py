"""Budgets of a case: how long the agent may take."""

from __future__ import annotations

from diff.graders.base import Grader, scored
from replay.model import Grade, Item, Status, Trial
from replay.settings import Settings

NAME, VERSION = "latency", "1"


def _limited(item: Item) -> bool:
    return item.expectation is not None and item.expectation.max_latency_ms is not None


def _grade(item: Item, trial: Trial, settings: Settings) -> Grade | None:  # noqa: ARG001
    """Whether a finished trial stayed within `max_latency_ms`. None where its time is not known."""
    if trial.status is not Status.OK or item.expectation is None or trial.latency_ms is None:
        return None
    limit = item.expectation.max_latency_ms
    if limit is None:
        return None
    passed = trial.latency_ms <= limit
    reason = None if passed else f"took {trial.latency_ms:.0f} ms, more than {limit:.0f} ms"
    return scored(trial, NAME, VERSION, float(passed), reason=reason)


LATENCY = Grader(name=NAME, version=VERSION, applies=_limited, grade=_grade)
