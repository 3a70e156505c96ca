"""The votes on one response: so many at a time, and the same material only once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from replaydiff.diff.judge import prompt
from replaydiff.diff.judge.asking import Asking, Said, material
from replaydiff.diff.judge.judge import Judge
from replaydiff.replay.llm.base import ModelRequest
from replaydiff.replay.model import Message, Vote


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """The votes on one response."""

    votes: tuple[Vote, ...]
    """By index."""
    asked: int
    """How many were asked for now, for this response."""
    cost_usd: float | None
    """Of those; None where the model's price is not known."""
    shared: bool = False
    """Whether they are those of another response to the same conversation that is the same word for word."""


def missing(have: Sequence[Vote], size: int) -> list[int]:
    """The indices of votes to ask for where `size` are wanted and some are there."""
    taken = {vote.index for vote in have}
    return [index for index in range(size) if index not in taken][: max(0, size - len(have))]


def request(judge: Judge, text: str) -> ModelRequest:
    """The question behind a vote on the material of a user prompt."""
    return ModelRequest(
        model=judge.model,
        system=prompt.system_prompt(judge.rubric),
        messages=(Message(role="user", text=text),),
        max_tokens=judge.max_tokens,
        schema=prompt.SCHEMA,
    )


class Panel:
    """Asks one judge for votes. For one event loop."""

    def __init__(self, judge: Judge, asking: Asking) -> None:
        """A panel of `judge`, whose votes come from `asking`."""
        self._judge, self._asking = judge, asking
        self._seats = asyncio.Semaphore(judge.concurrency)
        self._blank = request(judge, "")
        self._same: dict[str, asyncio.Future[Ballot]] = {}

    async def vote(self, text: str, have: tuple[Vote, ...] = ()) -> Ballot:
        """The votes on the material of a user prompt; those in `have` stand and are not asked for again.

        There are fewer than the panel's size where no more may be asked for.

        Raises:
            ReplayError: no call can succeed.
        """
        if have:
            return await self._ask(text, have)
        key = material(text)
        if key in self._same:
            return replace(await self._same[key], asked=0, cost_usd=0.0, shared=True)
        first: asyncio.Future[Ballot] = asyncio.get_running_loop().create_future()
        self._same[key] = first
        try:
            ballot = await self._ask(text, ())
        except BaseException:
            first.cancel()
            raise
        first.set_result(ballot)
        return ballot

    async def _ask(self, text: str, have: tuple[Vote, ...]) -> Ballot:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._cast(text, index)) for index in missing(have, self._judge.votes)]
        said = [done for task in asked if (done := task.result()) is not None]
        costs = [done.cast.cost_usd for done in said]
        return Ballot(
            votes=tuple(sorted((*have, *(done.cast.vote for done in said)), key=lambda vote: vote.index)),
            asked=sum(done.new for done in said),
            cost_usd=None if None in costs else sum(cost for cost in costs if cost),
        )

    async def _cast(self, text: str, index: int) -> Said | None:
        question = replace(self._blank, messages=(Message(role="user", text=text),))
        async with self._seats:
            return await self._asking.vote(self._judge.version, question, text, index)
