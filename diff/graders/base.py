"""What a grader is, and which there are.

A grader looks at one trial of one item and returns a `Grade`, or None where it has nothing to say about the
trial. `applies` says whether an item has anything for it to grade at all: an item it does not apply to is
left out of its metric, a trial it could not grade is a third state that stays in the bounds.

These graders, built in or the user's own (`diff.graders.own`), cost nothing and are computed whenever a diff
is asked for. Grades that cost something (the judge's) are read from the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from replaydiff.replay.model import Grade, GradeState, Item, JsonObject, Status, Trial
from replaydiff.replay.settings import Settings

BUILTIN: dict[str, str] = {
    "tool_calls": "replaydiff.diff.graders.tool_calls:GRADER",
    "expected_tools": "replaydiff.diff.graders.tool_calls:EXPECTED_TOOLS",
    "answer": "replaydiff.diff.graders.answer:GRADER",
    "quality": "replaydiff.diff.graders.quality:GRADER",
    "end_state": "replaydiff.diff.graders.end_state:GRADER",
    "latency": "replaydiff.diff.graders.limits:LATENCY",
    "cost": "replaydiff.diff.graders.limits:COST",
}
"""Metric name → `module:attribute` of its `Grader`, in the order metrics are shown."""

SCORE_PREFIX = "score:"
"""Metrics of scores that came with observed traces: `score:reward`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A deterministic grader."""

    name: str
    version: str
    """Changes when the grader would score the same trial differently."""
    applies: Callable[[Item, Settings], bool] | None
    """None where only its grades tell: it applies to the items that it graded a trial of."""
    grade: Callable[[Item, Trial, Settings], Grade | None]
    """None where this trial cannot be graded (it errored, or has no answer)."""


@cache
def built_in() -> tuple[Grader, ...]:
    """The built-in graders, in the order of the table."""
    found = []
    for target in BUILTIN.values():
        module, _, attribute = target.partition(":")
        grader = getattr(import_module(module), attribute)
        assert isinstance(grader, Grader)  # noqa: S101 - the table is ours
        found.append(grader)
    return tuple(found)


def graders(settings: Settings) -> tuple[Grader, ...]:
    """The built-in graders, then the user's own.

    Raises:
        SettingsError: one of the user's cannot be loaded.
    """
    if not settings.grading.graders:
        return built_in()
    from replaydiff.diff.graders.own import own

    return built_in() + own(settings.grading.graders, settings.root)


def require(settings: Settings) -> None:
    """See that every function of the user's is there, before anything is spent on what it is to grade.

    Raises:
        ReplayError: one is not.
    """
    from replaydiff.diff.graders.end_state import function

    graders(settings)
    if settings.grading.end_state is not None:
        function(settings.grading.end_state, settings.root)


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
    """A grade with a score; it passes at 1 unless said otherwise."""
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
    """A grade without a score: the grader could not decide."""
    return _unscored(trial, grader, version, GradeState.ABSTAINED, reason)


def failed(trial: Trial, grader: str, version: str, reason: str) -> Grade:
    """A grade without a score: the grader itself failed, which says nothing about the trial."""
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


def free_grades(item: Item, trial: Trial, settings: Settings) -> dict[str, Grade]:
    """Every grade of a trial that costs nothing to know, by metric name."""
    if trial.status.is_error:
        return {}
    grades: dict[str, Grade] = {}
    for grader in graders(settings):
        if grader.applies is not None and not grader.applies(item, settings):
            continue
        grade = grader.grade(item, trial, settings)
        if grade is not None:
            grades[grader.name] = grade
    if trial.status is Status.OK:
        grades.update(_observed_scores(trial))
    return grades


def _observed_scores(trial: Trial) -> dict[str, Grade]:
    """Scores that came with the trial's trace: a bool counts 0 or 1, a number as it is, text not at all."""
    return {
        SCORE_PREFIX + name: scored(trial, SCORE_PREFIX + name, "1", float(value))
        for name, value in trial.scores.items()
        if not isinstance(value, str)
    }
