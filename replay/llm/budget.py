"""Money that may be spent: one purse that everything of a run shares.

Calls are let in while what was spent, plus what the calls in flight may cost, stays within the limit. What a
call will cost is taken to be the dearest one so far, so the limit is overrun by little more than the error
of that guess; before the first call has ended, only one is let in.
"""

from __future__ import annotations

import asyncio


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
