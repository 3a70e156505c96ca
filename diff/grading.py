"""Which trials the judge has not graded yet; ask it, and keep its grades.

Only trials that ended `ok` are judged, and only where the item (or a rubric of the user's own) gives
something to judge by. Grades are written as they come, so an interruption loses none but those being asked
for; the next call goes on. A grade with fewer votes than are now wanted, or with failed ones, is completed:
votes that were paid for are never asked for again. Within one call, trials with the same material (same
conversation, calls and response) share their votes.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from diff.judge import pairwise, prompt
from diff.judge.family import kinship
from diff.judge.panel import Ballot, Panel
from diff.judge.prompt import PASS, POINTS
from diff.judge.votes import SIMILAR, tally
from diff.pairing import Comparing, Pair, pairs
from diff.stored import JUDGE
from replay.errors import SettingsError
from replay.llm import anthropic, openai_compatible, prices
from replay.llm.base import Model
from replay.llm.budget import Budget
from replay.model import Grade, GradeState, Item, JudgeId, Lane, Status, Trial, Vote
from replay.settings import Settings
from replay.store.grades import iter_grades, write_grades
from replay.store.runs import get_run, iter_items
from replay.store.trials import iter_trials

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

WRITE_AFTER_S = 1.0
"""Grades are kept at least this often while some come in."""
WRITE_AFTER = 50
"""Or as soon as there are this many."""

_STANDING = (GradeState.SCORED, GradeState.ABSTAINED, GradeState.REFUSED, GradeState.TRUNCATED)
"""States of a vote that was cast; one that ended in an error is asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A judge, ready to be asked."""

    id: JudgeId
    """What its grades are bound to. Its model is named with its place where that is this machine."""
    model: str
    rubric: str
    own_rubric: bool
    """Whether the rubric is the user's: it may judge where an item brings nothing to hold a response to."""
    votes: int
    max_tokens: int
    concurrency: int
    """Calls in flight at once."""
    connect: Callable[[], AbstractAsyncContextManager[Model]]
    pairwise: bool = False
    """Whether it also compares old and new trials, pair by pair."""
    notes: tuple[str, ...] = ()
    """Sentences on the model: a price that is not known, an announced end."""

    @property
    def version(self) -> str:
        """The grader version of its grades: model, prompt and rubric. More votes are no other judge."""
        return _version(self.id)

    @property
    def of_pairs(self) -> JudgeId:
        """What its comparisons are bound to: the same model and rubric, another prompt."""
        return replace(self.id, prompt_hash=pairwise.prompt_hash())


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the grading is."""

    done: int
    """Trials that have been looked at, those that needed nothing included."""
    total: int
    spent_usd: float


@dataclass(slots=True, kw_only=True)
class GradingReport:
    """What one call of `grade_run` did."""

    graded: int = 0
    """Trials that got a grade, or a more complete one."""
    kept: int = 0
    """Trials whose grade was complete already."""
    without_standard: int = 0
    """Trials of items that bring nothing to judge by."""
    left: int = 0
    """Trials that were not judged because the budget was spent."""
    calls: int = 0
    """Votes that were asked for."""
    shared: int = 0
    """Trials that took the votes of another with the same material."""
    states: Counter[GradeState] = field(default_factory=Counter)
    """Of the trials that got a grade."""
    pairs: int = 0
    """Pairs of an old and a new trial that were compared."""
    cost_usd: float | None = 0.0
    """None where the price of the model is not known."""
    first_failure: str | None = None
    """Why the first vote that failed did."""
    warnings: tuple[str, ...] = ()


def judge_from(settings: Settings) -> Judge | None:
    """The judge of `[judge]`; None where no model is named there: then there is no judge.

    Raises:
        CredentialsError: a model is named and no key is set.
        SettingsError: the rubric cannot be read.
    """
    section = settings.judge
    if section.model is None:
        return None
    model, base_url = section.model, section.base_url
    chat = section.provider == "openai"
    (openai_compatible if chat else anthropic).check_credentials(base_url)
    rubric = _rubric(settings)
    # What answers on this machine is not the model whose name it bears: its grades are no other's. Nor need
    # two hosts mean the same by a name.
    local = anthropic.is_loopback(base_url)
    host = openai_compatible.place(base_url) if chat else None
    named = f"{model} on loopback" if local else f"{model} at {host}" if host else model
    notes = (
        None if local else prices.doubt(model, settings.prices),
        None if chat else anthropic.retirement(model),
    )
    connect = openai_compatible.connect if chat else anthropic.connect
    return Judge(
        id=JudgeId(model=named, prompt_hash=prompt.prompt_hash(), rubric_hash=prompt.digest(rubric)),
        model=model,
        rubric=rubric,
        own_rubric=section.rubric is not None,
        votes=section.votes,
        max_tokens=section.max_tokens,
        concurrency=section.concurrency,
        pairwise=section.pairwise,
        connect=lambda: connect(base_url=base_url, prices=settings.prices),
        notes=tuple(note for note in notes if note),
    )


def _rubric(settings: Settings) -> str:
    named = settings.judge.rubric
    path = prompt.BUILT_IN_RUBRIC if named is None else settings.root / named
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"the rubric {path} cannot be read: {why}; mend [judge] rubric") from None
    if not text.strip():
        raise SettingsError(f"the rubric {path} is empty; write down what scores 1, 2 and 3")
    return text


def grade_run(
    con: DuckDBPyConnection,
    run_id: str,
    judge: Judge,
    *,
    progress: Callable[[Progress], None] | None = None,
    budget_usd: float | None = None,
) -> GradingReport:
    """Grade every `ok` trial of a run that this judge has not graded completely.

    Args:
        con: a connection that may write.
        run_id: the run.
        judge: from `judge_from`.
        progress: told after every trial.
        budget_usd: the most that this call may spend.

    Raises:
        ReplayError: no call to the model can succeed. What was graded before is kept.
    """
    return asyncio.run(_Grading(con, run_id, judge, budget_usd, progress).go())


@dataclass(frozen=True, slots=True)
class _Task:
    item: Item
    trial: Trial
    have: tuple[Vote, ...]
    """Votes of an earlier call that stand."""


class _Grading:
    """One call of `grade_run`."""

    def __init__(
        self,
        con: DuckDBPyConnection,
        run_id: str,
        judge: Judge,
        budget_usd: float | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._con, self._judge, self._progress = con, judge, progress
        self._run = get_run(con, run_id)
        self._budget = Budget(budget_usd)
        self._report = GradingReport(warnings=self._warnings())
        self._unwritten: list[Grade] = []
        self._written_at = time.monotonic()
        self._done = 0
        (self._total,) = con.execute(
            "SELECT count(*) FROM trials WHERE run_id = ? AND status = ?", [self._run.id, Status.OK.value]
        ).fetchall()[0]

    async def go(self) -> GradingReport:
        """Grade what is to be graded; connects to the model only where there is something."""
        tasks, waiting = self._tasks(), self._pairs()
        first, first_pair = next(tasks, None), next(waiting, None)
        if first is None and first_pair is None:
            return self._report
        async with self._judge.connect() as model:
            panel = Panel(
                model,
                name=self._judge.model,
                rubric=self._judge.rubric,
                size=self._judge.votes,
                max_tokens=self._judge.max_tokens,
                concurrency=self._judge.concurrency,
                budget=self._budget,
            )
            comparing = Comparing(
                model,
                self._judge.of_pairs,
                name=self._judge.model,
                rubric=self._judge.rubric,
                max_tokens=self._judge.max_tokens,
                budget=self._budget,
            )
            work = itertools.chain([first] if first else [], tasks)
            pair_work = itertools.chain([first_pair] if first_pair else [], waiting)
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._judge.concurrency):
                        group.create_task(self._work(panel, work, comparing, pair_work))
            except BaseExceptionGroup as failures:
                raise _first(failures) from None
            finally:
                self._write()
        return self._report

    def _warnings(self) -> tuple[str, ...]:
        kin = kinship(self._judge.model, [version.model for version in self._run.lanes.values()])
        return (*self._judge.notes, *([kin] if kin else []))

    def _tasks(self) -> Iterator[_Task]:
        """What is to be graded, in the order of the items; the rest is counted."""
        earlier = self._earlier()
        items = iter_items(self._con, self._run.id)
        item = next(items, None)
        for trial in iter_trials(self._con, self._run.id):
            while item is not None and item.id != trial.item_id:
                item = next(items, None)
            if item is None or trial.status is not Status.OK:
                continue
            have = earlier.get((trial.item_id, trial.lane, trial.index), ())
            if not self._judge.own_rubric and not prompt.has_standard(item):
                self._report.without_standard += 1
                self._advance()
            elif len(have) >= self._judge.votes:
                self._report.kept += 1
                self._advance()
            else:
                yield _Task(item, trial, have)

    def _earlier(self) -> dict[tuple[str, Lane, int], tuple[Vote, ...]]:
        """Votes that were paid for and stand, by trial."""
        return {
            (grade.item_id, grade.lane, grade.trial): tuple(v for v in grade.votes if v.state in _STANDING)
            for grade in iter_grades(self._con, self._run.id)
            if grade.grader == JUDGE and grade.grader_version == self._judge.version
        }

    def _pairs(self) -> Iterator[Pair]:
        if self._judge.pairwise:
            yield from pairs(self._con, self._run, _version(self._judge.of_pairs), _STANDING)

    async def _work(
        self, panel: Panel, tasks: Iterator[_Task], comparing: Comparing, waiting: Iterator[Pair]
    ) -> None:
        for task in tasks:
            text = prompt.user_prompt(prompt.document(task.item, task.trial))
            self._keep(task, await panel.vote(text, task.have))
            self._advance()
            self._write_in_time()
        for pair in waiting:
            grades, asked, cost = await comparing.compare(pair)
            self._unwritten += grades
            self._report.calls += asked
            self._report.pairs += bool(grades)
            self._report.left += not grades
            self._pay(cost)
            failed = next((vote for grade in grades for vote in grade.votes if vote.score is None), None)
            if failed is not None and failed.state is GradeState.ERROR:
                self._report.first_failure = self._report.first_failure or failed.reason
            self._write_in_time()

    def _write_in_time(self) -> None:
        if len(self._unwritten) >= WRITE_AFTER or time.monotonic() - self._written_at > WRITE_AFTER_S:
            self._write()

    def _pay(self, cost_usd: float | None) -> None:
        report = self._report
        known = report.cost_usd is not None and cost_usd is not None
        report.cost_usd = (report.cost_usd or 0.0) + (cost_usd or 0.0) if known else None

    def _keep(self, task: _Task, ballot: Ballot) -> None:
        report = self._report
        report.calls += ballot.asked
        report.shared += ballot.shared
        self._pay(ballot.cost_usd)
        failed = next((vote for vote in ballot.votes if vote.state is GradeState.ERROR), None)
        report.first_failure = report.first_failure or (failed.reason if failed else None)
        report.left += len(ballot.votes) < self._judge.votes
        if len(ballot.votes) == len(task.have):
            return
        result = tally(ballot.votes, self._judge.votes, _mark(task.item))
        report.graded += 1
        report.states[result.state] += 1
        judge = self._judge
        self._unwritten.append(
            Grade(
                run_id=self._run.id,
                item_id=task.trial.item_id,
                lane=task.trial.lane,
                trial=task.trial.index,
                grader=JUDGE,
                grader_version=judge.version,
                state=result.state,
                score=result.score,
                passed=result.passed,
                reason=result.reason,
                detail={
                    "model": judge.id.model,
                    "prompt_hash": judge.id.prompt_hash,
                    "rubric_hash": judge.id.rubric_hash,
                    "spread": result.spread,
                },
                votes=ballot.votes,
                cost_usd=ballot.cost_usd,
            )
        )

    def _advance(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(Progress(done=self._done, total=self._total, spent_usd=self._budget.spent_usd))

    def _write(self) -> None:
        grades, self._unwritten = self._unwritten, []
        if grades:
            write_grades(self._con, grades)
        self._written_at = time.monotonic()


def _version(judge: JudgeId) -> str:
    return f"{judge.model}/{judge.prompt_hash}/{judge.rubric_hash}"


def _mark(item: Item) -> float:
    """The score from which the judge lets a response pass."""
    expected = item.expectation
    if expected is None or expected.tolerance != "semantic_similar":
        return PASS / POINTS[-1]
    # A case with traits is held against those.
    return PASS / POINTS[-1] if expected.response_traits else SIMILAR


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a group that is none itself."""
    found = failures.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
