"""One version held against what its cases expect: how a case ended, from how its trials ended.

A trial passed where every metric that applies to the case passed it, and failed where any of them failed it;
else (an error, a judge that cannot decide) it could be either.

    with a threshold     the share of the case's trials that must pass: passed once enough did, failed once
                         too few can; 1 is pass^k. The case's own (`threshold`), else `[cases] case_threshold`
    without              passed where all trials passed, failed where all failed, undecided in between

A case in quarantine is known to be unreliable: it is run and reported, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from replaydiff.diff.result import GradedTrial, ItemVerdict, Verdict
from replaydiff.replay.model import Item, Lane

QUARANTINE = "quarantine"
"""A tag that does the same as `metadata.quarantine`."""
_TIE = 1e-9


def quarantined(item: Item) -> bool:
    """Whether the case decides nothing."""
    return item.quarantine is not None or (item.case_id is not None and QUARANTINE in item.tags)


def verdict(trials: Sequence[GradedTrial], metrics: Collection[str], threshold: float | None) -> Verdict:
    """`unchanged` (passed), `regressed` (failed) or `inconclusive`, on these metrics; see above."""
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


def verdict_of(item: ItemVerdict, metrics: Collection[str], fallback: float | None) -> Verdict:
    """The verdict on an item of a single lane; `fallback` is the threshold of cases without their own."""
    trials = item.lanes.get(Lane.NEW) or item.lanes.get(Lane.OLD) or ()
    return verdict(trials, metrics, threshold_of(item.item, fallback))


def threshold_of(item: Item, fallback: float | None) -> float | None:
    """The share of the case's trials that must pass; None where nobody said it."""
    own = item.expectation.threshold if item.expectation else None
    return fallback if own is None else own


def _passed(graded: GradedTrial, metrics: Collection[str]) -> bool | None:
    passes = [grade.passed if (grade := graded.grades.get(name)) else None for name in metrics]
    return False if False in passes else None if None in passes else True
