"""What a run left in the store, read in one pass.

`read_blocks` yields whole blocks (items of which every lane has finished) with their graded trials, and
counts what each lane did. Grades that cost something come from the store, in one grader version a metric.

Equal values of an item's trials are held in memory once: a replay is answered from the tape, so the results
of its calls are mostly the recorded ones, over and over.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from replaydiff.diff import divergence
from replaydiff.diff.divergence import ReplayFidelity
from replaydiff.diff.graders.base import JUDGE, PAIRWISE
from replaydiff.diff.graders.registry import free_grades
from replaydiff.diff.result import Block, GradedTrial, LaneSummary
from replaydiff.replay.model import (
    Grade,
    Item,
    Lane,
    RunRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
    Version,
    VersionKind,
)
from replaydiff.replay.model.json import to_json_value
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.grades import iter_grades
from replaydiff.replay.store.runs import iter_items
from replaydiff.replay.store.trials import iter_trials

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGrades:
    """The stored grades of a run that count."""

    by_trial: Mapping[tuple[str, Lane, int], dict[str, Grade]]
    versions: Mapping[str, str]
    """Metric → the grader version its grades are of."""

    @classmethod
    def read(cls, con: DuckDBPyConnection, run: RunRecord, judges: Sequence[str] = ()) -> StoredGrades:
        """Read a run's grades.

        Of several versions of one grader, one counts, so that both lanes are held to one standard: the one
        that graded the most lanes, and of those the most trials. Of equals it is one of `judges`, those of
        the settings, else the last of the alphabet.
        """
        lanes: dict[tuple[str, str], set[Lane]] = defaultdict(set)
        trials: Counter[tuple[str, str]] = Counter()
        for grade in iter_grades(con, run.id):
            key = (grade.grader, grade.grader_version)
            lanes[key].add(grade.lane)
            trials[key] += 1
        versions: dict[str, str] = {}
        order = sorted(trials, key=lambda key: (len(lanes[key]), trials[key], key[1] in judges, key))
        for grader, version in order:
            versions[grader] = version
        by_trial: dict[tuple[str, Lane, int], dict[str, Grade]] = defaultdict(dict)
        if versions:
            for grade in iter_grades(con, run.id):
                if versions[grade.grader] == grade.grader_version:
                    by_trial[grade.item_id, grade.lane, grade.trial][grade.grader] = grade
        return cls(by_trial=dict(by_trial), versions=versions)

    def of(self, trial: Trial) -> dict[str, Grade]:
        """The stored grades of one trial, by metric name."""
        return self.by_trial.get((trial.item_id, trial.lane, trial.index), {})

    @property
    def judges(self) -> frozenset[str]:
        """Metrics that are a judge's, and gate only when calibrated."""
        return frozenset({JUDGE} & self.versions.keys())

    @property
    def judge_model(self) -> str | None:
        """The model of the judge whose grades count; None without any."""
        grade = next((grades[JUDGE] for grades in self.by_trial.values() if JUDGE in grades), None)
        model = grade.detail.get("model") if grade else None
        return model if isinstance(model, str) else None


@dataclass(slots=True)
class LaneTotals:
    """Sums over every trial of a lane, those of unfinished items included: they were paid for."""

    trials: int = 0
    errors: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    latencies: list[float] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None

    def add(self, trial: Trial) -> None:
        """Count one trial."""
        self.trials += 1
        self.statuses[trial.status.value] += 1
        if trial.status.is_error and trial.status is not Status.CANCELLED:
            self.errors += 1
        if trial.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + trial.cost_usd
        if trial.latency_ms is not None and trial.status is Status.OK:
            self.latencies.append(trial.latency_ms)
        if trial.usage is not None:
            self.input_tokens = (self.input_tokens or 0) + trial.usage.input_tokens
            self.output_tokens = (self.output_tokens or 0) + trial.usage.output_tokens

    def summary(self, version: Version, witness: ReplayFidelity) -> LaneSummary:
        """The lane as reports show it; latencies are of trials that ended `ok`.

        A recording is not a replay: an observed lane has no fidelity and agrees with nothing.
        """
        replayed = version.kind is not VersionKind.OBSERVED
        p50, p95 = (None, None)
        if self.latencies:
            p50, p95 = (float(value) for value in np.quantile(self.latencies, [0.5, 0.95]))
        return LaneSummary(
            version=to_json_value(replace(version, env={})),
            trials=self.trials,
            fidelity=witness.fidelity if replayed else None,
            statuses=dict(sorted(self.statuses.items())),
            cost_usd=self.cost_usd,
            latency_p50_ms=p50,
            latency_p95_ms=p95,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            agreement=witness.agreement if replayed else None,
            diverged=witness.diverged_share if replayed else None,
            misses=witness.missed,
        )


TIE = 0.5
"""Score of a comparison in which neither response is better."""

_encode = msgspec.json.Encoder().encode


def items_with_trials(con: DuckDBPyConnection, run: RunRecord) -> Iterator[tuple[Item, list[Trial]]]:
    """Every item of the run with its trials; both come by position, so one walk pairs them."""
    groups = groupby(iter_trials(con, run.id), key=lambda trial: trial.item_id)
    waiting = next(groups, None)
    for item in iter_items(con, run.id):
        if waiting is not None and waiting[0] == item.id:
            shared = _ValuePool(item, run)
            yield item, [shared.trial(trial) for trial in waiting[1]]
            waiting = next(groups, None)
        else:
            yield item, []


def computed_grades(con: DuckDBPyConnection, run: RunRecord, settings: Settings) -> Iterator[Grade]:
    """The grades of a run that cost nothing and so are stored nowhere."""
    for item, trials in items_with_trials(con, run):
        for trial in trials:
            yield from free_grades(item, trial, settings).values()


class _ValuePool:
    """The values of one item and its trials so far; an equal one of a later trial becomes the same object."""

    def __init__(self, item: Item, run: RunRecord) -> None:
        self._item = item
        self._run = run
        self._calls: dict[str, list[ToolCall]] = {}
        for call in item.tape:
            self._calls.setdefault(call.name, []).append(call)
        response = item.recorded_response
        self._texts = {} if response is None else {response: response}
        self._lists: dict[int, tuple[tuple[ServedCall, ...], tuple[ServedCall, ...]]] = {}
        """By the identity of a list of calls as it was read: that list, and the one in its place."""

    def trial(self, trial: Trial) -> Trial:
        response = trial.final_response
        known = self._lists.get(id(trial.served))
        if known is None:
            known = trial.served, tuple(map(self._served, trial.served))
            self._lists[id(trial.served)] = known
        # `dataclasses.replace` would take three times as long, for every trial of a run.
        return Trial(
            run_id=self._run.id,
            item_id=self._item.id,
            lane=trial.lane,
            index=trial.index,
            status=trial.status,
            reason=trial.reason,
            final_response=None if response is None else self._texts.setdefault(response, response),
            served=known[1],
            usage=trial.usage,
            cost_usd=trial.cost_usd,
            latency_ms=trial.latency_ms,
            started_at=trial.started_at,
            attempts=trial.attempts,
            scores=trial.scores,
            stderr=trial.stderr,
            turns=trial.turns,
        )

    def _served(self, served: ServedCall) -> ServedCall:
        call = served.call
        known = self._calls.setdefault(call.name, [])
        same = next((other for other in known if _same_json(other, call)), None)
        if same is None:
            known.append(call)
            return served
        if same != call:
            same = replace(call, args=same.args, result=same.result)
        own = self._item.trace_id
        return ServedCall(
            call=same,
            rule=served.rule,
            from_trace_id=own if served.from_trace_id == own else served.from_trace_id,
            note=served.note,
        )


def _same_json(one: ToolCall, other: ToolCall) -> bool:
    """Whether two calls have the very same arguments and result."""
    if one.args != other.args or one.result != other.result:
        return False
    # `1 == 1.0 == True` in Python, and not in JSON, which also has an order of keys.
    return _encode((one.args, one.result)) == _encode((other.args, other.result))


T = TypeVar("T")


@dataclass(slots=True)
class RunData:
    """What one walk over a run's items and trials leaves."""

    items: int
    """Items of the run, whether their blocks are whole or not."""
    blocks: list[Block]
    totals_by_lane: dict[Lane, LaneTotals]
    witnesses: dict[Lane, divergence.ReplayFidelity]
    waiting: list[Item] = field(default_factory=list)
    """Items without a whole block, and those beyond the look."""


def read_blocks(
    con: DuckDBPyConnection,
    run: RunRecord,
    settings: Settings,
    stored: StoredGrades,
    *,
    first: int | None = None,
) -> RunData:
    """Walk over the run once, grading what costs nothing; only the `first` items count, if that is given."""
    read = RunData(
        items=0,
        blocks=[],
        totals_by_lane={lane: LaneTotals() for lane in run.lanes},
        witnesses={lane: divergence.ReplayFidelity() for lane in run.lanes},
    )
    for item, trials in items_with_trials(con, run):
        read.items += 1
        trials = [trial for trial in trials if trial.lane in run.lanes]
        for trial in trials:
            read.totals_by_lane[trial.lane].add(trial)
        if not _is_complete(run, trials) or (first is not None and read.items > first):
            read.waiting.append(item)
            continue
        lanes: dict[Lane, list[GradedTrial]] = {lane: [] for lane in run.lanes}
        for trial in trials:
            if trial.status is Status.CANCELLED:
                continue
            read.witnesses[trial.lane].add(item, trial)
            grades = {**free_grades(item, trial, settings), **stored.of(trial)}
            lanes[trial.lane].append(GradedTrial(trial=trial, grades=grades))
        read.blocks.append(Block(item=item, lanes={lane: tuple(graded) for lane, graded in lanes.items()}))
    return read


def with_candidate_as_new(run: RunRecord, read: RunData, candidate: Lane) -> tuple[RunRecord, RunData]:
    """The run and what was read of it, with this candidate as its lane `new` and without the others."""

    def kept(lanes: Mapping[Lane, T]) -> dict[Lane, T]:
        return {
            Lane.NEW if lane == candidate else lane: value
            for lane, value in lanes.items()
            if lane == candidate or not lane.is_new
        }

    def renamed(block: Block) -> Block:
        lanes = kept(_pairwise_grades_against(candidate, block.lanes))
        lanes[Lane.NEW] = tuple(
            replace(graded, trial=replace(graded.trial, lane=Lane.NEW)) for graded in lanes.get(Lane.NEW, ())
        )
        return replace(block, lanes=lanes)

    return replace(run, lanes=kept(run.lanes)), RunData(
        items=read.items,
        blocks=[renamed(block) for block in read.blocks],
        totals_by_lane=kept(read.totals_by_lane),
        witnesses=kept(read.witnesses),
        waiting=read.waiting,
    )


def _pairwise_grades_against(
    candidate: Lane, lanes: Mapping[Lane, tuple[GradedTrial, ...]]
) -> Mapping[Lane, tuple[GradedTrial, ...]]:
    """The lanes with the judge's comparisons of the old trials being those with this candidate."""
    if candidate == Lane.NEW or not any(PAIRWISE in one.grades for lane in lanes.values() for one in lane):
        return lanes
    grades_by_trial = {one.trial.index: one.grades.get(PAIRWISE) for one in lanes.get(candidate, ())}

    def turned(graded: GradedTrial) -> GradedTrial:
        grades = {name: grade for name, grade in graded.grades.items() if name != PAIRWISE}
        new = grades_by_trial.get(graded.trial.index)
        return replace(graded, grades=grades if new is None else grades | {PAIRWISE: rest_of(new)})

    return {**lanes, Lane.OLD: tuple(turned(one) for one in lanes.get(Lane.OLD, ()))}


def rest_of(new: Grade) -> Grade:
    """The old trial's grade of the same comparison."""
    rest = None if new.score is None else 1 - new.score
    votes = (replace(vote, score=None if vote.score is None else 1 - vote.score) for vote in new.votes)
    return replace(
        new,
        lane=Lane.OLD,
        score=rest,
        passed=None if rest is None else rest >= TIE,
        votes=tuple(votes),
        cost_usd=0.0,
    )


def _is_complete(run: RunRecord, trials: Sequence[Trial]) -> bool:
    """Whether every lane of the item's block has finished. An observed lane has what was recorded."""
    for lane, version in run.lanes.items():
        finished = sum(trial.lane == lane and trial.status is not Status.CANCELLED for trial in trials)
        if finished < (1 if version.kind is VersionKind.OBSERVED else run.trials):
            return False
    return True
