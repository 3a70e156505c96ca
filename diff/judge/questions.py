"""Questions to a judge about a run that have no vote yet, and about what they will cost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replaydiff.diff.graders.base import JUDGE, PAIRWISE
from replaydiff.diff.judge import pairwise, prompt, votes
from replaydiff.diff.judge.judge import Judge, grader_version
from replaydiff.diff.judge.pairwise import Pair
from replaydiff.diff.judge.votes import CAST_STATES, Key, Question
from replaydiff.replay.llm.base import ModelRequest
from replaydiff.replay.model import (
    Grade,
    Item,
    Json,
    Lane,
    Media,
    Message,
    RunRecord,
    Status,
    Trial,
    Usage,
    Vote,
    media_in,
)
from replaydiff.replay.store.grades import iter_grades, read_votes
from replaydiff.replay.store.item_trials import iter_trials
from replaydiff.replay.store.runs import get_run, iter_items
from replaydiff.replay.turns import reached

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class GradingTask:
    """A trial that ended `ok`."""

    item: Item
    trial: Trial
    have: tuple[Vote, ...]
    """Valid votes of an earlier call."""
    paid_usd: float | None
    """What those cost; None where it is not known."""

    def questions(self, judge: Judge) -> list[Question]:
        """Return what is to be asked."""
        text = prompt.user_prompt(prompt.document(self.item, self.trial))
        first = votes.ask(
            judge,
            judge.version,
            text,
            0,
            system=prompt.system_prompt(judge.rubric),
            schema=prompt.SCHEMA,
            read=votes.read,
        )
        return [replace(first, index=index) for index in votes.missing_indices(self.have, judge.votes)]

    def without_standard(self, judge: Judge) -> bool:
        """Return whether there is nothing to judge it by."""
        return not judge.user_rubric and not prompt.has_standard(self.item)

    def complete(self, judge: Judge) -> bool:
        """Return whether no vote is missing."""
        return len(self.have) >= judge.votes


def grading_tasks(con: DuckDBPyConnection, run: RunRecord, judge: Judge) -> Iterator[GradingTask]:
    """Yield the trials that ended `ok`, in the order of the items; none for a judge of pairs alone."""
    if not judge.votes:
        return
    earlier = _earlier(con, run, judge)
    items = iter_items(con, run.id)
    item = next(items, None)
    for trial in iter_trials(con, run.id):
        while item is not None and item.id != trial.item_id:
            item = next(items, None)
        if item is None or reached(item, trial)[1].status is not Status.OK:
            continue
        grade = earlier.get((trial.item_id, trial.lane, trial.index))
        have = tuple(vote for vote in grade.votes if vote.state in CAST_STATES) if grade else ()
        yield GradingTask(item, trial, have, grade.cost_usd if grade else 0.0)


def pairs(con: DuckDBPyConnection, run: RunRecord, judge: Judge) -> Iterator[Pair]:
    """Yield the pairs that are not compared in both orders; none where the judge compares nothing."""
    if judge.pairwise:
        yield from pairwise.pairs(con, run, grader_version(judge.pairwise_id), CAST_STATES)


def stored_votes(con: DuckDBPyConnection, judge: Judge) -> dict[Key, Vote]:
    """Return every valid vote of this judge, from any run."""
    return {(name, *key): vote for name in judge.versions for key, vote in read_votes(con, name).items()}


def questions(
    con: DuckDBPyConnection, run: RunRecord, judge: Judge, answered: Mapping[Key, object]
) -> Iterator[Question]:
    """Yield the questions to ask about a run, each once, except those whose vote is stored."""
    requested: set[Key] = set()
    trials = (task for task in grading_tasks(con, run, judge) if not task.without_standard(judge))
    tasks: Iterator[GradingTask | Pair] = itertools.chain(trials, pairs(con, run, judge))
    for task in tasks:
        for question in task.questions(judge):
            if question.key not in answered and question.key not in requested:
                requested.add(question.key)
                yield question


def _earlier(con: DuckDBPyConnection, run: RunRecord, judge: Judge) -> dict[tuple[str, Lane, int], Grade]:
    return {
        (grade.item_id, grade.lane, grade.trial): grade
        for grade in iter_grades(con, run.id)
        if grade.grader == JUDGE and grade.grader_version == judge.version
    }


BYTES_A_TOKEN = 4
"""Of a usual text …"""
FEWEST_BYTES_A_TOKEN = 2.5
"""… and of one that is dear."""
TOKENS_OF_MEDIA = 1_600
"""Of a large picture, or a page of a document."""
USUAL_ANSWER = 120
"""Tokens of a score with a sentence or two of reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingEstimate:
    """The votes and the cost that grading a run will need."""

    votes: int
    """Questions to ask."""
    cost_usd: float | None
    """About what they cost; None where the price of the model is not known."""


def estimate(con: DuckDBPyConnection, run_id: str, judge: Judge) -> JudgingEstimate:
    """Return what grading a run completely will cost; stored votes cost nothing."""
    requested = questions(con, get_run(con, run_id), judge, stored_votes(con, judge))
    votes, cost = 0, judge.price(Usage())
    for question in requested:
        votes += 1
        price = _price(judge, question.request, BYTES_A_TOKEN, USUAL_ANSWER)
        cost = None if cost is None or price is None else cost + price
    return JudgingEstimate(votes=votes, cost_usd=cost)


def spent(con: DuckDBPyConnection, run_id: str) -> float:
    """Return the US dollars that the judge's grades of a run have cost, as far as it is known."""
    (dollars,) = con.execute(
        "SELECT coalesce(sum(cost_usd), 0) FROM grades WHERE run_id = ? AND list_contains(?, grader)",
        [run_id, [JUDGE, PAIRWISE]],
    ).fetchall()[0]
    return float(dollars)


def estimated_cost(judge: Judge, requests: Iterable[ModelRequest]) -> float | None:
    """Return the estimated cost of these questions; None where the price of the model is not known."""
    costs = [_price(judge, request, BYTES_A_TOKEN, USUAL_ANSWER) for request in requests]
    return sum(cost for cost in costs if cost is not None) if None not in costs else None


def highest_cost(judge: Judge, request: ModelRequest) -> float | None:
    """Return the most that a question costs at the first try: dear text, the longest answer."""
    return _price(judge, request, FEWEST_BYTES_A_TOKEN, request.max_tokens)


def size_of(request: ModelRequest) -> int:
    """Return the bytes of a question's texts."""
    texts = [request.system, *(turn.text for turn in request.messages if isinstance(turn, Message))]
    return len(json.dumps(request.schema)) + sum(len(text.encode("utf-8", "replace")) for text in texts)


def _media(request: ModelRequest) -> list[Media]:
    """Return the media that a question shows, each once."""
    texts: list[Json] = [turn.text for turn in request.messages if isinstance(turn, Message)]
    return list({media.sha256: media for media in media_in(texts)}.values())


def bytes_of_media(request: ModelRequest) -> int:
    """Return the bytes of base64 of the media that a question shows."""
    return sum(media.size * 4 // 3 for media in _media(request))


def _price(judge: Judge, request: ModelRequest, bytes_a_token: float, answer: int) -> float | None:
    tokens = int(size_of(request) / bytes_a_token) + 1 + len(_media(request)) * TOKENS_OF_MEDIA
    return judge.price(Usage(input_tokens=tokens, output_tokens=answer))
