"""What of a run a judge has not answered yet: trials to grade, pairs to compare, the questions of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.diff import pairing
from replaydiff.diff.judge import pairwise, panel, prompt, votes
from replaydiff.diff.judge.asking import STANDING, Key, material
from replaydiff.diff.judge.judge import Judge, version
from replaydiff.diff.pairing import Pair
from replaydiff.diff.stored import JUDGE
from replaydiff.replay.llm.base import ModelReply, ModelRequest
from replaydiff.replay.model import Grade, Item, Lane, Run, Status, Trial, Vote
from replaydiff.replay.store.grades import iter_grades
from replaydiff.replay.store.runs import iter_items
from replaydiff.replay.store.trials import iter_trials
from replaydiff.replay.store.votes import read_votes

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Task:
    """A trial that ended `ok`."""

    item: Item
    trial: Trial
    have: tuple[Vote, ...]
    """Votes of an earlier call that stand."""
    paid_usd: float | None
    """What those cost; None where it is not known."""

    @property
    def text(self) -> str:
        """The user prompt about it."""
        return prompt.user_prompt(prompt.document(self.item, self.trial))

    def without_standard(self, judge: Judge) -> bool:
        """Whether there is nothing to judge it by."""
        return not judge.own_rubric and not prompt.has_standard(self.item)

    def complete(self, judge: Judge) -> bool:
        """Whether no vote is missing."""
        return len(self.have) >= judge.votes


@dataclass(frozen=True, slots=True)
class Question:
    """One vote that is missing, and that no earlier run got."""

    judge: str
    material: str
    index: int
    request: ModelRequest
    read: Callable[[ModelReply, int], Vote]

    @property
    def key(self) -> Key:
        """What names its vote."""
        return self.judge, self.material, self.index


def tasks(con: DuckDBPyConnection, run: Run, judge: Judge) -> Iterator[Task]:
    """The trials that ended `ok`, in the order of the items."""
    earlier = _earlier(con, run, judge)
    items = iter_items(con, run.id)
    item = next(items, None)
    for trial in iter_trials(con, run.id):
        while item is not None and item.id != trial.item_id:
            item = next(items, None)
        if item is None or trial.status is not Status.OK:
            continue
        grade = earlier.get((trial.item_id, trial.lane, trial.index))
        have = tuple(vote for vote in grade.votes if vote.state in STANDING) if grade else ()
        yield Task(item, trial, have, grade.cost_usd if grade else 0.0)


def pairs(con: DuckDBPyConnection, run: Run, judge: Judge) -> Iterator[Pair]:
    """The pairs that are not compared in both orders; none where the judge compares nothing."""
    if judge.pairwise:
        yield from pairing.pairs(con, run, version(judge.of_pairs), STANDING)


def known_votes(con: DuckDBPyConnection, judge: Judge) -> dict[Key, Vote]:
    """Every vote of this judge that stands, of whatever run."""
    return {(name, *key): vote for name in judge.versions for key, vote in read_votes(con, name).items()}


def questions(
    con: DuckDBPyConnection, run: Run, judge: Judge, known: Mapping[Key, object]
) -> Iterator[Question]:
    """The questions to ask about a run, each once, but for those whose vote is known."""
    asked: set[Key] = set()

    def fresh(question: Question) -> bool:
        if question.key in known or question.key in asked:
            return False
        asked.add(question.key)
        return True

    yield from filter(fresh, _about_trials(con, run, judge))
    yield from filter(fresh, _about_pairs(con, run, judge))


def _about_trials(con: DuckDBPyConnection, run: Run, judge: Judge) -> Iterator[Question]:
    for task in tasks(con, run, judge):
        if task.complete(judge) or task.without_standard(judge):
            continue
        text = task.text
        named, request = material(text), panel.request(judge, text)
        for index in panel.missing(task.have, judge.votes):
            yield Question(judge.version, named, index, request, votes.read)


def _about_pairs(con: DuckDBPyConnection, run: Run, judge: Judge) -> Iterator[Question]:
    name = version(judge.of_pairs)
    for pair in pairs(con, run, judge):
        if pair.same:
            continue
        for index in panel.missing(pair.have, pairwise.ORDERS):
            text = pair.text(index)
            yield Question(name, material(text), index, pairing.request(judge, text), pairwise.read)


def _earlier(con: DuckDBPyConnection, run: Run, judge: Judge) -> dict[tuple[str, Lane, int], Grade]:
    return {
        (grade.item_id, grade.lane, grade.trial): grade
        for grade in iter_grades(con, run.id)
        if grade.grader == JUDGE and grade.grader_version == judge.version
    }
