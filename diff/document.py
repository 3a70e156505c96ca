"""The JSON document `replaydiff.diff/1`, written from a `DiffResult`; its schema: docs/schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from replaydiff.diff.result import (
    Candidate,
    CaseGroup,
    Cause,
    DiffResult,
    Gate,
    GradedTrial,
    ItemVerdict,
    LaneSummary,
    MetricDelta,
    Slice,
)
from replaydiff.replay.model import Grade, Lane, Trial
from replaydiff.replay.model.json import to_json_value

SCHEMA = "replaydiff.diff/1"


def to_json(result: DiffResult) -> dict[str, Any]:
    """The document as plain JSON values: no NaN, no datetime."""
    ranking = [_candidate(one) for one in result.ranking]
    return {
        "schema": SCHEMA,
        "answer": result.answer.value,
        "reason": result.reason,
        "next": result.next,
        **({"ranking": ranking} if ranking else {}),
        "run": _run(result),
        "lanes": {str(lane): _lane(summary) for lane, summary in result.lanes.items()},
        "items": _fields(result.counts),
        "causes": [_cause(cause) for cause in result.causes],
        "metrics": {name: _metric(metric) for name, metric in result.metrics.items()},
        "cases": [_case(item) for item in result.items],
        "usage": {name: _fields(change) for name, change in result.usage.items()},
        "slices": [_slice(part) for part in result.slices],
        "groups": [_group(part) for part in result.groups],
        "gate": _gate(result.gate),
        "quarantined": [_quarantined(item) for item in result.quarantined],
        "warnings": list(result.warnings),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "lane": str(candidate.lane),
        "shown": candidate.shown,
        "answer": candidate.answer.value,
        "reason": candidate.reason,
        "items": _fields(candidate.counts),
        "metrics": {name: _fields(metric) for name, metric in candidate.metrics.items()},
        **_lane(candidate.summary),
    }


def _run(result: DiffResult) -> dict[str, Any]:
    run = result.run
    return {
        "id": run.id,
        "sample": run.sample,
        "golden": run.golden_path,
        "mode": run.mode.value,
        "trials": run.trials,
        "created_at": run.created_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "noise": result.noise.value,
        "looks": [_fields(look) for look in run.looks],
        "simulated_usd": run.settings.get("simulated_usd"),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "id": cause.id,
        "text": cause.text,
        "items": cause.items,
        "trials": {str(lane): list(counts) for lane, counts in cause.trials.items()},
        "p": cause.p,
        "state": cause.state.value,
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
        "misses": [_fields(miss) for miss in lane.misses],
    }


def _metric(metric: MetricDelta) -> dict[str, Any]:
    document = _fields(metric) | {"decides": metric.gated}
    del document["se_planned"]
    by_trials: dict[str, Mapping[Lane, Mapping[int, float]]] = {
        "pass_hat_k": metric.pass_hat_k,
        "pass_at_k": metric.pass_at_k,
        "pass_items": metric.pass_items,
    }
    for name, by_lane in by_trials.items():
        document[name] = {
            str(lane): {str(k): value for k, value in by_k.items()} for lane, by_k in by_lane.items()
        }
    return document


def _case(item: ItemVerdict) -> dict[str, Any]:
    return {
        "id": item.item.id,
        "trace_id": item.item.trace_id,
        "stratum": item.item.stratum,
        "weight": item.item.weight,
        "verdict": item.verdict.value,
        "divergence": None if item.divergence is None else _fields(item.divergence),
        "metrics": {name: _fields(metric) for name, metric in item.metrics.items()},
        "lanes": {
            str(lane): {"trials": [_trial(trial) for trial in trials]} for lane, trials in item.lanes.items()
        },
    }


def _trial(graded: GradedTrial) -> dict[str, Any]:
    trial = graded.trial
    return {
        "index": trial.index,
        "status": trial.status.value,
        "reason": trial.reason,
        "final_response": trial.final_response,
        "tool_calls": [{"name": served.call.name, "args": served.call.args} for served in trial.served],
        "grades": {name: _grade(grade) for name, grade in graded.grades.items()},
        "served": {"tape": 0, "miss": 0} | _served(trial),
        **_simulated(trial),
        "latency_ms": trial.latency_ms,
        "cost_usd": trial.cost_usd,
    }


def _served(trial: Trial) -> Counter[str]:
    """How many calls each rule answered; a simulated turn of the user is no recording either."""
    counts = Counter(served.rule.value for served in trial.served)
    if trial.simulated_turns:
        counts["user"] = len(trial.simulated_turns)
    return counts


def _simulated(trial: Trial) -> dict[str, Any]:
    """The turns at which a model played the user; no key without any."""
    turns = [{"turn": turn.number, "text": turn.user} for turn in trial.turns if turn.user is not None]
    return {"simulated_user": turns} if turns else {}


def _grade(grade: Grade) -> dict[str, Any]:
    document: dict[str, Any] = {
        "state": grade.state.value,
        "score": grade.score,
        "passed": grade.passed,
        "reason": grade.reason,
    }
    if grade.detail:
        document["detail"] = grade.detail
    if grade.votes:
        document["votes"] = [_fields(vote) for vote in grade.votes]
    return document


def _slice(part: Slice) -> dict[str, Any]:
    return _fields(part)


def _group(part: CaseGroup) -> dict[str, Any]:
    return _fields(part) | {"rate": part.rate}


def _quarantined(item: ItemVerdict) -> dict[str, Any]:
    kept = item.item.quarantine
    facts = _fields(kept) if kept else {"owner": None, "since": None, "reason": None}
    return {"id": item.item.id, "verdict": item.verdict.value, **facts}


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "requested": gate.requested,
        "conditions": [_fields(condition) for condition in gate.conditions],
        "held": gate.held,
    }


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass as JSON values: enums by their word, tuples as lists."""
    document: dict[str, Any] = to_json_value(value)
    return document
