"""What limits the calls to a provider: waiting after failures, and the money that may be spent.

One waiting holds for all calls of a provider, one budget for everything of a run. Calls are let in while
what was spent, plus what the calls in flight may cost, stays within the limit. What a call will cost is
taken to be the dearest one so far, so the limit is overrun by little more than the error of that guess;
before the first call has ended, only one is let in.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping

RETRIES = 6
"""Tries after the first."""
LONGEST_WAIT_S = 60.0
"""The longest pause before a further try, whatever the provider asks for."""
PASSING = frozenset((408, 409, 429))
"""Statuses below 500 after which a request is tried again."""


class Backoff:
    """When to try again, for all calls of one provider together.

    After the n-th failure of a call it waits 0.5·2ⁿ seconds up to 8, less up to a quarter; or, where the
    provider says how long, that long up to `LONGEST_WAIT_S`, and then every other call waits as well.
    """

    def __init__(self) -> None:
        self._not_before = 0.0
        # Spreads the tries of many calls; nothing is decided by it.
        self._random = random.Random()  # noqa: S311

    async def clear(self) -> None:
        """Wait until the provider may be asked."""
        while (wait := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)

    async def pause(self, failures: int, retry_after_s: float | None) -> None:
        """Wait after a failure.

        Args:
            failures: how many there were, from 1.
            retry_after_s: seconds that the provider asked for; None where it sent none.
        """
        if retry_after_s is not None:
            wait = min(retry_after_s, LONGEST_WAIT_S)
            self._not_before = max(self._not_before, time.monotonic() + wait)
        else:
            wait = min(8.0, 0.25 * 2**failures) * self._random.uniform(0.75, 1.0)
        await asyncio.sleep(wait)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds asked for by `retry-after-ms` or `retry-after`; None where neither is a number of seconds."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    return None


class Budget:
    """Spent and left, in US dollars. For the calls of one event loop."""

    def __init__(self, limit_usd: float | None = None, *, spent_usd: float = 0.0) -> None:
        """A purse with `limit_usd` dollars (None: no limit), of which `spent_usd` are gone already."""
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self._in_flight = 0
        self._dearest: float | None = None
        self._settled = asyncio.Event()

    async def take(self) -> bool:
        """Wait until one more call fits, and let it in; whoever was let in calls `settle` once.

        False where none fits any more: the money is spent.
        """
        while not self._fits():
            if not self._in_flight:
                return False
            self._settled.clear()
            await self._settled.wait()
        self._in_flight += 1
        return True

    def settle(self, cost_usd: float | None) -> None:
        """A call that was let in has ended and cost this much; None where its price is not known.

        What has no price cannot be held to a limit, and is let in from then on.
        """
        self._in_flight -= 1
        if cost_usd is None:
            self._dearest = self._dearest or 0.0
        elif cost_usd > 0:
            self.spent_usd += cost_usd
            self._dearest = max(cost_usd, self._dearest or 0.0)
        self._settled.set()

    def _fits(self) -> bool:
        if self.limit_usd is None:
            return True
        if self._dearest is None:
            return not self._in_flight and self.spent_usd < self.limit_usd
        return self.spent_usd + self._dearest * (self._in_flight + 1) <= self.limit_usd
