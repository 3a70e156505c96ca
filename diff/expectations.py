"""Whether cases met their expectation: by trial, by case, and counted by category, difficulty and tag.

A trial passed where every metric that applies to the case passed it, and failed where any of them failed it;
otherwise (an error, a judge that cannot decide) it could be either.

    with a threshold     the share of the case's trials that must pass: passed as soon as enough did, failed
                         as soon as too few can; 1 is pass^k. The case's own (`threshold`), else
                         `[cases] case_threshold`
    without              passed where all trials passed, failed where all failed, undecided in between

A case that no grader applied to in this run (an answer that only a judge can compare, and there is none) is
*not graded*: it neither passed nor failed, and counts in no rate. A case in quarantine is known to be
unreliable: it is run and reported, and is in no figure and no gate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from replaydiff.diff.reading import RunData
from replaydiff.diff.result import CaseGroup, DiffResult, GradedTrial, ItemVerdict, Verdict
from replaydiff.replay.model import Item, Lane, RunRecord

QUARANTINE = "quarantine"
"""A tag that does the same as `metadata.quarantine`."""
_TIE = 1e-9


def is_quarantined(item: Item) -> bool:
    """Return whether the case decides nothing."""
    return item.quarantine is not None or (item.case_id is not None and QUARANTINE in item.tags)


def trials_verdict(
    trials: Sequence[GradedTrial], metrics: Collection[str], threshold: float | None
) -> Verdict:
    """Return `unchanged` (passed), `regressed` (failed) or `inconclusive` on these metrics; see above."""
    ended = [_passed(graded, metrics) for graded in trials]
    passed, failed = ended.count(True), ended.count(False)
    if not ended:
        return Verdict.INCONCLUSIVE
    if threshold is None:
        enough, too_few = passed == len(ended), failed == len(ended)
    else:
        least = threshold * len(ended) - _TIE
        enough, too_few = passed >= least, len(ended) - failed < least
    return Verdict.UNCHANGED if enough else Verdict.REGRESSED if too_few else Verdict.INCONCLUSIVE


def case_verdict(item: ItemVerdict, metrics: Collection[str], fallback: float | None) -> Verdict:
    """Return the verdict on an item of a single lane; `fallback` is the threshold of other cases."""
    trials = item.lanes.get(Lane.NEW) or item.lanes.get(Lane.OLD) or ()
    return trials_verdict(trials, metrics, threshold_of(item.item, fallback))


def threshold_of(item: Item, fallback: float | None) -> float | None:
    """Return the share of the case's trials that must pass; None if not set."""
    of_case = item.expectation.threshold if item.expectation else None
    return fallback if of_case is None else of_case


def _passed(graded: GradedTrial, metrics: Collection[str]) -> bool | None:
    passes = [grade.passed if (grade := graded.grades.get(name)) else None for name in metrics]
    return False if False in passes else None if None in passes else True


class CaseOutcome(StrEnum):
    """How a case of a single lane ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    NOT_GRADED = "not graded"


def case_outcome(item: ItemVerdict) -> CaseOutcome:
    """Return how this case ended."""
    if not item.metrics:
        return CaseOutcome.NOT_GRADED
    if item.verdict is Verdict.INCONCLUSIVE:
        return CaseOutcome.UNDECIDED
    return CaseOutcome.FAILED if item.verdict in (Verdict.REGRESSED, Verdict.MIXED) else CaseOutcome.PASSED


def count_cases(
    by: str, value: str, items: Iterable[ItemVerdict], threshold: float | None = None
) -> CaseGroup:
    """Count how these items ended, without those in quarantine."""
    ended = [case_outcome(item) for item in items if not is_quarantined(item.item)]
    return CaseGroup(
        by=by,
        value=value,
        items=len(ended),
        passed=ended.count(CaseOutcome.PASSED),
        failed=ended.count(CaseOutcome.FAILED),
        undecided=ended.count(CaseOutcome.UNDECIDED),
        not_graded=ended.count(CaseOutcome.NOT_GRADED),
        threshold=threshold,
    )


def case_groups(items: Sequence[ItemVerdict], thresholds: Mapping[str, float]) -> tuple[CaseGroup, ...]:
    """Return each category, difficulty and tag of `thresholds`, by name; empty ones are left out."""
    by_value: dict[tuple[str, str], list[ItemVerdict]] = {}
    for by in ("category", "difficulty"):
        for item in sorted(items, key=lambda item: str(getattr(item.item, by))):
            value = getattr(item.item, by)
            if value:
                by_value.setdefault((by, value), []).append(item)
    for tag in sorted(thresholds):
        by_value["tag", tag] = [item for item in items if tag in item.item.tags]
    counted = (
        count_cases(by, value, members, thresholds.get(value) if by == "tag" else None)
        for (by, value), members in by_value.items()
    )
    return tuple(group for group in counted if group.items)


_SHOWN = 5


def split_quarantined(run: RunRecord, read: RunData) -> tuple[RunData, RunData | None]:
    """Return what counts, and the blocks in quarantine; None without any, or with one lane."""
    aside = [index for index, block in enumerate(read.blocks) if is_quarantined(block.item)]
    if not aside or len(run.lanes) == 1:
        return read, None
    in_figures = [index for index, block in enumerate(read.blocks) if not is_quarantined(block.item)]
    return read.only(in_figures, items=read.items - len(aside)), read.only(aside, items=len(aside))


def with_quarantined(result: DiffResult, aside: DiffResult) -> DiffResult:
    """Return the result with the verdicts on cases in quarantine, computed among themselves."""
    return replace(
        result, quarantined=aside.items, warnings=(*result.warnings, _quarantine_warning(aside.items))
    )


def _quarantine_warning(items: Sequence[ItemVerdict]) -> str:
    """Return `2 cases are in quarantine and in no figure: a (regressed; Ada), b (unchanged)`."""
    named = []
    for item in items[:_SHOWN]:
        quarantine = item.item.quarantine
        facts = [quarantine.owner, quarantine.since and f"since {quarantine.since}"] if quarantine else []
        owner = ", ".join(part for part in facts if part)
        named.append(f"{item.item.label} ({item.verdict.value}{f'; {owner}' if owner else ''})")
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    are = "case is" if len(items) == 1 else "cases are"
    return f"{len(items)} {are} in quarantine and in no figure: {', '.join(named)}{more}"
