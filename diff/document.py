"""The JSON document `replaydiff.diff/1`, written from a `DiffResult`; its schema: docs/schema.

What has the same fields as its part of the document stays a dataclass until it is encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from replaydiff.diff.result import (
    Candidate,
    Cause,
    DiffResult,
    Gate,
    GradedTrial,
    ItemChangeKind,
    ItemVerdict,
    LaneSummary,
    Likeness,
    MetricDelta,
    Verdict,
)
from replaydiff.replay.model import Grade, Lane, Trial, WrittenFile
from replaydiff.replay.model.json import to_json_value

SCHEMA = "replaydiff.diff/1"


MOST_CASES = 10_000
"""Cases that a bounded document lists, unless more than these changed."""
_CASES_TOGETHER = 100
_CHANGE_KINDS = {kind: kind.name.lower() for kind in ItemChangeKind} | {
    ItemChangeKind.DIFFERENT_OBJECT: "other_object",
    ItemChangeKind.DIFFERENT_ARGUMENTS: "other_arguments",
}
_NO_CASES = '\n "cases": [],'


def to_json(result: DiffResult) -> dict[str, Any]:
    """Return the document as plain JSON values: no NaN, no datetime."""
    document: dict[str, Any] = to_json_value(_document(result, [_case(item) for item in result.items]))
    return document


def json_parts(
    result: DiffResult, encode: Callable[[Any], str], *, is_bounded: bool = False
) -> Iterator[str]:
    """Yield the document as text, part by part: of a large run its text has many times the result's size.

    Args:
        result: the result.
        encode: returns a value as JSON text, indented by one space a level.
        is_bounded: whether, beyond `MOST_CASES`, unchanged cases are counted and not listed.
    """
    items = _changed_first(result.items) if is_bounded else result.items
    left_out = len(result.items) - len(items)
    text = encode(_document(result, [], left_out))
    if not items:
        yield text
        return
    # Within a text a line break is escaped, so a line that begins like this is the key of the document.
    before, after = text.split(_NO_CASES)
    yield f'{before}\n "cases": ['
    for start in range(0, len(items), _CASES_TOGETHER):
        cases = [_case(item) for item in items[start : start + _CASES_TOGETHER]]
        lines = encode([cases]).removeprefix("[\n [").removesuffix("\n ]\n]")
        yield f",{lines}" if start else lines
    yield f"\n ],{after}"


def _changed_first(items: Sequence[ItemVerdict]) -> Sequence[ItemVerdict]:
    """Return the first items, with all that are not unchanged, which come last."""
    changed = sum(item.verdict is not Verdict.UNCHANGED for item in items)
    return items[: max(MOST_CASES, changed)]


def _document(result: DiffResult, cases: list[dict[str, Any]], left_out: int = 0) -> dict[str, Any]:
    ranking = [_candidate(candidate) for candidate in result.ranking]
    return {
        "schema": SCHEMA,
        "answer": result.answer,
        "reason": result.reason,
        "next": result.next,
        **({"ranking": ranking} if ranking else {}),
        "run": _run(result),
        "lanes": {lane: _lane(summary) for lane, summary in result.lanes.items()},
        "items": result.counts,
        "causes": [_cause(cause) for cause in result.causes],
        "metrics": {name: _metric(metric) for name, metric in result.metrics.items()},
        "cases": cases,
        **({"cases_left_out": left_out} if left_out else {}),
        "usage": result.usage,
        "slices": [_fields(part, "members", "least_p") for part in result.slices],
        "groups": [_fields(part) | {"rate": part.rate} for part in result.groups],
        "gate": _gate(result.gate),
        "likeness": _likeness(result.likeness),
        "quarantined": [_quarantined(item) for item in result.quarantined],
        "warnings": list(result.warnings),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "lane": candidate.lane,
        "shown": candidate.shown,
        "answer": candidate.answer,
        "reason": candidate.reason,
        "items": candidate.counts,
        "metrics": candidate.metrics,
        **_lane(candidate.summary),
    }


def _run(result: DiffResult) -> dict[str, Any]:
    run = result.run
    return {
        "id": run.id,
        "sample": run.sample,
        "golden": run.golden_path,
        "mode": run.mode,
        "trials": run.trials,
        "created_at": run.created_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "noise": result.noise,
        "aa_items": sum(item.item.has_repeat for item in result.items) if Lane.OLD2 in run.lanes else 0,
        "looks": list(run.looks),
        "simulated_usd": run.settings.get("simulated_usd"),
    }


def _likeness(likeness: Likeness | None) -> dict[str, Any] | None:
    if likeness is None:
        return None
    shown = ("is_yardstick", "is_shown", "is_beyond", "by_meaning", "word", "word_items")
    return _fields(likeness, "trials", "unlike_items", *shown)


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "id": cause.id,
        "text": cause.text,
        "items": cause.items,
        "trials": {lane: list(counts) for lane, counts in cause.trials.items()},
        "p": cause.p,
        "state": cause.state,
        "examples": [example.item for example in cause.examples],
        "also": list(cause.also),
    }


def _lane(lane: LaneSummary) -> dict[str, Any]:
    return {
        "version": lane.version,
        "trials": lane.trials,
        "fidelity": lane.fidelity,
        "statuses": lane.statuses,
        "cost_usd": lane.cost_usd,
        "latency_ms": {"p50": lane.latency_p50_ms, "p95": lane.latency_p95_ms},
        "tokens": {"input": lane.input_tokens, "output": lane.output_tokens},
        "agreement": lane.agreement,
        "diverged": lane.diverged,
        "misses": list(lane.misses),
        "blocked": [
            {"what": event.what, "at": event.at, "trials": count} for event, count in lane.blocked.items()
        ],
        "served": lane.served,
        "reached_end": lane.reached_end,
    }


def _metric(metric: MetricDelta) -> dict[str, Any]:
    document = _fields(metric, "se_planned") | {"decides": metric.gated}
    if metric.alike is not None:
        document["alike"] = _fields(metric.alike) | {"share": metric.alike.share, "ci": metric.alike.ci}
    return document


def _case(item: ItemVerdict) -> dict[str, Any]:
    return {
        "id": item.item.id,
        "trace_id": item.item.trace_id,
        "stratum": item.item.stratum,
        "weight": item.item.weight,
        "verdict": item.verdict,
        "divergence": item.divergence,
        "change": None
        if item.change is None
        else {
            "kind": _CHANGE_KINDS[item.change.kind],
            "share": item.change.share,
            "text": item.change.text,
        },
        "metrics": item.metrics,
        "lanes": {
            lane: {"trials": [_trial(trial) for trial in trials]} for lane, trials in item.lanes.items()
        },
    }


def _trial(graded: GradedTrial) -> dict[str, Any]:
    trial = graded.trial
    return {
        "index": trial.index,
        "status": trial.status,
        "reason": trial.reason,
        "final_response": trial.final_response,
        "tool_calls": [{"name": served.call.name, "args": served.call.args} for served in trial.served],
        "grades": {name: _grade(grade) for name, grade in graded.grades.items()},
        "served": {"tape": 0, "miss": 0} | _served(trial),
        "blocked": [{"what": event.what, "at": event.at} for event in trial.blocked],
        **_simulated(trial),
        **({"misfit": trial.misfit} if trial.misfit else {}),
        **({"files": [_file(file) for file in trial.files]} if trial.files else {}),
        "latency_ms": trial.latency_ms,
        "cost_usd": trial.cost_usd,
    }


def _file(file: WrittenFile) -> dict[str, Any]:
    """Return a file that a trial wrote; without size where it was deleted."""
    return {"path": file.path, "size": file.size, "sha256": file.sha256, "kept": file.has_content}


def _served(trial: Trial) -> Counter[str]:
    """Count the calls that each rule answered; a simulated turn of the user is no recording either."""
    counts = Counter(served.rule.value for served in trial.served)
    if trial.simulated_turns:
        counts["user"] = len(trial.simulated_turns)
    return counts


def _simulated(trial: Trial) -> dict[str, Any]:
    """Return the turns at which a model played the user; no key without any."""
    turns = [{"turn": turn.number, "text": turn.user} for turn in trial.turns if turn.user is not None]
    return {"simulated_user": turns} if turns else {}


def _grade(grade: Grade) -> dict[str, Any]:
    document: dict[str, Any] = {
        "state": grade.state,
        "score": grade.score,
        "passed": grade.passed,
        "reason": grade.reason,
    }
    if grade.detail:
        document["detail"] = grade.detail
    if grade.votes:
        document["votes"] = list(grade.votes)
    return document


def _quarantined(item: ItemVerdict) -> dict[str, Any]:
    quarantine = item.item.quarantine
    facts = _fields(quarantine) if quarantine else {"owner": None, "since": None, "reason": None}
    return {"id": item.item.id, "verdict": item.verdict.value, **facts}


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "requested": gate.requested,
        "conditions": [
            {"expression": condition.expression, "value": condition.value, "held": condition.is_met}
            for condition in gate.conditions
        ],
        "held": gate.is_met,
    }


def _fields(value: Any, *without: str) -> dict[str, Any]:
    """Return a dataclass as JSON values: enums by their word, tuples as lists.

    Args:
        value: the dataclass.
        without: fields that the document does not have.
    """
    names = [field.name for field in fields(value) if field.name not in without]
    return {name: to_json_value(getattr(value, name)) for name in names}
