"""Money that may be spent: one purse that everything of a run shares.

Calls are let in while what was spent, plus what the calls in flight may cost, stays within the limit. What a
call will cost is taken to be the dearest one so far, so the limit is overrun by little more than the error
of that guess; before the first call has ended, only one is let in.
"""

from __future__ import annotations


class Budget:
    """Spent and left, in US dollars."""

    def __init__(self, limit_usd: float | None = None, *, spent_usd: float = 0.0) -> None:
        """A purse with `limit_usd` dollars (None: no limit), of which `spent_usd` are gone already."""
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self._in_flight = 0
        self._dearest: float | None = None

    @property
    def exhausted(self) -> bool:
        """Whether a call like the dearest so far no longer fits, even once all in flight have ended."""
        if self.limit_usd is None:
            return False
        if self._dearest is None:
            return self.spent_usd >= self.limit_usd
        return self.spent_usd + self._dearest > self.limit_usd

    def take(self) -> bool:
        """Let a call in, if it fits beside those in flight; whoever was let in calls `settle` once."""
        if self.limit_usd is not None:
            expected = self._dearest
            if expected is None:
                if self._in_flight or self.spent_usd >= self.limit_usd:
                    return False
            elif self.spent_usd + expected * (self._in_flight + 1) > self.limit_usd:
                return False
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
