"""The protocol of a grader, and functions that make its grades.

A grader looks at one trial of one item and returns a `Grade`, or None where it cannot grade the trial.
`applies` decides whether an item has anything to grade at all: an item it does not apply to is left out of
the metric, and a trial without a grade is a third state that stays in the bounds.

`diff.graders.registry` lists the graders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from replaydiff.replay.model import Grade, GradeState, Item, JsonObject, Trial
from replaydiff.replay.settings import Settings

JUDGE = "judge"
"""Name of the judge's grades, and of its metric."""
PAIRWISE = "pairwise"
"""Name of the judge's comparisons of old and new trials; see `diff.judge.pairwise`."""
SCORE_PREFIX = "score:"
"""Metrics of scores that came with observed traces: `score:reward`."""
_FAILED = (
    GradeState.ERROR,
    GradeState.EXPIRED,
    GradeState.CANCELLED,
    GradeState.TRUNCATED,
    GradeState.REFUSED,
)
_LONGEST_REASON = 200


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
    grade = _unscored(trial, grader, version, GradeState.SCORED, reason or None)
    passed = score >= 1 if passed is None else passed
    return replace(grade, score=score, passed=passed, detail=detail or {})


def abstained(trial: Trial, grader: str, version: str, reason: str) -> Grade:
    """Return a grade without a score: the grader could not decide."""
    return _unscored(trial, grader, version, GradeState.ABSTAINED, reason)


def failed(trial: Trial, grader: str, version: str, reason: str) -> Grade:
    """Return a grade without a score: the grader itself failed, whatever the trial did."""
    return _unscored(trial, grader, version, GradeState.ERROR, reason)


def _unscored(trial: Trial, grader: str, version: str, state: GradeState, reason: str | None) -> Grade:
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


def clipped(text: str, width: int = 60) -> str:
    """Return a text for a reason, cut at this width."""
    return text if len(text) <= width else text[: width - 1] + "…"


def failure_sentence(name: str, grades: Iterable[Grade], run_id: str) -> str | None:
    """Return a sentence that most grades of a metric failed, with the most frequent reason and what to do.

    Args:
        name: of the metric.
        grades: all its grades in the run.
        run_id: the run.

    Returns:
        One sentence; None where at most half of the grades failed.
    """
    total, reasons, states = 0, Counter[str](), Counter[GradeState]()
    for grade in grades:
        total += 1
        if (failure := _failure(grade)) is not None:
            state, reason = failure
            states[state] += 1
            reasons[reason] += 1
    if 2 * states.total() <= total:
        return None
    reason, state = reasons.most_common(1)[0][0], states.most_common(1)[0][0]
    return f"{name}: {states.total()} of {total} grades failed: {reason}; {_remedy(name, state, run_id)}"


def _failure(grade: Grade) -> tuple[GradeState, str] | None:
    """Return the state and reason of a grade that failed.

    None where it has a score or the grader abstained.
    """
    if grade.score is not None:
        return None
    vote = next((vote for vote in grade.votes if vote.state in _FAILED), None)
    state = vote.state if vote is not None else grade.state
    if state not in _FAILED:
        return None
    reason = " ".join(((vote.reason if vote else None) or grade.reason or state.value).split()).rstrip(".;")
    return state, reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"


def _remedy(name: str, state: GradeState, run_id: str) -> str:
    if name not in (JUDGE, PAIRWISE):
        return "correct this grader"
    resume_hint = f"then `replay run --resume {run_id}` grades again"
    match state:
        case GradeState.TRUNCATED:
            return "raise `max_tokens` in [judge] for the next run"
        case GradeState.REFUSED:
            return f"name another `model` in [judge], {resume_hint}"
        case GradeState.EXPIRED | GradeState.CANCELLED:
            return f"`replay run --resume {run_id}` grades again; without `batch` in [judge] it takes minutes"
        case _:
            return f"check `model`, `provider` and `base_url` in [judge], {resume_hint}"
