"""The outcomes of a check: which cases of a golden set pass.

`diff.expectations` decides how a case ends; `diff.decide` compares the share that passes with the threshold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replaydiff.diff.expectations import CaseOutcome, case_outcome, count_cases, is_quarantined
from replaydiff.diff.result import CaseGroup, DiffResult, ItemVerdict
from replaydiff.replay.model import Lane
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.runs import get_run

_WORDS = {
    CaseOutcome.PASSED: "pass",
    CaseOutcome.FAILED: "fail",
    CaseOutcome.UNDECIDED: "undecided",
    CaseOutcome.NOT_GRADED: "not graded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """How the cases of a check ended."""

    result: DiffResult
    """Of the lane `new` alone, with the gate."""
    before: DiffResult | None
    """Of the lane `old` alone, where there is one."""
    counts: CaseGroup
    """All cases but those in quarantine, with the threshold."""


def read_check(store: Path, run_id: str, settings: Settings) -> CheckResult:
    """Return the outcome of a golden-set run, case by case.

    Raises:
        StoreError: the store cannot be read.
    """
    from replaydiff.diff import gate as gates
    from replaydiff.diff.compute import compute
    from replaydiff.replay.store.connection import open_store

    with open_store(store, read_only=True) as con:
        result = compute(con, run_id, settings, gate=(gates.DEFAULT,), lane=Lane.NEW)
        old = Lane.OLD in get_run(con, run_id).lanes
        before = compute(con, run_id, settings, gate=(), lane=Lane.OLD) if old else None
    case_settings: Any = result.run.settings["cases"]
    return CheckResult(
        result=result,
        before=before,
        counts=count_cases("all", "all", result.items, case_settings["threshold"]),
    )


def outcome_name(item: ItemVerdict) -> str:
    """Return `pass`, `fail`, `undecided` or `not graded`."""
    return _WORDS[case_outcome(item)]


def document(check_result: CheckResult) -> dict[str, Any]:
    """Return the diff document of the lane, and under `check` how the cases ended."""
    from replaydiff.diff.document import to_json

    counts = check_result.counts
    document: dict[str, Any] = {
        "cases": counts.items,
        "passed": counts.passed,
        "failed": counts.failed,
        "undecided": counts.undecided,
        "not_graded": counts.not_graded,
        "rate": counts.rate,
        "threshold": counts.threshold,
        "held": check_result.result.gate.is_met,
        "ended": outcomes(check_result.result),
        "rows": [_row(item) for item in check_result.result.items],
        "quarantined": [item.item.id for item in in_quarantine(check_result)],
    }
    if check_result.before is not None:
        document["changed"] = [
            {"id": item.item.id, "old": before, "new": outcome_name(item)}
            for item, before in changed_outcomes(check_result)
        ]
    return to_json(check_result.result) | {"check": document}


def _row(item: ItemVerdict) -> dict[str, Any]:
    """Return input, expectation and answer as flat fields; the answer is that of the first trial."""
    expected, trials = item.item.expectation, item.lanes.get(Lane.NEW, ())
    return {
        "id": item.item.id,
        "input": item.item.input,
        "expected_answer": expected.answer if expected else None,
        "response": trials[0].trial.final_response if trials else None,
        "ended": outcome_name(item),
    }


def document_text(check_result: CheckResult) -> str:
    """Return the document as a file."""
    return json.dumps(document(check_result), ensure_ascii=False, indent=1) + "\n"


def in_quarantine(check_result: CheckResult) -> list[ItemVerdict]:
    """Return the cases that decide nothing."""
    return [item for item in check_result.result.items if is_quarantined(item.item)]


def changed_outcomes(check_result: CheckResult) -> list[tuple[ItemVerdict, str]]:
    """Return the cases that ended otherwise with the old version, and how they did."""
    before = {} if check_result.before is None else outcomes(check_result.before)
    return [
        (item, before[item.item.id])
        for item in check_result.result.items
        if before.get(item.item.id, outcome_name(item)) != outcome_name(item)
    ]


def outcomes(result: DiffResult) -> dict[str, str]:
    """Return how each case ended, by its id."""
    return {item.item.id: outcome_name(item) for item in result.items}
