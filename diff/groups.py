"""How the cases of one version ended, counted by category, by difficulty, and by tag with a threshold.

When a case passed is told in `diff.alone`. One that nothing could be held against in this run, such as
an answer that only a judge can compare where there is none, is not graded: it neither passed nor failed, and
counts in no rate. One in quarantine is in no group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from replaydiff.diff.alone import quarantined
from replaydiff.diff.result import Group, ItemVerdict, Verdict


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


def group(by: str, value: str, items: Iterable[ItemVerdict], threshold: float | None = None) -> Group:
    """These items, counted, without those in quarantine."""
    ended = [outcome(item) for item in items if not quarantined(item.item)]
    return Group(
        by=by,
        value=value,
        items=len(ended),
        passed=ended.count(Outcome.PASSED),
        failed=ended.count(Outcome.FAILED),
        undecided=ended.count(Outcome.UNDECIDED),
        not_graded=ended.count(Outcome.NOT_GRADED),
        threshold=threshold,
    )


def groups(items: Sequence[ItemVerdict], thresholds: Mapping[str, float]) -> tuple[Group, ...]:
    """Every category, every difficulty, every tag of `thresholds`, by name; without those that are empty."""
    found: dict[tuple[str, str], list[ItemVerdict]] = {}
    for by in ("category", "difficulty"):
        for item in sorted(items, key=lambda item: str(getattr(item.item, by))):
            value = getattr(item.item, by)
            if value:
                found.setdefault((by, value), []).append(item)
    for tag in sorted(thresholds):
        found["tag", tag] = [item for item in items if tag in item.item.tags]
    counted = (
        group(by, value, members, thresholds.get(value) if by == "tag" else None)
        for (by, value), members in found.items()
    )
    return tuple(one for one in counted if one.items)
