"""One vote at a time: looked up where the same was asked before, else let in by the budget, asked and kept.

What is the same: the judge (model, prompt and rubric), the judged document, and the index of the vote.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from replaydiff.diff.judge import votes
from replaydiff.diff.judge.votes import Cast
from replaydiff.replay.llm.base import Model, ModelReply, ModelRequest
from replaydiff.replay.llm.budget import Budget
from replaydiff.replay.model import GradeState, Vote
from replaydiff.replay.store.votes import KeptVote

STANDING = (GradeState.SCORED, GradeState.ABSTAINED, GradeState.REFUSED, GradeState.TRUNCATED)
"""States of a vote that was cast; one that ended otherwise is asked for again."""

Key = tuple[str, str, int]
"""Judge, material, index of the vote."""


def material(text: str) -> str:
    """Names a user prompt: 160 bits of its SHA-256, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:40]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A vote, and whether it is new."""

    cast: Cast
    """With what it cost now: nothing where it was known."""
    new: bool


class Asking:
    """Asks for votes, or finds them. For one event loop."""

    def __init__(
        self,
        model: Model | None,
        *,
        known: Mapping[Key, Vote],
        answers: Mapping[Key, Cast],
        budget: Budget,
    ) -> None:
        """What asks.

        Args:
            model: who is asked; None: nobody, and what is not known stays open.
            known: votes of earlier times.
            answers: what a batch answered just now, failures too; what they cost counts once.
            budget: every question is let in by it.
        """
        self._model, self._budget = model, budget
        self._known, self._answers = dict(known), dict(answers)
        self.fresh: list[KeptVote] = []
        """Votes that were cast since the list was emptied, to be kept."""

    async def vote(
        self,
        judge: str,
        request: ModelRequest,
        text: str,
        index: int,
        read: Callable[[ModelReply, int], Vote] = votes.read,
    ) -> Said | None:
        """A vote on the material of a user prompt; None where it may not be asked for.

        Raises:
            ReplayError: no call can succeed.
        """
        key = (judge, material(text), index)
        if answer := self._answers.pop(key, None):
            return Said(cast=answer, new=True)
        if found := self._known.get(key):
            return Said(cast=Cast(vote=found, cost_usd=0.0), new=False)
        if self._model is None or not await self._budget.take():
            return None
        cost: float | None = 0.0
        try:
            done = await votes.cast(self._model, request, index, read)
            cost = done.cost_usd
        finally:
            self._budget.settle(cost)
        if done.vote.state in STANDING:
            self._known[key] = done.vote
            self.fresh.append(KeptVote(judge=judge, material=key[1], vote=done.vote, cost_usd=cost))
        return Said(cast=done, new=True)
