"""What comes when, and how fast.

Items come in a seeded random order, the trials of one item as one block: lanes and trials of an item are
next to each other in time, in random order within their block. Whatever drifts during a run, the clock or
the provider, drifts for every lane alike; and a run that ends early is a smaller sample of whole blocks.
The order comes from hashes of seed and names alone: the same seed orders the same items alike whatever
order they came in, and a resumed run continues as it began.

A trial that ended in an infrastructure error waits before its next attempt: as long as the provider asked
for (`Retry-After`, up to a cap), else twice as long as the last time; always with some chance in it, so
that trials that failed together do not come back together. Versions whose models are of one provider share
a `Pace`, since they share its limits: where it asked for rest, or answered 429 or 529, none of their trials
starts for that time, and only half as many as before run at once. Each time that as many trials in a row
went well as may run, one more may, up to the concurrency.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple
from urllib.parse import urlsplit

from replaydiff.replay.agents import Outcome
from replaydiff.replay.llm.base import LONGEST_WAIT_S as LONGEST_REQUESTED_S
from replaydiff.replay.model import Lane, Status, Version


class Slot(NamedTuple):
    """The place of one trial in its item's block."""

    lane: Lane
    trial: int
    """Its index within the lane, from 0."""


def order(ids: Iterable[str], seed: int) -> list[str]:
    """Return the ids of a run's items in the order in which their blocks are replayed."""
    return sorted(ids, key=lambda name: (_position(seed, name), name))


def block(item_id: str, lanes: Collection[Lane], trials: int, seed: int) -> list[Slot]:
    """Return the trials of one item in the order in which they are started."""
    slots = [Slot(lane, trial) for lane in lanes for trial in range(trials)]
    return sorted(slots, key=lambda slot: (_position(seed, item_id, str(slot.lane), str(slot.trial)), slot))


LEAST_REPEATED = 20
"""Items that the A/A lane replays at least, where it replays a share of them."""


def repeated_count(items: int, share: float) -> int:
    """Return of how many of a run's items the A/A lane replays a share."""
    return min(items, max(LEAST_REPEATED, math.ceil(share * items - 1e-9)))


def repeated_items(strata: Mapping[str, str], share: float, seed: int) -> frozenset[str]:
    """Draw the items that the A/A lane replays: a share of every stratum, at least 20 in all.

    Systematic sampling with a random start over the items in the order of their strata, in random order
    within (Cochran, *Sampling Techniques*, 1977, §8.1): each item has the same chance.

    Args:
        strata: the stratum of each item, by its id.
        share: of the items, 0 to 1.
        seed: the run's.
    """
    ids = sorted(strata, key=lambda name: (strata[name], _position(seed, "a/a", name), name))
    count = repeated_count(len(ids), share)
    start = int.from_bytes(_position(seed, "a/a"), "big") / 2**64
    return frozenset(ids[min(int((turn + start) * len(ids) / count), len(ids) - 1)] for turn in range(count))


def _position(seed: int, *names: str) -> bytes:
    text = "\x00".join((str(seed), *names))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()


FIRST_WAIT_S = 1.0
"""Before the second try."""
LONGEST_WAIT_S = 60.0
"""However often it failed."""
_TOO_MANY = re.compile(r"\b(429|529)\b|RateLimit|Overloaded|Throttling")
_PROVIDERS = (
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"^(gpt|chatgpt|o\d)"), "openai"),
    (re.compile(r"gemini"), "google"),
    (re.compile(r"^(mistral|magistral|codestral|ministral)"), "mistral"),
    (re.compile(r"^grok"), "xai"),
    (re.compile(r"^deepseek"), "deepseek"),
)


def provider_of(version: Version) -> str:
    """Return what limits the version's rate: its model's provider, else its service; empty if unknown."""
    if version.model is None:
        return urlsplit(version.url).netloc if version.url else ""
    name = version.model.lower().rpartition("/")[2]
    return next((provider for pattern, provider in _PROVIDERS if pattern.search(name)), "")


class Pace:
    """When a trial may go on. One for all versions of a provider."""

    def __init__(
        self, chance: random.Random | None = None, *, limit: int = 1, per_minute: float | None = None
    ) -> None:
        """Set up a pace.

        Args:
            chance: spreads the tries.
            limit: the most trials at once.
            per_minute: the most tries that start in a minute; None for any number.
        """
        self._chance = chance or random.Random()  # noqa: S311 - nothing is kept secret with it
        self._not_before = self._next_start = 0.0
        self._interval_s = 60.0 / per_minute if per_minute else 0.0
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._running = self._in_a_row = 0
        self.room = limit
        """How many trials may run at once, as the provider takes it."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context that waits for a free place in the rate limit and keeps it for one trial."""
        return _Turn(self)

    async def wait(self) -> None:
        """Wait until the pause is over."""
        now = asyncio.get_running_loop().time
        while (left := self._not_before - now()) > 0:
            await asyncio.sleep(left)

    def went(self, outcome: Outcome) -> None:
        """Take in how a try ended: what went well makes room again."""
        if outcome.status is Status.INFRA_ERROR:
            return
        self._in_a_row += 1
        if self.room < self._limit and self._in_a_row >= self.room:
            self.room, self._in_a_row = self.room + 1, 0
            self._wake()

    def pause(self, outcome: Outcome, tries: int) -> float:
        """Return the seconds a trial waits after `tries` attempts; a rate limit pauses the others too."""
        seconds = waiting_time(outcome.retry_after_s, tries, self._chance.random())
        if outcome.retry_after_s is not None or _TOO_MANY.search(outcome.reason or ""):
            now = asyncio.get_running_loop().time()
            # Trials that were refused together are one sign, not many.
            if now >= self._not_before:
                self.room = max(1, self.room // 2)
            self._in_a_row = 0
            self._not_before = max(self._not_before, now + seconds)
        return seconds

    async def enter(self) -> None:
        """Begin a turn; `leave` is called at its end."""
        now = asyncio.get_running_loop().time
        while True:
            if self._not_before > now():
                await self.wait()
            if self._running >= self.room:
                await self._until_woken()
            elif (left := self._next_start - now()) > 0:
                await asyncio.sleep(left)
            else:
                break
        if self._interval_s:
            self._next_start = max(now(), self._next_start) + self._interval_s
        self._running += 1

    def leave(self) -> None:
        """End a turn."""
        self._running -= 1
        self._wake()

    async def _until_woken(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return


class _Turn(AbstractAsyncContextManager[None]):
    """No generator, which would cost as much as the turn itself."""

    __slots__ = ("_pace",)

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    async def __aenter__(self) -> None:
        await self._pace.enter()

    async def __aexit__(self, *_: object) -> None:
        self._pace.leave()


def waiting_time(requested_s: float | None, tries: int, chance: float) -> float:
    """Return the seconds before the next attempt; `chance` is from 0 to 1.

    What was asked for is the least that is waited, up to the cap; half as much may come on top.
    """
    if requested_s is not None and requested_s >= 0:
        return min(requested_s, LONGEST_REQUESTED_S) * (1 + chance / 2)
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(tries - 1, 20))
    return longest * (0.5 + chance / 2)
