"""Comparisons of two responses: the judge picks the better one, twice, in both orders.

    vote    who was better, seen from the new version: 1 (new), 0.5 (neither), 0 (old). Vote 0 saw the old
            response first, vote 1 the new one
    grade   the result of both votes; where they disagree, the order decided and not the responses: a tie, 0.5

Models prefer the first (or the last) response by a margin that differs from pair to pair, so one order alone
is weak evidence.

Trial n of the old lane and trial n of the new one are a pair where both ended `ok`. The result is stored as
two grades of the metric `pairwise`: the new trial's score and, for the old trial, 1 minus it. So the new
lane's mean is its win rate (ties count half), and the metric's change is wins less losses. Of several new
lanes each is compared with the old one; there the old trial keeps the grade of its comparison with `new`, and
the others follow from those of the candidates (`reading.opposite_grade`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.diff.graders.base import PAIRWISE
from replaydiff.diff.judge import prompt
from replaydiff.diff.judge.judge import Judge, grader_version
from replaydiff.diff.judge.prompt import FIRST, SECOND
from replaydiff.diff.judge.votes import (
    Question,
    VoteSource,
    VoteSummary,
    ask,
    missing_indices,
    read_answer,
    unreadable,
)
from replaydiff.diff.reading import TIE, items_with_trials, opposite_grade
from replaydiff.replay.llm.base import ModelReply
from replaydiff.replay.model import Grade, GradeState, Item, Lane, RunRecord, Status, Trial, Vote
from replaydiff.replay.store.grades import iter_grades

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ORDERS = 2


def read(reply: ModelReply, index: int) -> Vote:
    """Return the vote of an answer; what fails becomes its state."""
    answer = read_answer(reply, index, "better")
    if isinstance(answer, Vote):
        return answer
    better, reason = answer
    if better is None:
        return Vote(index=index, state=GradeState.ABSTAINED, reason=reason)
    if better not in (FIRST, SECOND, "tie"):
        return unreadable(index, reply.text)
    new = SECOND if index == 0 else FIRST
    score = TIE if better == "tie" else float(better == new)
    return Vote(index=index, state=GradeState.SCORED, score=score, reason=reason)


def summarize_votes(votes: Sequence[Vote]) -> VoteSummary:
    """Return one grade of both votes, seen from the new version."""
    failed = [vote for vote in votes if vote.score is None]
    if failed or len(votes) < ORDERS:
        states = {vote.state for vote in failed}
        state = failed[0].state if len(failed) == ORDERS and len(states) == 1 else GradeState.ABSTAINED
        reason = failed[0].reason if failed else "only one order was asked"
        return VoteSummary(state=state, score=None, passed=None, reason=reason, spread=None)
    scores = [vote.score for vote in votes if vote.score is not None]
    agreed = min(scores) == max(scores)
    reason = votes[0].reason if agreed else "the two orders disagree, so neither is better"
    score = scores[0] if agreed else TIE
    return VoteSummary(
        state=GradeState.SCORED,
        score=score,
        passed=score >= TIE,
        reason=reason,
        spread=max(scores) - min(scores),
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trials of one item, with the valid votes on them."""

    item: Item
    old: Trial
    new: Trial
    have: tuple[Vote, ...]

    @property
    def is_equal(self) -> bool:
        """Return whether there is nothing to choose between."""
        return prompt.same_document(self.item, self.old, self.new)

    def text(self, index: int) -> str:
        """Return the user prompt of one vote: the first is shown the old response first."""
        first, second = (self.old, self.new) if index == 0 else (self.new, self.old)
        return prompt.user_prompt(prompt.pair_document(self.item, first, second))


def pairs(
    con: DuckDBPyConnection, run: RunRecord, judge: str, vote_states: tuple[GradeState, ...]
) -> Iterator[Pair]:
    """Yield the pairs that this judge has not compared in both orders, in the order of the items."""
    candidates = [lane for lane in run.lanes if lane.is_new]
    if Lane.OLD not in run.lanes or not candidates:
        return
    earlier = {
        (grade.item_id, grade.lane, grade.trial): tuple(
            vote for vote in grade.votes if vote.state in vote_states
        )
        for grade in iter_grades(con, run.id)
        if (grade.grader, grade.grader_version) == (PAIRWISE, judge) and grade.lane.is_new
    }
    for item, trials in items_with_trials(con, run):
        ended = {
            (trial.lane, trial.index): trial
            for trial in trials
            if trial.status is Status.OK and trial.misfit is None
        }
        for (lane, index), new in ended.items():
            old = ended.get((Lane.OLD, index))
            have = earlier.get((item.id, lane, index), ())
            if lane.is_new and old is not None and len(have) < ORDERS:
                yield Pair(item, old, new, have)


def question(judge: Judge, text: str, index: int) -> Question:
    """Return the question for a comparison of the two responses in a user prompt."""
    name, system = grader_version(judge.pairwise_id), prompt.pair_system_prompt(judge.rubric)
    return ask(judge, name, text, index, system=system, schema=prompt.PAIR_SCHEMA, read=read)


class PairComparer:
    """Asks one judge for one pair after another. For one event loop."""

    def __init__(self, judge: Judge, asking: VoteSource) -> None:
        """Compare with `judge`, whose votes come from `asking`."""
        self._grader, self._judge, self._asking = judge, judge.pairwise_id, asking

    async def compare(self, pair: Pair) -> tuple[tuple[Grade, ...], int, float | None]:
        """Return the grades of both trials, the number of requested votes, and their cost (None if unknown).

        No grades where no vote may be asked for.

        Raises:
            ReplayError: no call can succeed.
        """
        if pair.is_equal:
            tie = tuple(Vote(index=index, state=GradeState.SCORED, score=TIE) for index in range(2))
            return self._grades(pair, tie, 0.0, "the same calls and response, word for word"), 0, 0.0
        received = [
            received_vote
            for index in missing_indices(pair.have, ORDERS)
            if (received_vote := await self._asking.vote(question(self._grader, pair.text(index), index)))
            is not None
        ]
        if not received:
            return (), 0, 0.0
        costs = [received_vote.priced.cost_usd for received_vote in received]
        cost = None if None in costs else sum(cost for cost in costs if cost)
        votes = sorted(
            (*pair.have, *(received_vote.priced.vote for received_vote in received)),
            key=lambda vote: vote.index,
        )
        return (
            self._grades(pair, tuple(votes), cost, None),
            sum(received_vote.new for received_vote in received),
            cost,
        )

    def _grades(
        self, pair: Pair, cast: tuple[Vote, ...], cost: float | None, why: str | None
    ) -> tuple[Grade, ...]:
        summary = summarize_votes(cast)
        judge = self._judge
        new = Grade(
            run_id=pair.new.run_id,
            item_id=pair.item.id,
            lane=pair.new.lane,
            trial=pair.new.index,
            grader=PAIRWISE,
            grader_version=grader_version(judge),
            state=summary.state,
            score=summary.score,
            passed=summary.passed,
            reason=why or summary.reason,
            detail={
                "model": judge.model,
                "prompt_hash": judge.prompt_hash,
                "rubric_hash": judge.rubric_hash,
                "spread": summary.spread,
            },
            votes=cast,
            cost_usd=cost,
        )
        # The old trial has one grade: its comparisons with other candidates follow from theirs.
        return (opposite_grade(new), new) if new.lane == Lane.NEW else (new,)
