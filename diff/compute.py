"""From a run's id to everything a report shows. Reads the store, computes, stores nothing.

Items and trials are read in one pass, graded and grouped by item; then each metric is computed over the
items. Only whole blocks count: an item whose lanes have not all finished is left out of every figure, and the
result says so.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from replaydiff.diff import answer as answers
from replaydiff.diff import divergence, expectations
from replaydiff.diff import gate as gates
from replaydiff.diff.divergence import find_divergence
from replaydiff.diff.expectations import case_groups
from replaydiff.diff.graders import tool_calls
from replaydiff.diff.graders.base import PAIRWISE
from replaydiff.diff.judge.calibration import JudgeStatus, judge_status
from replaydiff.diff.judge.judge import self_preference_warning, versions_of
from replaydiff.diff.metrics import MetricResult, compute_metric, count_varying, metric_names
from replaydiff.diff.ranking import ranked
from replaydiff.diff.reading import RunData, StoredGrades, read_blocks, with_candidate_as_new
from replaydiff.diff.result import Block, Counts, DiffResult, ItemVerdict, MetricDelta, Noise, Verdict
from replaydiff.diff.slices import slices
from replaydiff.diff.statistics.split import split_variance
from replaydiff.diff.usage import usage
from replaydiff.diff.verdicts import combine
from replaydiff.replay.errors import UnknownNameError
from replaydiff.replay.model import Lane, RunRecord, VersionKind
from replaydiff.replay.settings import CasesSection, Settings
from replaydiff.replay.store.runs import get_run
from replaydiff.replay.store.samples import get_sample

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def put_off() -> Iterator[None]:
    """No search for cycles until it is left, unless there is none anyway.

    Nothing that a diff makes refers back to itself, so a search through the trials of ten thousand items
    frees nothing, and takes a third of the time. What is let go of meanwhile is freed at once as ever.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_ORDER = (Verdict.REGRESSED, Verdict.MIXED, Verdict.INCONCLUSIVE, Verdict.IMPROVED, Verdict.UNCHANGED)


@put_off()
def compute(
    con: DuckDBPyConnection,
    run_id: str,
    settings: Settings,
    *,
    metrics: Sequence[str] = (),
    gate: Sequence[str] | None = None,
    lane: Lane | None = None,
    candidate: Lane | None = None,
) -> DiffResult:
    """What changed between the lanes of a run.

    `metrics` are those to show, in their order (those that decide are always shown); without any, all that
    have grades. `gate` are the conditions asked for; None asks for `default` where the settings have a
    `[gate]`, and for none otherwise. `lane` is the one to hold alone against what the cases expect, as if the
    run had no other. `candidate` is, of a run with several new lanes, the one to show; without it, the one
    that ranks first (`diff.ranking`).

    Raises:
        UnknownNameError: an unknown run, metric, candidate or figure of a gate.
        SettingsError: a gate that is no condition.
    """
    run = get_run(con, run_id)
    if lane is not None:
        run = replace(run, lanes={lane: run.lanes[lane]})
    expected = _cases(run, settings)
    stored = StoredGrades.read(con, run, versions_of(settings))
    read = read_blocks(con, run, settings, stored)
    new = [found for found in run.lanes if found.is_new]
    if candidate is not None and candidate not in new:
        raise UnknownNameError("new lane", str(candidate), map(str, new), f"in run {run.id}")
    if new in ([], [Lane.NEW]):
        return _result(con, run, read, stored, settings, expected, metrics, gate)
    results = {
        found: _result(
            con,
            *with_candidate_as_new(run, read, found),
            stored,
            settings,
            expected,
            metrics,
            gate,
            candidates=len(new),
        )
        for found in new
    }
    return ranked(results, candidate) if len(new) > 1 else results[new[0]]


def _result(
    con: DuckDBPyConnection,
    run: RunRecord,
    read: RunData,
    stored: StoredGrades,
    settings: Settings,
    expected: CasesSection,
    metrics: Sequence[str],
    gate: Sequence[str] | None,
    candidates: int = 1,
) -> DiffResult:
    """The lanes `old`, `new` and `old2`, one of `candidates` such comparisons in the run."""
    held = partial(_held, con, run, stored=stored, settings=settings, expected=expected)
    read, aside = expectations.split_quarantined(run, read)
    result = held(read=read, metrics=metrics, gate=gate, candidates=candidates)
    return (
        result
        if aside is None
        else expectations.with_quarantined(result, held(read=aside, metrics=(), gate=()))
    )


def _held(
    con: DuckDBPyConnection,
    run: RunRecord,
    read: RunData,
    stored: StoredGrades,
    settings: Settings,
    expected: CasesSection,
    metrics: Sequence[str],
    gate: Sequence[str] | None,
    candidates: int = 1,
) -> DiffResult:
    """The same over these blocks, whether they are in quarantine or not."""
    names = metric_names(run, read.blocks, metrics, settings)
    judge_standing = judge_status(settings, stored)
    several = count_varying(names, read.blocks)
    worked = {
        name: compute_metric(
            name,
            run,
            read.blocks,
            settings,
            _may_gate(name, settings, stored, judge_standing),
            candidates=candidates,
            metrics=several,
        )
        for name in names
    }
    for name in stored.judges & worked.keys():
        metric = worked[name]
        delta = replace(
            metric.delta,
            calibration=judge_standing.document,
            split=split_variance(
                [(_votes(name, block, Lane.OLD), _votes(name, block, Lane.NEW)) for block in read.blocks]
            ),
        )
        worked[name] = replace(metric, delta=delta)

    items = _verdicts(run, read.blocks, worked, expected.case_threshold)
    counts = _counts(read.items, items)
    deltas = {name: metric.delta for name, metric in worked.items()}
    summaries = {
        lane: tally.summary(run.lanes[lane], read.witnesses[lane]) for lane, tally in read.tallies.items()
    }
    unknown = frozenset(name for name, metric in worked.items() if metric.null is None)
    distrust = divergence.distrust_reason(run, read.witnesses)
    given = answers.decide(
        answers.Evidence(
            run=run,
            sample=get_sample(con, run.sample) if run.sample else None,
            metrics=deltas,
            unknown_noise=unknown,
            items=items,
            counts=counts,
            distrust=distrust,
            gate=settings.gate,
            cases=expected,
            candidates=candidates,
        )
    )
    errors = sum(tally.errors for tally in read.tallies.values())
    if gate is None and "gate" in settings.given:
        gate = (gates.DEFAULT,)
    kind = _noise(run, len(unknown) < len(worked))
    warnings = [
        *([distrust] if distrust else []),
        *divergence.divergence_warnings(run, read.witnesses),
        *_warnings(run, counts, deltas, kind, errors, settings, judge_standing, stored),
    ]
    return DiffResult(
        answer=given.answer,
        reason=given.reason,
        next=given.next,
        run=run,
        noise=kind,
        lanes=summaries,
        counts=counts,
        metrics=deltas,
        items=items,
        usage=usage(run, read.blocks, settings.gate.confidence),
        slices=slices(
            items, [name for name, delta in deltas.items() if delta.gated] or names, settings.diff.slice_by
        ),
        groups=case_groups(items, expected.thresholds) if len(run.lanes) == 1 else (),
        gate=gates.evaluate(
            gate, answer=given.answer, counts=counts, errors=errors, metrics=deltas, lanes=summaries
        ),
        warnings=tuple(warnings),
        confidence=settings.gate.confidence,
        errors=errors,
    )


def _may_gate(name: str, settings: Settings, stored: StoredGrades, judge: JudgeStatus) -> bool:
    if settings.gate.metrics and name not in settings.gate.metrics:
        return False
    # Hand labels say nothing about comparisons, so nothing bears out that they may decide.
    return name != PAIRWISE and (name not in stored.judges or judge.may_gate)


def _votes(name: str, block: Block, lane: Lane) -> list[list[float]]:
    """The scores of the votes on each graded trial of a lane."""
    grades = [graded.grades.get(name) for graded in block.lanes.get(lane, ())]
    scores = [[vote.score for vote in grade.votes if vote.score is not None] for grade in grades if grade]
    return [found for found in scores if found]


def _cases(run: RunRecord, settings: Settings) -> CasesSection:
    """What the cases of a run are held against: as it was when the run began."""
    kept: Any = run.settings.get("cases")
    return replace(settings.cases, **kept) if isinstance(kept, dict) else settings.cases


def _verdicts(
    run: RunRecord, blocks: Sequence[Block], worked: dict[str, MetricResult], case_threshold: float | None
) -> tuple[ItemVerdict, ...]:
    items = []
    for block in blocks:
        metrics = {
            name: metric.by_item[block.item.id]
            for name, metric in worked.items()
            if block.item.id in metric.by_item
        }
        verdict = combine(m.verdict for m in metrics.values()) if metrics else Verdict.INCONCLUSIVE
        parted = find_divergence(
            {lane: [one.trial for one in graded] for lane, graded in block.lanes.items()}
        )
        if parted is not None and (told := metrics.get(tool_calls.NAME)) is not None:
            metrics[tool_calls.NAME] = replace(told, reason=f"{told.reason}; {parted.sentence}")
        item = ItemVerdict(
            item=block.item, verdict=verdict, metrics=metrics, lanes=block.lanes, parting=parted
        )
        if len(run.lanes) == 1 and metrics:
            item = replace(item, verdict=expectations.case_verdict(item, metrics, case_threshold))
        items.append(item)

    def place(item: ItemVerdict) -> tuple[int, float]:
        largest = max((abs(m.delta) for m in item.metrics.values() if m.delta is not None), default=0.0)
        return _ORDER.index(item.verdict), -largest

    return tuple(sorted(items, key=place))


def _counts(total: int, items: Sequence[ItemVerdict]) -> Counts:
    verdicts = [item.verdict for item in items]
    return Counts(
        total=total,
        compared=len(items),
        improved=verdicts.count(Verdict.IMPROVED),
        regressed=verdicts.count(Verdict.REGRESSED),
        mixed=verdicts.count(Verdict.MIXED),
        unchanged=verdicts.count(Verdict.UNCHANGED),
        inconclusive=verdicts.count(Verdict.INCONCLUSIVE),
    )


def _noise(run: RunRecord, known: bool) -> Noise:
    if not known:
        return Noise.UNKNOWN
    return Noise.AA if Lane.OLD2 in run.lanes else Noise.WITHIN_LANE


def _warnings(
    run: RunRecord,
    counts: Counts,
    deltas: dict[str, MetricDelta],
    kind: Noise,
    errors: int,
    settings: Settings,
    judge: JudgeStatus,
    stored: StoredGrades,
) -> Iterator[str]:
    """What a reader must know before the figures, the gravest first."""
    left_out = counts.total - counts.compared
    if left_out:
        observed = any(version.kind is VersionKind.OBSERVED for version in run.lanes.values())
        why = "have no trace in an observed lane, or are unfinished" if observed else "are unfinished"
        yield f"{left_out} of {counts.total} items {why} and are left out of every figure"
    if errors:
        yield f"{errors} trials ended in an error and have no score; they stand in the bounds"
    for name, delta in deltas.items():
        if delta.bounds is None or delta.delta is None:
            continue
        if max(delta.delta - delta.bounds[0], delta.bounds[1] - delta.delta) > settings.gate.tolerance:
            yield (
                f"{name}: with every unscored trial at the new version's cost the change is "
                f"{delta.bounds[0]:+.2f}, in its favour {delta.bounds[1]:+.2f} (headline {delta.delta:+.2f})"
            )
    if kind is Noise.UNKNOWN and len(run.lanes) > 1:
        yield (
            "one trial a lane and no A/A lane: how much a single trial varies is unknown, so verdicts "
            "on items may be noise"
        )
    if stored.judges & deltas.keys():
        if judge.complaint:
            yield judge.complaint
        if kin := self_preference_warning(
            stored.judge_model or "", [version.model for version in run.lanes.values()]
        ):
            yield kin
