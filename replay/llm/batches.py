"""Anthropic's Message Batches: many questions sent at once, answered within a day, at half the price.

Sending a batch is the one call here that costs money and must not be made twice: where it fails without a
certain answer (a cut connection, a time-out, a 5xx), it is not tried again, and whoever sent it looks among
`recent` batches whether it was taken.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from replaydiff.replay.clock import as_utc
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.llm import anthropic
from replaydiff.replay.llm.anthropic import AnthropicModel, arguments_of
from replaydiff.replay.llm.base import ModelFailure, ModelReply, ModelRequest
from replaydiff.replay.settings import Price

PRICE_SHARE = 0.5
"""What a question in a batch costs of its price."""
MOST_REQUESTS = 10_000
"""Questions in one batch; the API takes 100,000 …"""
MOST_BYTES = 64_000_000
"""… and 256 MB, all of which would lie in memory."""
_PAGE = 100


class Ending(StrEnum):
    """The ways in which a question of a batch ends without an answer."""

    ERRORED = "errored"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question of a batch that has no answer; nothing was paid for it."""

    ending: Ending
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """The progress of a batch."""

    id: str
    ended: bool
    requests: int
    sent_at: datetime
    """Naive UTC, by the provider's clock."""
    fetchable: bool
    """Whether its answers are there: it has ended, and not so long ago that they were archived."""


class BatchGoneError(Exception):
    """The provider knows no such batch, or keeps its answers no longer."""


@asynccontextmanager
async def connect(
    *, base_url: str | None = None, prices: Mapping[str, Price] | None = None
) -> AsyncIterator[Batches]:
    """Open Message Batches, ready to be used, for as long as the context lasts.

    Raises:
        CredentialsError: no key is set where one is needed.
    """
    async with anthropic.connect(base_url=base_url, prices=prices) as model:
        yield Batches(model)


class Batches:
    """The Message Batches API."""

    def __init__(self, model: AnthropicModel) -> None:
        self._model = model
        self._api = model.client.messages.batches

    async def send(self, requests: Mapping[str, ModelRequest]) -> str:
        """Send a batch of questions, each under an id of its own; the id that the provider gives it.

        Raises:
            ModelFailure: it was refused; or, where `passing`, it is not known whether it was taken.
            ReplayError: no call can succeed.
        """
        body = [
            {"custom_id": name, "params": arguments_of(arguments)} for name, arguments in requests.items()
        ]
        model = next(iter(requests.values())).model
        try:
            batch, _, _ = await self._model.attempt(
                lambda: self._api.create(requests=body), model, only_if_refused=True
            )
        except SettingsError:
            # 404: a model that is not known would be the failure of its questions.
            raise SettingsError(
                f"{self._model.client.base_url} takes no Message Batches",
                hint="leave batch in [judge] out",
            ) from None
        return str(batch.id)

    async def state(self, batch_id: str) -> BatchState:
        """Return the progress of a batch.

        Raises:
            BatchGoneError: it is not known.
            ModelFailure, ReplayError: as for `Model.complete`.
        """
        batch, _, _ = await self._model.attempt(lambda: self._retrieve(batch_id), batch_id)
        if batch is None:
            raise BatchGoneError(batch_id)
        return _state(batch)

    async def _retrieve(self, batch_id: str) -> Any:
        from anthropic import NotFoundError

        try:
            return await self._api.retrieve(batch_id)
        except NotFoundError:
            return None

    async def recent(self, since: datetime) -> list[BatchState]:
        """Return the batches that were sent since then (naive UTC), the newest first.

        Raises:
            ModelFailure, ReplayError: as for `Model.complete`.
        """

        async def find() -> list[BatchState]:
            states = []
            async for batch in self._api.list(limit=_PAGE):
                state = _state(batch)
                if state.sent_at < since:
                    break
                states.append(state)
            return states

        states, _, _ = await self._model.attempt(find, "batches")
        return list(states)

    async def answers(
        self, batch_id: str, models: str
    ) -> AsyncGenerator[tuple[str, ModelReply | Unanswered]]:
        """Yield the answers of a batch that has ended, in any order, each with the id of its question.

        `models` names the model that was asked, for its price.

        Raises:
            ModelFailure, ReplayError: as for `Model.complete`; also in the midst of it.
        """
        from anthropic import AnthropicError

        breaks: tuple[type[Exception], ...] = (*_http_errors(), AnthropicError, ValueError, AttributeError)
        lines, _, _ = await self._model.attempt(lambda: self._api.results(batch_id), models)
        try:
            async for line in lines:
                yield line.custom_id, self._answer(line.result, models)
        except breaks as error:
            raise ModelFailure(f"the answers of batch {batch_id} broke off: {error}") from None
        finally:
            await lines.close()

    def _answer(self, result: Any, model: str) -> ModelReply | Unanswered:
        match result.type:
            case "succeeded":
                return self._model.reply(model, result.message, share=PRICE_SHARE)
            case "expired":
                return Unanswered(Ending.EXPIRED, "the judge's batch ended before this was asked")
            case "canceled":
                return Unanswered(Ending.CANCELLED, "the judge's batch was cancelled before this was asked")
            case _:
                error = result.error.error
                text = " ".join(str(error.message).split())[:300]
                return Unanswered(Ending.ERRORED, f"{error.type}: {text}")


def _http_errors() -> tuple[type[Exception], ...]:
    """Return what a broken connection raises, by the HTTP library of the installed client."""
    import httpx

    try:
        import httpx2
    except ImportError:
        return (httpx.HTTPError,)
    return (httpx.HTTPError, httpx2.HTTPError)


def _state(batch: Any) -> BatchState:
    counts = batch.request_counts
    total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
    ended = batch.processing_status == "ended"
    return BatchState(
        id=batch.id,
        ended=ended,
        requests=total,
        sent_at=as_utc(batch.created_at),
        fetchable=ended and batch.results_url is not None,
    )
