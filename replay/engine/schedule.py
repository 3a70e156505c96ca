"""How fast: what failed for no fault of the agent is tried again, and a provider that asks for rest gets it.

A trial that ended in an infrastructure error waits before its next try: as long as the provider asked for
(`Retry-After`, up to a cap), else twice as long as the last time; always with some chance in it, so that
trials that failed together do not come back together. Where the provider asked for rest, or answered 429 or
529, the whole lane rests for that time: no trial of it starts.
"""

from __future__ import annotations

import asyncio
import random
import re

from replay.agents import Outcome

FIRST_WAIT_S = 1.0
"""Before the second try."""
LONGEST_WAIT_S = 60.0
"""However often it failed, and whatever was asked for."""
_TOO_MANY = re.compile(r"\b(429|529)\b|RateLimit|Overloaded|Throttling")


class Pace:
    """When a lane may go on. One for all trials of a lane."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()  # noqa: S311 - nothing is kept secret with it
        self._not_before = 0.0

    async def wait(self) -> None:
        """Until the lane's rest is over."""
        now = asyncio.get_running_loop().time
        while (left := self._not_before - now()) > 0:
            await asyncio.sleep(left)

    def rest(self, outcome: Outcome, tries: int) -> float:
        """Seconds that a trial is to wait after so many tries; the lane rests with it where it should."""
        seconds = waiting_time(outcome.retry_after_s, tries, self._chance.random())
        if outcome.retry_after_s is not None or _TOO_MANY.search(outcome.reason or ""):
            self._not_before = max(self._not_before, asyncio.get_running_loop().time() + seconds)
        return seconds


def waiting_time(asked_s: float | None, tries: int, chance: float) -> float:
    """Seconds before the next try; `chance` is from 0 to 1.

    What was asked for is the least that is waited, up to the cap; half as much may come on top.
    """
    if asked_s is not None and asked_s >= 0:
        return min(asked_s, LONGEST_WAIT_S) * (1 + chance / 2)
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(tries - 1, 20))
    return longest * (0.5 + chance / 2)
