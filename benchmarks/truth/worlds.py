"""Runs that break what simulations like to assume: even strata, independent trials, nothing missing, fair judges.

Each world makes one comparison by the code that a user runs, and knows what the true change is. `loss` is how
much worse the new version is.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.truth.agents import AGENTS, Truth, worse_by
from benchmarks.truth.runs import (
    RUN_ID,
    Scores,
    computed,
    diffed,
    items_of,
    looked_at,
    run_of,
    simulate,
    trials_of,
)
from replaydiff.diff.judge.calibration import LabelledResponse, compared, judge_hash
from replaydiff.diff.judge.labels import points_of
from replaydiff.diff.reading import StoredGrades
from replaydiff.diff.result import Answer, DiffResult
from replaydiff.diff.stopping import earlier_looks, new_plan, total_error
from replaydiff.replay.model import (
    Grade,
    GradeState,
    Item,
    Lane,
    Look,
    Rule,
    RunRecord,
    SampleRecord,
    ServedCall,
    Status,
    ToolCall,
    Trace,
    Trial,
)
from replaydiff.replay.sampling import draw
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.connection import open_store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PASSED, JUDGE = "score:passed", "judge"
_TRIALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one comparison answered, and what is true."""

    answer: Answer
    interval: tuple[float, float] | None
    """Of the metric that is to decide; None where it has none."""
    change: float

    @property
    def covers(self) -> bool:
        """Whether the interval holds the true change."""
        return self.interval is not None and self.interval[0] - 1e-9 <= self.change <= self.interval[1] + 1e-9


World = Callable[[np.random.Generator, float], Outcome]
"""A generator and the loss → one comparison."""


def _outcome(result: DiffResult, change: float, metric: str = PASSED) -> Outcome:
    found = result.metrics[metric]
    interval = found.ci if found.labels is None else found.labels.corrected[1:]
    return Outcome(answer=result.answer, interval=interval, change=change)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def plain(rng: np.random.Generator, loss: float, *, rate: float = 0.85, n: int = 100) -> Outcome:
    """An agent of which a share is certain and the rest mixed, three trials and A/A: nothing is wrong here."""
    old = mixed(rng, n, rate)
    truth = Truth(old=old, new=worse_by(rng, old, loss))
    scores = simulate(rng, truth, _TRIALS, again=True)
    return _outcome(diffed(truth, scores, seed=_seed(rng)), -loss)


def mixed(rng: np.random.Generator, n: int, rate: float) -> np.ndarray:
    """Pass rates of an agent with this mean that is certain about 60 % of its items."""
    return np.where(rng.random(n) < 0.6, 1.0, rng.beta(2.5, 2.5 * 0.4 / (rate - 0.6) - 2.5, n))


# --- long tail ---

_PATHS, _MONTH = 137, 3000


@cache
def _month() -> tuple[DuckDBPyConnection, np.ndarray]:
    """A store with a month of traces over 137 tool paths (Zipf 1.6, the commonest with 44 %), and their paths."""
    shares = 1 / np.arange(1, _PATHS + 1) ** 1.6
    counts = np.maximum(1, np.round(_MONTH * shares / shares.sum())).astype(int)
    paths = np.repeat(np.arange(_PATHS), counts)
    con = open_store(Path(tempfile.mkdtemp()) / "replay.duckdb")
    con.execute(
        "INSERT INTO traces BY NAME SELECT 't' || i AS trace_id, 'x' AS source, 't' || i AS source_id,"
        " 'h' AS content_hash, TIMESTAMP '2026-11-01' AS imported_at, TIMESTAMP '2026-10-05' AS started_at,"
        " false AS incomplete, 'complete' AS state, []::VARCHAR[] AS tags, []::VARCHAR[] AS media_missing,"
        " 'a question' AS input, 'a' || path || '>b' || (path % 12) AS tool_path, '{}'::JSON AS scores, '{}'::JSON AS metadata,"
        " '[]'::JSON AS messages, '[]'::JSON AS steps"
        " FROM (SELECT unnest(range(?)) AS i, unnest(?::INTEGER[]) AS path)",
        [len(paths), paths.tolist()],
    )
    return con, paths


def long_tail(rng: np.random.Generator, loss: float) -> Outcome:
    """A hundred traces of such a month; the new version fails on some of the commonest path and nowhere else."""
    con, paths = _month()
    seed, rate = _seed(rng), 0.97
    common = paths == 0
    fails = common & (rng.random(len(paths)) < loss / rate / common.mean())
    drawn = draw(con, name="simulated", size=100, seed=seed)
    number = np.array([int(item.trace_id[1:]) for item in drawn.items])
    truth = Truth(
        old=np.full(len(number), rate),
        new=np.where(fails[number], 0.0, rate),
        weight=np.array([item.weight for item in drawn.items]),
    )
    scores = simulate(rng, truth, _TRIALS, again=True)
    items = items_of(truth)
    result = computed(
        items, [*trials_of(items, scores)], run_of(truth, scores, seed), _settings(), sample=drawn.sample
    )
    return _outcome(result, -rate * float(fails.mean()))


# --- tasks that were recorded several times ---


def duplicated_tasks(rng: np.random.Generator, loss: float) -> Outcome:
    """Fifty tasks, each recorded three times a release; every trace is drawn. By the Python API, in a store."""
    tasks = 50
    old = AGENTS["70 % certain, 30 % coins"](rng, tasks)
    new = np.where(rng.random(tasks) < loss / old.mean(), 0.0, old)
    traces = [
        _recorded(f"t{task}", release, number, float(rng.random() < rates[task]))
        for release, rates in (("old", old), ("new", new))
        for task in range(tasks)
        for number in range(_TRIALS)
    ]
    return _outcome(_between_releases(traces, None, tasks * _TRIALS, _seed(rng)), float(-loss))


def _recorded(task: str, release: str, number: int, passed: float) -> Trace:
    return Trace(
        trace_id=f"{release}-{task}-{number}",
        source="simulated",
        started_at=datetime(2026, 10, 5),
        input=f"task {task}",
        final_response="done",
        release=release,
        metadata={"task": task},
        scores={"passed": passed},
    )


def _between_releases(traces: Sequence[Trace], where: str | None, size: int, seed: int) -> DiffResult:
    """Compare what two releases did with the tasks of a sample of the old one, by the Python API."""
    import replaydiff as rd
    from replaydiff.replay.store.traces import write_traces

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "replay.toml").write_text("")
        with open_store(root / ".replay" / "replay.duckdb") as con:
            write_traces(con, traces)
        condition = "release = 'old'" + (f" AND {where}" if where else "")
        _, diff = rd.open(root).compare(
            draw={"month": "2026-10", "where": condition, "size": size, "seed": seed},
            old="observed:release = 'old'",
            new="observed:release = 'new'",
            pair_by="metadata.task",
            metrics=[PASSED],
        )
        return diff.result


def chosen_failures(rng: np.random.Generator, loss: float) -> Outcome:
    """The recordings that failed are compared with what another release did with the same tasks.

    One trial of an equal version passes many of them: that they failed once is why they were chosen.
    """
    tasks = 500
    old = mixed(rng, tasks, 0.85)
    rates = {"old": old, "new": worse_by(rng, old, loss)}
    traces = [
        _recorded(f"t{task}", release, 0, float(rng.random() < of_release[task]))
        for release, of_release in rates.items()
        for task in range(tasks)
    ]
    return _outcome(_between_releases(traces, "scores.passed < 1", 100, _seed(rng)), float(-loss))


# --- what is missing, and what trials share ---


def hidden_failures(rng: np.random.Generator, loss: float) -> Outcome:
    """Four fifths of what the new version does worse ends without a score: it took a path that was not recorded."""
    n, rate = 200, 0.95
    old = np.full(n, rate)
    truth = Truth(old=old, new=worse_by(rng, old, loss))
    hidden = (truth.new < old) & (rng.random(n) < 0.8)
    scores = simulate(rng, truth, _TRIALS)
    items = items_of(truth)
    trials = [
        [
            replace(trial, status=Status.DIVERGED, scores={}) if hides and trial.lane == Lane.NEW else trial
            for trial in own
        ]
        for own, hides in zip(trials_of(items, scores), hidden, strict=True)
    ]
    result = computed(items, trials, run_of(truth, scores, _seed(rng)), _settings())
    return _outcome(result, -loss)


def lane_shock(rng: np.random.Generator, loss: float, *, spread: float = 0.1) -> Outcome:
    """Each lane has a good or a bad hour: all its items pass more or less often (sd 0.1), in the A/A lane, too."""
    old = mixed(rng, 100, 0.85)
    return _outcome(shocked(rng, old, worse_by(rng, old, loss), spread), -loss)


def shocked(rng: np.random.Generator, old: np.ndarray, new: np.ndarray, spread: float) -> DiffResult:
    """The comparison of versions with these pass rates, each lane's shifted by a normal value of sd `spread`."""
    scores = {}
    for lane, rates in {Lane.OLD: old, Lane.NEW: new, Lane.OLD2: old}.items():
        hour = np.clip(rates + spread * rng.standard_normal(), 0, 1)
        passed = rng.random((len(rates), _TRIALS)) < hour[:, None]
        scores[lane] = {"passed": passed.astype(float)}
    return diffed(Truth(old=old, new=new), scores, seed=_seed(rng))


def copied_trials(rng: np.random.Generator, loss: float) -> Outcome:
    """The trials of an item in a lane are one trial three times: a cache, or a seed for each lane."""
    old = mixed(rng, 50, 0.85)
    truth = Truth(old=old, new=worse_by(rng, old, loss))
    once = simulate(rng, truth, 1, again=True)
    scores = {
        lane: {name: np.repeat(values, _TRIALS, axis=1) for name, values in by_name.items()}
        for lane, by_name in once.items()
    }
    return _outcome(diffed(truth, scores, seed=_seed(rng)), -loss)


def optional_stopping(rng: np.random.Generator, loss: float) -> Outcome:
    """`--until-known` over 50 items of a month, and after CAN'T TELL the next command: 100 of it, and 200."""
    truth, scores, seed = _falling_sample(rng, loss)
    run: RunRecord | None = None
    before = 0
    for size in (50, 100, 200):
        part, seen = _first(size, truth, scores)
        plan = new_plan(size, () if run is None else earlier_looks(run, before, _TRIALS, 0.95))
        result, end = looked_at(part, seen, seed=seed, plan=plan)
        if result.answer is not Answer.CANNOT_TELL:
            break
        run, before = _with_look(result, end), size
    return _outcome(result, -loss)


def continued(rng: np.random.Generator, loss: float) -> Outcome:
    """50 items of a month, and after CAN'T TELL the next command, which keeps them: 100 of it, and 200."""
    truth, scores, seed = _falling_sample(rng, loss)
    result = diffed(*_first(50, truth, scores), seed=seed)
    run = result.run
    for before, size in ((50, 100), (100, 200)):
        if result.answer is not Answer.CANNOT_TELL:
            break
        earlier = earlier_looks(run, before, _TRIALS, 0.95)
        plan = new_plan(size, earlier, total=total_error(run), early=False)
        result, end = looked_at(*_first(size, truth, scores), seed=seed, plan=plan)
        run = _with_look(result, end)
    return _outcome(result, -loss)


def _with_look(result: DiffResult, items: int) -> RunRecord:
    """The run with the look that this result is of."""
    return replace(result.run, looks=(*result.run.looks, Look(items=items, answer=result.answer.value)))


def looks_without_plan(rng: np.random.Generator, loss: float) -> Outcome:
    """50 items of a month, and after CAN'T TELL 100, 150 and 200 of it, each as if it were the only look."""
    truth, scores, seed = _falling_sample(rng, loss)
    for size in (50, 100, 150, 200):
        result = diffed(*_first(size, truth, scores), seed=seed)
        if result.answer is not Answer.CANNOT_TELL:
            break
    return _outcome(result, -loss)


def _falling_sample(rng: np.random.Generator, loss: float) -> tuple[Truth, Scores, int]:
    """200 items of a large month, some of which fail from now on."""
    n = 200
    old = mixed(rng, n, 0.85)
    truth = Truth(old=old, new=np.where(rng.random(n) < loss / 0.85, 0.0, old), weight=np.full(n, 100.0))
    return truth, simulate(rng, truth, _TRIALS, again=True), _seed(rng)


def _first(size: int, truth: Truth, scores: Scores) -> tuple[Truth, Scores]:
    """The first items of a sample, as a smaller sample of it has them."""
    part = Truth(old=truth.old[:size], new=truth.new[:size], weight=np.full(size, 100.0))
    return part, {
        lane: {name: values[:size] for name, values in by_name.items()} for lane, by_name in scores.items()
    }


# --- who is harmed, what hangs together, other scales ---

_ENTERPRISE, _PRO = 0.2, 0.3
_FALL, _RISE = 0.3, 0.5


def tail_harm(rng: np.random.Generator, loss: float) -> Outcome:
    """With a loss, a fifth of the users (one plan) lose 0.3, and three tenths gain 0.5: better on average."""
    n = 100
    plan = rng.choice(3, n, p=[_ENTERPRISE, _PRO, 1 - _ENTERPRISE - _PRO])
    old = np.select([plan == 0, plan == 1], [0.9, 0.4], 0.85)
    change = np.select([plan == 0, plan == 1], [-_FALL, _RISE], 0.0) if loss else np.zeros(n)
    truth = Truth(old=old, new=old + change, weight=np.full(n, 100.0))
    scores = simulate(rng, truth, _TRIALS, again=True)
    names = ("enterprise", "pro", "free")
    items = [
        replace(item, metadata={"plan": names[number]})
        for item, number in zip(items_of(truth), plan, strict=True)
    ]
    result = computed(items, [*trials_of(items, scores)], run_of(truth, scores, _seed(rng)), _settings())
    return _outcome(result, (_PRO * _RISE - _ENTERPRISE * _FALL) if loss else 0.0)


def crossed_harm(rng: np.random.Generator, loss: float) -> Outcome:
    """With a loss, one plan in one country (16 % of the users) loses 0.6; all others gain 0.12: 0.005 better."""
    n, names = 100, ("a", "b", "c")
    plan, where = rng.choice(3, (2, n), p=[0.4, 0.3, 0.3])
    is_harmed = (plan == 0) & (where == 0)
    old = np.where(is_harmed, 0.9, 0.8)
    new = np.where(is_harmed, 0.3, 0.92) if loss else old
    truth = Truth(old=old, new=new, weight=np.full(n, 100.0))
    scores = simulate(rng, truth, _TRIALS, again=True)
    items = [
        replace(item, metadata={"plan": names[of_plan], "country": names[of_country]})
        for item, of_plan, of_country in zip(items_of(truth), plan, where, strict=True)
    ]
    result = computed(items, [*trials_of(items, scores)], run_of(truth, scores, _seed(rng)), _settings())
    return _outcome(result, 0.84 * 0.12 - 0.16 * 0.6 if loss else 0.0)


def ungraded(rng: np.random.Generator, loss: float) -> Outcome:
    """Thirty per cent of the new version's trials end without a score, whatever they would have been."""
    old = mixed(rng, 100, 0.85)
    truth = Truth(old=old, new=worse_by(rng, old, loss))
    scores = simulate(rng, truth, _TRIALS, again=True)
    items = items_of(truth)
    trials = [
        [
            replace(trial, status=Status.DIVERGED, scores={})
            if trial.lane == Lane.NEW and rng.random() < 0.3
            else trial
            for trial in own
        ]
        for own in trials_of(items, scores)
    ]
    result = computed(items, trials, run_of(truth, scores, _seed(rng)), _settings())
    return _outcome(result, -loss)


def unlinked_sessions(rng: np.random.Generator, loss: float) -> Outcome:
    """Ten conversations of ten traces whose change is common to a conversation; their ids are missing.

    Other conversations begin in between, so that their traces lie near each other in time, and not in a row.
    """
    return _unlinked(rng, loss, lambda number: 3 * number + float(rng.normal(0, 4)))


def unlinked_users(rng: np.random.Generator, loss: float) -> Outcome:
    """The same of ten users, whose traces are scattered over the month: nothing recorded tells them."""
    return _unlinked(rng, loss, lambda _: float(rng.uniform(0, 300)))


def _unlinked(rng: np.random.Generator, loss: float, minute: Callable[[int], float]) -> Outcome:
    groups, traces = 10, 10
    common = np.repeat(rng.choice([-0.15, 0.15], groups), traces)
    old = np.full(groups * traces, 0.75)
    truth = Truth(old=old, new=np.clip(old + common - loss, 0, 1), weight=np.full(len(old), 100.0))
    scores = simulate(rng, truth, _TRIALS, again=True)
    items = [
        replace(
            item,
            case_id=None,
            expectation=None,
            trace_id=item.id,
            started_at=datetime(2026, 10, 5) + timedelta(minutes=minute(number)),
        )
        for number, item in enumerate(items_of(truth))
    ]
    trials = [*trials_of(items, scores)]
    return _outcome(computed(items, trials, run_of(truth, scores, _seed(rng)), _settings()), -loss)


def one_to_five(rng: np.random.Generator, loss: float) -> Outcome:
    """Scores from 1 to 5 in whole steps; a loss is a share of that scale, so four times as large."""
    n, rate = 100, 0.85
    old = mixed(rng, n, rate)
    new = worse_by(rng, old, loss)
    truth = Truth(old=old, new=new)
    scores = {
        lane: {"passed": 1.0 + rng.binomial(4, np.repeat(rates[:, None], _TRIALS, axis=1))}
        for lane, rates in ((Lane.OLD, old), (Lane.NEW, new), (Lane.OLD2, old))
    }
    return _outcome(diffed(truth, scores, seed=_seed(rng)), -4 * loss)


def country(rng: np.random.Generator, loss: float) -> Outcome:
    """With a loss, one country of 25 (8 % of the users) breaks wholly, and all others gain 0.07: 0.02 worse."""
    n, share = 200, 0.08
    where = rng.choice(25, n, p=[share, *[(1 - share) / 24] * 24])
    old = np.full(n, 0.88)
    new = np.where(where == 0, 0.0, old + 0.07) if loss else old
    truth = Truth(old=old, new=new, weight=np.full(n, 100.0))
    scores = simulate(rng, truth, 2)
    items = [
        replace(item, metadata={"country": f"c{number}"})
        for item, number in zip(items_of(truth), where, strict=True)
    ]
    result = computed(items, [*trials_of(items, scores)], run_of(truth, scores, _seed(rng)), _settings())
    return _outcome(result, 0.92 * 0.07 - 0.08 * 0.88 if loss else 0.0)


def long_sessions(rng: np.random.Generator, loss: float) -> Outcome:
    """Sessions of geometric length, 5 items on average; the loss is in those of 15 and more alone."""
    n, longest, chance = 120, 15, 0.2
    sizes = rng.geometric(chance, n)
    session = np.repeat(np.arange(n), sizes)[:n]
    # The share of all items that are in such sessions: the mean of a size beyond `longest` over that of all.
    share = (1 - chance) ** (longest - 1) * (longest - 1 + 1 / chance) * chance
    old = np.full(n, 0.9)
    new = np.where(sizes[session] >= longest, old - loss / share, old)
    truth = Truth(old=old, new=new, session=session, weight=np.full(n, 100.0))
    scores = {
        lane: {"passed": (rng.random((n, 2)) < rates[:, None]).astype(float)}
        for lane, rates in ((Lane.OLD, old), (Lane.NEW, new))
    }
    return _outcome(diffed(truth, scores, seed=_seed(rng)), -loss)


def traded(rng: np.random.Generator, loss: float) -> Outcome:
    """A gain of 0.15 on one metric, and the loss on another that only 30 of 100 items have."""
    n, graded = 100, 30
    helpful, safe = 0.8 * mixed(rng, n, 0.85), np.full(n, 0.9)
    truth = Truth(old=safe, new=safe - loss)
    passed = simulate(rng, truth, _TRIALS)
    helps = simulate(rng, Truth(old=helpful, new=helpful + 0.15), _TRIALS)
    scores = {lane: {"helpful": helps[lane]["passed"], "passed": passed[lane]["passed"]} for lane in passed}
    items = items_of(truth)
    trials = [
        [
            trial if number < graded else replace(trial, scores={"helpful": trial.scores["helpful"]})
            for trial in of_item
        ]
        for number, of_item in enumerate(trials_of(items, scores))
    ]
    result = computed(items, trials, run_of(truth, scores, _seed(rng)), _settings())
    return _outcome(result, -loss)


def named_after_a_fault(rng: np.random.Generator, loss: float) -> Outcome:
    """A score of hallucination, of which nobody said that lower is better; a loss is that it grows."""
    old = mixed(rng, 100, 0.85)
    truth = Truth(old=1 - old, new=1 - worse_by(rng, old, loss))
    scores = {
        lane: {"hallucination": values["passed"]} for lane, values in simulate(rng, truth, _TRIALS).items()
    }
    return _outcome(diffed(truth, scores, seed=_seed(rng)), loss, "score:hallucination")


# --- judges ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeErrors:
    """How often a judge passes what is good and fails what is poor, in both lanes."""

    clears: Mapping[Lane, float]
    catches: Mapping[Lane, float]


def _alike(clears: float, catches: float) -> JudgeErrors:
    return JudgeErrors(
        clears={Lane.OLD: clears, Lane.NEW: clears}, catches={Lane.OLD: catches, Lane.NEW: catches}
    )


FAIR, CONSTANT = _alike(0.98, 0.95), _alike(1.0, 0.0)
LENIENT = JudgeErrors(clears={Lane.OLD: 0.95, Lane.NEW: 1.0}, catches={Lane.OLD: 0.95, Lane.NEW: 0.3})
_SCORE = {True: 1.0, False: 1 / 3}
_IDENTITY = {"model": "m", "prompt_hash": "p", "rubric_hash": "r"}


def judged_by(errors: JudgeErrors, pairs: int = 100, rate: float = 0.8, labelled_run: str = RUN_ID) -> World:
    """A judge decides over 300 items, of which `pairs` have labels; losses are on its scale, 1/3 to 1.

    Labels of another run are of the old version's answers in both lanes, of which the judge is right.
    """

    def world(rng: np.random.Generator, loss: float) -> Outcome:
        n = 300
        old = rng.random(n) < rate
        new = old & (rng.random(n) >= 1.5 * loss / rate)
        items = items_of(Truth(old=old, new=new))
        graded, rows, trials = {}, [], []
        for number, item in enumerate(items):
            trials.append([])
            for lane, good in ((Lane.OLD, bool(old[number])), (Lane.NEW, bool(new[number]))):
                right = errors.clears[lane] if good else errors.catches[lane]
                seen = good if rng.random() < right else not good
                grade = Grade(
                    run_id=RUN_ID, item_id=item.id, lane=lane, trial=0, grader=JUDGE, grader_version="p1",
                    score=_SCORE[seen], passed=seen, state=GradeState.SCORED, detail=dict(_IDENTITY),
                )  # fmt: skip
                graded[item.id, lane, 0] = {JUDGE: grade}
                trials[-1].append(Trial(run_id=RUN_ID, item_id=item.id, lane=lane, index=0, status=Status.OK))
                if number < pairs:
                    if labelled_run != RUN_ID:
                        good = seen = bool(old[number])
                    rows.append(
                        LabelledResponse(
                            run=labelled_run, item=item.id, lane=str(lane), trial=0,
                            label=points_of(_SCORE[good]), judge=points_of(_SCORE[seen]), score=_SCORE[seen],
                        )
                    )  # fmt: skip
        run = run_of(
            Truth(old=old, new=new),
            {lane: {"x": np.zeros((n, 1))} for lane in (Lane.OLD, Lane.NEW)},
            _seed(rng),
        )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cases" / "calibration" / f"{judge_hash('m', 'p', 'r')}.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(_IDENTITY | compared(rows)))
            settings = replace(_settings(Path(folder)), gate=replace(_settings().gate, metrics=(JUDGE,)))
            stored = StoredGrades(by_trial=graded, versions={JUDGE: "p1"})
            result = computed(items, trials, run, settings, grades=stored)
        return _outcome(result, -loss, JUDGE)

    return world


# --- likeness to a recording ---

_LOOK_UP = ToolCall(name="get_order", args={"id": "1"}, result="shipped")


def _calls_world(calls: Callable[[Lane, int, np.random.Generator], Sequence[ToolCall]]) -> World:
    """Sixty sampled traces whose versions are as good as each other, and what they call in each lane."""

    def world(rng: np.random.Generator, loss: float) -> Outcome:  # noqa: ARG001 - they are equal
        items, trials = [], []
        for number in range(60):
            item = Item(
                id=f"i{number:03}",
                trace_id=f"i{number:03}",
                input=f"my order {number}",
                tape=tuple(calls(Lane.OLD, number, rng)),
            )
            items.append(item)
            trials.append(
                [
                    Trial(
                        run_id=RUN_ID,
                        item_id=item.id,
                        lane=lane,
                        index=index,
                        status=Status.OK,
                        final_response="done",
                        served=tuple(
                            ServedCall(call=call, rule=Rule.TAPE) for call in calls(lane, number, rng)
                        ),
                    )
                    for lane in (Lane.OLD, Lane.NEW, Lane.OLD2)
                    for index in range(_TRIALS)
                ]
            )
        truth = Truth(old=np.ones(60), new=np.ones(60), weight=np.full(60, 20.0))
        scores = {lane: {"x": np.zeros((60, _TRIALS))} for lane in (Lane.OLD, Lane.NEW, Lane.OLD2)}
        sample = SampleRecord(
            name="simulated", created_at=datetime(2026, 11, 1), month="2026-10", where=None,
            by=("tool_path",), size=60, seed=0, population=1200,
        )  # fmt: skip
        result = computed(items, trials, run_of(truth, scores, _seed(rng)), _settings(), sample=sample)
        return _outcome(result, 0.0, "tool_calls")

    return world


def _free_text(_lane: Lane, _number: int, rng: np.random.Generator) -> Sequence[ToolCall]:
    summary = ToolCall(
        name="transfer", args={"summary": f"words {rng.integers(10**9)}"}, result="ok", index=1
    )
    return (_LOOK_UP, summary)


def _adds_a_call(lane: Lane, _number: int, _rng: np.random.Generator) -> Sequence[ToolCall]:
    more = (ToolCall(name="get_policy", args={}, result="30 days", index=1),) if lane == Lane.NEW else ()
    return (_LOOK_UP, *more)


free_text = _calls_world(_free_text)
"""Both versions end with a summary in words of their own."""
adds_a_call = _calls_world(_adds_a_call)
"""The new version also looks the policy up, every time: another behaviour, and no worse."""


def _settings(root: Path = Path("/nonexistent")) -> Settings:
    return Settings(root=root)
