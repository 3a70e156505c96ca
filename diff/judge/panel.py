"""Asking for the votes on one response: so many at a time, within the budget, the same material only once."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace

from diff.judge import prompt, votes
from replay.llm.base import Model, ModelRequest
from replay.llm.budget import Budget
from replay.model import Message, Vote


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


class Panel:
    """Asks one model for votes. For one event loop."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        rubric: str,
        size: int,
        max_tokens: int,
        concurrency: int,
        budget: Budget,
    ) -> None:
        """A panel.

        Args:
            model: who is asked.
            name: the model's name in requests.
            rubric: what the votes are cast by.
            size: votes on each response.
            max_tokens: the most that one answer may have.
            concurrency: calls in flight at once.
            budget: every call is let in by it.
        """
        self._model = model
        self._size = size
        self._seats = asyncio.Semaphore(concurrency)
        self._budget = budget
        self._request = ModelRequest(
            model=name,
            system=prompt.system_prompt(rubric),
            messages=(),
            max_tokens=max_tokens,
            schema=prompt.SCHEMA,
        )
        self._same: dict[bytes, asyncio.Future[Ballot]] = {}

    async def vote(self, text: str, have: tuple[Vote, ...] = ()) -> Ballot:
        """The votes on the material of a user prompt; those in `have` stand and are not asked for again.

        There are fewer than the panel's size where the budget is spent.

        Raises:
            ReplayError: no call can succeed.
        """
        if have:
            return await self._ask(text, have)
        key = hashlib.sha256(text.encode()).digest()
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
        request = replace(self._request, messages=(Message(role="user", text=text),))
        taken = {vote.index for vote in have}
        missing = [index for index in range(self._size) if index not in taken][: self._size - len(have)]
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._cast(request, index)) for index in missing]
        cast = [done for task in asked if (done := task.result()) is not None]
        costs = [done.cost_usd for done in cast]
        return Ballot(
            votes=tuple(sorted((*have, *(done.vote for done in cast)), key=lambda vote: vote.index)),
            asked=len(cast),
            cost_usd=None if None in costs else sum(cost for cost in costs if cost),
        )

    async def _cast(self, request: ModelRequest, index: int) -> votes.Cast | None:
        async with self._seats:
            if not await self._budget.take():
                return None
            cost: float | None = 0.0
            try:
                done = await votes.cast(self._model, request, index)
                cost = done.cost_usd
            finally:
                self._budget.settle(cost)
            return done
