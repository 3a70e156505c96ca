"""What a grader is, and how it makes a grade.

A grader looks at one trial of one item and returns a `Grade`, or None where it cannot grade the trial.
`applies` decides whether an item has anything to grade at all: an item it does not apply to is left out of
the metric, and a trial without a grade is a third state that stays in the bounds.

`diff.graders.registry` lists the graders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replaydiff.replay.model import Grade, GradeState, Item, JsonObject, Trial
from replaydiff.replay.settings import Settings

JUDGE = "judge"
"""Name of the judge's grades, and of its metric."""
PAIRWISE = "pairwise"
"""Name of the judge's comparisons of old and new trials; see `diff.judge.pairwise`."""
SCORE_PREFIX = "score:"
"""Metrics of scores that came with observed traces: `score:reward`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A deterministic grader."""

    name: str
    version: str
    """Changes when the grader would score the same trial differently."""
    applies: Callable[[Item, Settings], bool] | None
    """None: it applies to every item of which it graded a trial."""
    grade: Callable[[Item, Trial, Settings], Grade | None]
    """None where this trial cannot be graded (it errored, or has no answer)."""


def scored(
    trial: Trial,
    grader: str,
    version: str,
    score: float,
    *,
    passed: bool | None = None,
    reason: str | None = None,
    detail: JsonObject | None = None,
) -> Grade:
    """Return a grade with a score; it passes at 1 unless `passed` is given."""
    return Grade(
        run_id=trial.run_id,
        item_id=trial.item_id,
        lane=trial.lane,
        trial=trial.index,
        grader=grader,
        grader_version=version,
        state=GradeState.SCORED,
        score=score,
        passed=score >= 1 if passed is None else passed,
        reason=reason or None,
        detail=detail or {},
    )


def abstained(trial: Trial, grader: str, version: str, reason: str) -> Grade:
    """Return a grade without a score: the grader could not decide."""
    return _unscored(trial, grader, version, GradeState.ABSTAINED, reason)


def failed(trial: Trial, grader: str, version: str, reason: str) -> Grade:
    """Return a grade without a score: the grader itself failed, whatever the trial did."""
    return _unscored(trial, grader, version, GradeState.ERROR, reason)


def _unscored(trial: Trial, grader: str, version: str, state: GradeState, reason: str) -> Grade:
    return Grade(
        run_id=trial.run_id,
        item_id=trial.item_id,
        lane=trial.lane,
        trial=trial.index,
        grader=grader,
        grader_version=version,
        state=state,
        reason=reason,
    )
