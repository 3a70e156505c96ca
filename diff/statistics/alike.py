"""How much a version differs from itself, from pairs of recordings that are alike.

A version that cannot run any more has one recording of each situation, so no repeat shows its own noise. Two
recordings of nearly the same request, answered by the same tool results, replace a repeat: the share of
such pairs that act differently is what the version differs from itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from replaydiff.diff.statistics.paired import largest_share

FEWEST_PAIRS = 10
"""Below so many pairs the difference is not estimated."""

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeNoise:
    """How many pairs of alike recordings act differently. No recording is in two pairs."""

    pairs: int
    differing: int
    covered: float
    """The share of the population that has alike recordings, from 0 to 1."""

    @property
    def share(self) -> float:
        """Return the share of pairs that act differently."""
        return self.differing / self.pairs if self.pairs else 0.0

    @property
    def is_enough(self) -> bool:
        """Return whether there are enough pairs for an estimate."""
        return self.pairs >= FEWEST_PAIRS

    @property
    def ci(self) -> Ends:
        """Return the exact 95 % interval of the share."""
        return self.ends(0.025)

    def ends(self, tail: float) -> Ends:
        """Return the exact interval of the share, each end with this one-sided level.

        Pairs of several situations have several shares; the number that differ then scatters less than a
        binomial one (Hoeffding 1956), so the interval of their mean is not too narrow.
        """
        low = 1 - largest_share(self.pairs - self.differing, self.pairs, tail)
        return low, largest_share(self.differing, self.pairs, tail)

    def beyond(self, share: float, ends: Ends, tail: float) -> tuple[float, Ends]:
        """Return how much a share of changed items exceeds what the old version differs from itself.

        Items without alike recordings get no allowance. The ends of the difference of two independent
        estimates are put together as their distances from the estimates (MOVER; Zou & Donner 2008,
        doi:10.1002/sim.3095).

        Args:
            share: of items on which the new version acts differently from the recording.
            ends: its interval.
            tail: the one-sided level of each end.
        """
        repeat, low, high = (self.covered * end for end in (self.share, *self.ends(tail)))
        below, above = math.hypot(share - ends[0], high - repeat), math.hypot(ends[1] - share, repeat - low)
        return share - repeat, (share - repeat - below, share - repeat + above)
