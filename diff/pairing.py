"""Which pairs of old and new trials the judge has not compared yet; ask it, and keep what it says.

Trial n of the old lane and trial n of the new one are a pair where both ended `ok`. What the judge says is
kept as two grades of the metric `pairwise`: the new trial's, 1 where it is better, 0.5 for a tie, 0 where it
is worse; and the old trial's, which is the rest to 1. So the new lane's mean is its win rate (ties count
half), and the metric's change is wins less losses, with the interval of any paired change: half of it, and
0.5 added, is the win rate's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from diff.judge import pairwise, prompt, votes
from diff.stored import PAIRWISE
from diff.walk import by_item
from replay.llm.base import Model, ModelRequest
from replay.llm.budget import Budget
from replay.model import Grade, GradeState, Item, JudgeId, Lane, Message, Run, Status, Trial, Vote
from replay.store.grades import iter_grades

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trials of one item, and the votes on them that stand."""

    item: Item
    old: Trial
    new: Trial
    have: tuple[Vote, ...]

    @property
    def same(self) -> bool:
        """Whether there is nothing to choose between."""
        return pairwise.same(self.item, self.old, self.new)


def pairs(
    con: DuckDBPyConnection, run: Run, version: str, standing: tuple[GradeState, ...]
) -> Iterator[Pair]:
    """The pairs of a run that this judge has not compared in both orders, in the order of the items."""
    if not {Lane.OLD, Lane.NEW} <= run.lanes.keys():
        return
    earlier = {
        (grade.item_id, grade.trial): tuple(vote for vote in grade.votes if vote.state in standing)
        for grade in iter_grades(con, run.id)
        if (grade.grader, grade.grader_version, grade.lane) == (PAIRWISE, version, Lane.NEW)
    }
    for item, trials in by_item(con, run):
        ended = {(trial.lane, trial.index): trial for trial in trials if trial.status is Status.OK}
        for (lane, index), old in ended.items():
            new = ended.get((Lane.NEW, index))
            have = earlier.get((item.id, index), ())
            if lane is Lane.OLD and new is not None and len(have) < pairwise.ORDERS:
                yield Pair(item, old, new, have)


class Comparing:
    """Asks one model for one pair after another. For one event loop."""

    def __init__(
        self, model: Model, judge: JudgeId, *, name: str, rubric: str, max_tokens: int, budget: Budget
    ) -> None:
        """A comparison by `judge`, whose model is asked under `name`; every call is let in by `budget`."""
        self._model, self._judge, self._budget = model, judge, budget
        self._request = ModelRequest(
            model=name,
            system=pairwise.system_prompt(rubric),
            messages=(),
            max_tokens=max_tokens,
            schema=pairwise.SCHEMA,
        )

    async def compare(self, pair: Pair) -> tuple[tuple[Grade, ...], int, float | None]:
        """The grades of both trials, how many votes were asked for, and what they cost (None: not known).

        No grades where the budget let no vote in.

        Raises:
            ReplayError: no call can succeed.
        """
        if pair.same:
            tie = tuple(Vote(index=index, state=GradeState.SCORED, score=pairwise.TIE) for index in range(2))
            return self._grades(pair, tie, 0.0, "the same calls and response, word for word"), 0, 0.0
        taken = {vote.index for vote in pair.have}
        asked = [index for index in range(pairwise.ORDERS) if index not in taken]
        cast = [done for index in asked if (done := await self._cast(pair, index)) is not None]
        if not cast:
            return (), 0, 0.0
        costs = [done.cost_usd for done in cast]
        cost = None if None in costs else sum(cost for cost in costs if cost)
        both = sorted((*pair.have, *(done.vote for done in cast)), key=lambda vote: vote.index)
        return self._grades(pair, tuple(both), cost, None), len(cast), cost

    async def _cast(self, pair: Pair, index: int) -> votes.Cast | None:
        first, second = (pair.old, pair.new) if index == 0 else (pair.new, pair.old)
        text = prompt.user_prompt(pairwise.document(pair.item, first, second))
        if not await self._budget.take():
            return None
        cost: float | None = 0.0
        try:
            request = replace(self._request, messages=(Message(role="user", text=text),))
            done = await votes.cast(self._model, request, index, pairwise.read)
            cost = done.cost_usd
        finally:
            self._budget.settle(cost)
        return done

    def _grades(
        self, pair: Pair, cast: tuple[Vote, ...], cost: float | None, why: str | None
    ) -> tuple[Grade, ...]:
        found = pairwise.tally(cast)
        judge = self._judge
        new = Grade(
            run_id=pair.new.run_id,
            item_id=pair.item.id,
            lane=Lane.NEW,
            trial=pair.new.index,
            grader=PAIRWISE,
            grader_version=f"{judge.model}/{judge.prompt_hash}/{judge.rubric_hash}",
            state=found.state,
            score=found.score,
            passed=found.passed,
            reason=why or found.reason,
            detail={
                "model": judge.model,
                "prompt_hash": judge.prompt_hash,
                "rubric_hash": judge.rubric_hash,
                "spread": found.spread,
            },
            votes=cast,
            cost_usd=cost,
        )
        rest = None if found.score is None else 1 - found.score
        turned = tuple(replace(vote, score=None if vote.score is None else 1 - vote.score) for vote in cast)
        old = replace(
            new,
            lane=Lane.OLD,
            score=rest,
            passed=None if rest is None else rest >= pairwise.TIE,
            votes=turned,
            cost_usd=0.0,
        )
        return old, new
