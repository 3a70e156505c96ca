"""How the cases of one version ended, counted by category and by difficulty.

A case passed where every metric that applies to it passed in all its trials. One that could be either (an
error, a judge that cannot decide) is undecided. One that nothing could be held against in this run, such as
an answer that only a judge can compare where there is none, is not graded: it neither passed nor failed, and
counts in no rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from diff.result import Group, ItemVerdict, Verdict


class Outcome(StrEnum):
    """How a case of a single lane ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    NOT_GRADED = "not graded"


def outcome(item: ItemVerdict) -> Outcome:
    """How this case ended."""
    if not item.metrics:
        return Outcome.NOT_GRADED
    if item.verdict is Verdict.INCONCLUSIVE:
        return Outcome.UNDECIDED
    return Outcome.FAILED if item.verdict in (Verdict.REGRESSED, Verdict.MIXED) else Outcome.PASSED


def group(by: str, value: str, items: Iterable[ItemVerdict]) -> Group:
    """These items, counted."""
    ended = [outcome(item) for item in items]
    return Group(
        by=by,
        value=value,
        items=len(ended),
        passed=ended.count(Outcome.PASSED),
        failed=ended.count(Outcome.FAILED),
        undecided=ended.count(Outcome.UNDECIDED),
        not_graded=ended.count(Outcome.NOT_GRADED),
    )


def groups(items: Sequence[ItemVerdict]) -> tuple[Group, ...]:
    """Every category, then every difficulty, by name; items without one are in none."""
    found: dict[tuple[str, str], list[ItemVerdict]] = {}
    for by in ("category", "difficulty"):
        for item in sorted(items, key=lambda item: str(getattr(item.item, by))):
            value = getattr(item.item, by)
            if value:
                found.setdefault((by, value), []).append(item)
    return tuple(group(by, value, members) for (by, value), members in found.items())
