"""Budgets of a case: how long the agent may take (`max_latency_ms`), and what it may cost (`max_cost_usd`).

A trial at its limit is within it. One whose time or cost is not known has no grade: it is neither within nor
beyond.
"""

from __future__ import annotations

from replaydiff.diff.graders.base import Grader, scored
from replaydiff.replay.model import Expectation, Grade, Item, Status, Trial
from replaydiff.replay.settings import Settings

LATENCY_NAME, COST_NAME, VERSION = "latency", "cost", "1"


def _timed(item: Item, settings: Settings) -> bool:  # noqa: ARG001
    return _expected(item).max_latency_ms is not None


def _priced(item: Item, settings: Settings) -> bool:  # noqa: ARG001
    return _expected(item).max_cost_usd is not None


def _grade_latency(item: Item, trial: Trial, settings: Settings) -> Grade | None:  # noqa: ARG001
    limit, took = _expected(item).max_latency_ms, trial.latency_ms
    reason = f"took {took:.0f} ms, more than {limit:.0f} ms" if took is not None and limit is not None else ""
    return _within(trial, LATENCY_NAME, took, limit, reason)


def _grade_cost(item: Item, trial: Trial, settings: Settings) -> Grade | None:  # noqa: ARG001
    limit, cost = _expected(item).max_cost_usd, trial.cost_usd
    return _within(trial, COST_NAME, cost, limit, f"cost ${cost}, more than ${limit}")


def _within(trial: Trial, name: str, value: float | None, limit: float | None, beyond: str) -> Grade | None:
    if trial.status is not Status.OK or value is None or limit is None:
        return None
    passed = value <= limit
    return scored(trial, name, VERSION, float(passed), reason=None if passed else beyond)


def _expected(item: Item) -> Expectation:
    return item.expectation or _NO_EXPECTATION


_NO_EXPECTATION = Expectation()
LATENCY = Grader(name=LATENCY_NAME, version=VERSION, applies=_timed, grade=_grade_latency)
COST = Grader(name=COST_NAME, version=VERSION, applies=_priced, grade=_grade_cost)
