"""From a run's id to everything a report shows. Reads the store, computes, stores nothing.

Items and trials are streamed from the store side by side, graded, and grouped by item; then each metric is
worked out over the items. Only whole blocks count: an item whose lanes have not all finished is left out of
every figure, and said to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from diff import answer as answers
from diff import gate as gates
from diff import validity
from diff.calibration import Standing, standing
from diff.graders.base import SCORE_PREFIX, built_in, free_grades
from diff.lanes import LaneTally
from diff.result import (
    Counts,
    DiffResult,
    GradedTrial,
    ItemMetric,
    ItemVerdict,
    MetricDelta,
    Noise,
    Verdict,
)
from diff.slices import cluster, slices
from diff.statistics import noise, paired, power
from diff.stored import StoredGrades
from diff.verdicts import Judged, Sample, Scale, combine, judge, judge_alone, null_model
from replay.errors import UnknownNameError
from replay.model import GradeState, Item, Lane, Run, Status, Trial, VersionKind
from replay.settings import Settings
from replay.store.runs import get_run, iter_items
from replay.store.samples import get_sample
from replay.store.trials import iter_trials

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ORDER = (Verdict.REGRESSED, Verdict.MIXED, Verdict.INCONCLUSIVE, Verdict.IMPROVED, Verdict.UNCHANGED)
_SIDES = (Lane.OLD, Lane.NEW)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """One item with all its finished, graded trials."""

    item: Item
    lanes: dict[Lane, tuple[GradedTrial, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """One metric worked out over the items it applies to."""

    delta: MetricDelta
    by_item: dict[str, ItemMetric]
    null: noise.Null | None


def compute(
    con: DuckDBPyConnection,
    run_id: str,
    settings: Settings,
    *,
    metrics: Sequence[str] = (),
    gate: Sequence[str] | None = None,
) -> DiffResult:
    """What changed between the lanes of a run.

    `metrics` are those to show, in their order; without any, all that have grades. `gate` are the conditions
    asked for; None asks for `default` where the settings have a `[gate]`, and for none otherwise.

    Raises:
        UnknownNameError: an unknown run, metric or figure of a gate.
        SettingsError: a gate that is no condition.
    """
    run = get_run(con, run_id)
    stored = StoredGrades.read(con, run)
    tallies = {lane: LaneTally() for lane in run.lanes}
    witnesses = {lane: validity.Witness() for lane in run.lanes}
    blocks: list[_Block] = []
    total = 0
    for item, trials in _by_item(con, run):
        total += 1
        for trial in trials:
            tallies[trial.lane].add(trial)
        if not _whole(run, trials):
            continue
        lanes: dict[Lane, list[GradedTrial]] = {lane: [] for lane in run.lanes}
        for trial in trials:
            if trial.status is Status.CANCELLED:
                continue
            witnesses[trial.lane].add(item, trial)
            grades = {**free_grades(item, trial, settings), **stored.of(trial)}
            lanes[trial.lane].append(GradedTrial(trial=trial, grades=grades))
        blocks.append(_Block(item=item, lanes={lane: tuple(graded) for lane, graded in lanes.items()}))

    names = _names(run, blocks, metrics)
    judge_standing = standing(settings, stored)
    worked = {
        name: _work(name, run, blocks, settings, _may_gate(name, settings, stored, judge_standing))
        for name in names
    }
    for name in stored.judges & worked.keys():
        metric = worked[name]
        worked[name] = replace(metric, delta=replace(metric.delta, calibration=judge_standing.document))

    items = _verdicts(blocks, worked)
    counts = _counts(total, items)
    deltas = {name: metric.delta for name, metric in worked.items()}
    summaries = {
        lane: tally.summary(run.lanes[lane], witnesses[lane].fidelity) for lane, tally in tallies.items()
    }
    unknown = frozenset(name for name, metric in worked.items() if metric.null is None)
    distrust = validity.distrust(run, witnesses)
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
            threshold=settings.cases.threshold,
        )
    )
    errors = sum(tally.errors for tally in tallies.values())
    if gate is None and "gate" in settings.given:
        gate = (gates.DEFAULT,)
    kind = _noise(run, len(unknown) < len(worked))
    warnings = [
        *([distrust] if distrust else []),
        *validity.divergence(run, witnesses),
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
        slices=slices(items, [name for name, delta in deltas.items() if delta.gated] or names),
        gate=gates.evaluate(
            gate, answer=given.answer, counts=counts, errors=errors, metrics=deltas, lanes=summaries
        ),
        warnings=tuple(warnings),
        errors=errors,
    )


def _by_item(con: DuckDBPyConnection, run: Run) -> Iterator[tuple[Item, list[Trial]]]:
    """Every item of the run with its trials; both come by position, so one walk pairs them."""
    groups = groupby(iter_trials(con, run.id), key=lambda trial: trial.item_id)
    waiting = next(groups, None)
    for item in iter_items(con, run.id):
        if waiting is not None and waiting[0] == item.id:
            yield item, list(waiting[1])
            waiting = next(groups, None)
        else:
            yield item, []


def _whole(run: Run, trials: Sequence[Trial]) -> bool:
    """Whether every lane of the item's block has finished. An observed lane has what was recorded."""
    for lane, version in run.lanes.items():
        finished = sum(trial.lane is lane and trial.status is not Status.CANCELLED for trial in trials)
        if finished < (1 if version.kind is VersionKind.OBSERVED else run.trials):
            return False
    return True


def _names(run: Run, blocks: Sequence[_Block], asked: Sequence[str]) -> list[str]:
    """The metrics to show.

    Raises:
        UnknownNameError: one was asked for that nothing in the run has a grade of.
    """
    lanes: dict[str, set[Lane]] = {}
    for block in blocks:
        for lane, graded in block.lanes.items():
            for trial in graded:
                for name in trial.grades:
                    lanes.setdefault(name, set()).add(lane)
        for grader in built_in():
            if grader.applies(block.item):
                lanes.setdefault(grader.name, set()).update(run.lanes)
    for name in asked:
        if name not in lanes and blocks:
            raise UnknownNameError("metric", name, lanes, f"in run {run.id}")
    if asked:
        return list(dict.fromkeys(name for name in asked if name in lanes))
    order = {grader.name: place for place, grader in enumerate(built_in())}
    sides = {lane for lane in _SIDES if lane in run.lanes}
    # A score that came with recorded traces alone has nothing on the replayed side to be compared with.
    comparable = [name for name, seen in lanes.items() if sides <= seen or not name.startswith(SCORE_PREFIX)]
    return sorted(comparable, key=lambda name: (order.get(name, len(order)), name))


def _may_gate(name: str, settings: Settings, stored: StoredGrades, judge: Standing) -> bool:
    if settings.gate.metrics and name not in settings.gate.metrics:
        return False
    return name not in stored.judges or judge.may_gate


def _applies(name: str, block: _Block) -> bool:
    """Whether a metric has anything to grade in an item."""
    for grader in built_in():
        if grader.name == name:
            return grader.applies(block.item)
    trials = [trial for graded in block.lanes.values() for trial in graded]
    return any(name in trial.grades for trial in trials) or all(
        trial.trial.status is not Status.OK for trial in trials
    )


def _sample(name: str, block: _Block) -> Sample:
    scores: dict[Lane, tuple[float, ...]] = {}
    for lane, graded in block.lanes.items():
        found = [trial.grades.get(name) for trial in graded]
        scores[lane] = tuple(
            grade.score
            for grade in found
            if grade is not None and grade.state is GradeState.SCORED and grade.score is not None
        )
    unscored = {lane: len(graded) - len(scores[lane]) for lane, graded in block.lanes.items()}
    return Sample(
        old=scores.get(Lane.OLD, ()),
        new=scores.get(Lane.NEW, ()),
        again=scores.get(Lane.OLD2, ()),
        old_unscored=unscored.get(Lane.OLD, 0),
        new_unscored=unscored.get(Lane.NEW, 0),
    )


def _work(name: str, run: Run, blocks: Sequence[_Block], settings: Settings, gated: bool) -> _Metric:
    """One metric over the items it applies to."""
    gate = settings.gate
    held = [block for block in blocks if _applies(name, block)]
    samples = [_sample(name, block) for block in held]
    scale = Scale.of(score for sample in samples for score in (*sample.old, *sample.new, *sample.again))
    null = null_model(samples, scale)
    if all(lane in run.lanes for lane in _SIDES):
        judged = judge(samples, scale, null, min_delta=gate.min_delta, confidence=gate.confidence)
    else:
        alone = Lane.NEW if Lane.NEW in run.lanes else Lane.OLD
        judged = [
            judge_alone(sample.new, sample.new_unscored)
            if alone is Lane.NEW
            else judge_alone(sample.old, sample.old_unscored)
            for sample in samples
        ]
    by_item = {
        block.item.id: ItemMetric(
            old=sample.old_mean,
            new=sample.new_mean,
            delta=sample.delta,
            verdict=verdict.verdict,
            reason=_reason(name, block, sample, verdict),
        )
        for block, sample, verdict in zip(held, samples, judged, strict=True)
    }
    return _Metric(
        delta=_delta(name, run, held, samples, scale, null, judged, settings, gated),
        by_item=by_item,
        null=null,
    )


def _delta(
    name: str,
    run: Run,
    held: Sequence[_Block],
    samples: Sequence[Sample],
    scale: Scale,
    null: noise.Null | None,
    judged: Sequence[Judged],
    settings: Settings,
    gated: bool,
) -> MetricDelta:
    one_lane = not all(lane in run.lanes for lane in _SIDES)
    pairs = [
        (block.item, sample, delta)
        for block, sample in zip(held, samples, strict=True)
        if (delta := sample.delta) is not None
    ]
    deltas = [delta for _, _, delta in pairs]
    grouped = paired.clusters(deltas, [cluster(item) for item, _, _ in pairs])
    confidence, reach = settings.gate.confidence, scale.reach
    se = paired.standard_error(grouped)
    bounds = [pair for sample in samples if (pair := sample.delta_bounds(scale.low, scale.high)) is not None]
    verdicts = [one.verdict for one in judged]
    counted = samples if one_lane else [sample for _, sample, _ in pairs]
    return MetricDelta(
        old=_mean([value for sample in counted if (value := sample.old_mean) is not None]),
        new=_mean([value for sample in counted if (value := sample.new_mean) is not None]),
        delta=_mean(deltas),
        se=se,
        ci=paired.interval(grouped, confidence=confidence, reach=reach, seed=run.seed),
        p=paired.sign_flip(grouped, seed=run.seed),
        mde=power.smallest_effect(se, len(grouped.sums), confidence=confidence, reach=reach),
        noise=None if null is None else null.noise * reach,
        bounds=None
        if not bounds
        else (
            math.fsum(low for low, _ in bounds) / len(bounds),
            math.fsum(high for _, high in bounds) / len(bounds),
        ),
        month=paired.weighted_mean(deltas, [item.weight for item, _, _ in pairs]) if run.sample else None,
        improved=verdicts.count(Verdict.IMPROVED),
        regressed=verdicts.count(Verdict.REGRESSED),
        unchanged=verdicts.count(Verdict.UNCHANGED),
        inconclusive=verdicts.count(Verdict.INCONCLUSIVE),
        pass_hat_k={lane: paired.pass_hat_k(_outcomes(name, held, lane)) for lane in run.lanes},
        gated=gated,
    )


def _outcomes(name: str, held: Sequence[_Block], lane: Lane) -> list[list[bool]]:
    return [
        [
            grade.passed
            for trial in block.lanes[lane]
            if (grade := trial.grades.get(name)) is not None and grade.passed is not None
        ]
        for block in held
    ]


def _reason(name: str, block: _Block, sample: Sample, judged: Judged) -> str:
    """`old 3/3, new 0/3: called cancel_order without get_order_status first`."""
    parts = []
    for lane, scores, unscored in (
        (Lane.OLD, sample.old, sample.old_unscored),
        (Lane.NEW, sample.new, sample.new_unscored),
    ):
        if lane in block.lanes:
            parts.append(f"{lane.value} {_tally(scores, unscored)}")
    text = ", ".join(parts)
    worse = Lane.OLD if judged.verdict is Verdict.IMPROVED else Lane.NEW
    said = _said(name, block, worse) or _said(name, block, Lane.OLD if worse is Lane.NEW else Lane.NEW)
    if said:
        text += f": {said}"
    return f"{text} ({judged.note})" if judged.note else text


def _tally(scores: Sequence[float], unscored: int) -> str:
    if not scores:
        return "without a score"
    if all(score in (0.0, 1.0) for score in scores):
        text = f"{sum(score >= 1 for score in scores)}/{len(scores)}"
    else:
        text = f"{math.fsum(scores) / len(scores):.2f}"
    return f"{text} and {unscored} without a score" if unscored else text


def _said(name: str, block: _Block, lane: Lane) -> str | None:
    """What the first failing trial of a lane did wrong: its grade's reason, else why it errored."""
    for trial in block.lanes.get(lane, ()):
        grade = trial.grades.get(name)
        if grade is not None and not grade.passed and grade.reason:
            return f"{lane.value}: {grade.reason}" if lane is Lane.OLD else grade.reason
    for trial in block.lanes.get(lane, ()):
        if trial.trial.status.is_error:
            why = f" ({trial.trial.reason})" if trial.trial.reason else ""
            return f"{lane.value} ended in {trial.trial.status.value}{why}"
    return None


def _verdicts(blocks: Sequence[_Block], worked: dict[str, _Metric]) -> tuple[ItemVerdict, ...]:
    items = []
    for block in blocks:
        metrics = {
            name: metric.by_item[block.item.id]
            for name, metric in worked.items()
            if block.item.id in metric.by_item
        }
        verdict = combine(m.verdict for m in metrics.values()) if metrics else Verdict.INCONCLUSIVE
        items.append(ItemVerdict(item=block.item, verdict=verdict, metrics=metrics, lanes=block.lanes))

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


def _noise(run: Run, known: bool) -> Noise:
    if not known:
        return Noise.UNKNOWN
    return Noise.AA if Lane.OLD2 in run.lanes else Noise.WITHIN_LANE


def _warnings(
    run: Run,
    counts: Counts,
    deltas: dict[str, MetricDelta],
    kind: Noise,
    errors: int,
    settings: Settings,
    judge: Standing,
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
    if stored.judges & deltas.keys() and judge.complaint:
        yield judge.complaint


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
