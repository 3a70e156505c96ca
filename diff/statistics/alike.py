"""How much a version differs from itself, from pairs of recordings that are alike.

A version that cannot run any more has one recording of each situation, so no repeat shows its own noise. Two
recordings of nearly the same request, answered by the same tool results, replace a repeat: the share of
such pairs that act differently is what the version differs from itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from replaydiff.diff.statistics.distributions import log_choose

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
        return self.smallest(0.025), self.largest(0.025)

    def smallest(self, tail: float) -> float:
        """Return the lower end of the share's one-sided interval."""
        return smallest_share(self.differing, self.pairs, tail)

    def largest(self, tail: float) -> float:
        """Return the upper end of the share's one-sided interval."""
        return largest_share(self.differing, self.pairs, tail)

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
        repeat, low, high = (
            self.covered * end for end in (self.share, self.smallest(tail), self.largest(tail))
        )
        below, above = math.hypot(share - ends[0], high - repeat), math.hypot(ends[1] - share, repeat - low)
        return share - repeat, (share - repeat - below, share - repeat + above)


def smallest_share(times: int, of: int, tail: float) -> float:
    """Return the smallest share with which something is seen so often with the chance `tail`.

    The lower end of Clopper & Pearson (1934), by bisection of P(X ≥ times) = tail. Pairs of several
    situations have several shares; the number that differ then scatters less than a binomial one (Hoeffding
    1956), so the interval of their mean is not too narrow.
    """
    if times == 0 or tail <= 0:
        return 0.0
    low, high = 0.0, times / of
    for _ in range(60):
        middle = (low + high) / 2
        if _at_least(times, of, middle) < tail:
            low = middle
        else:
            high = middle
    return low


def largest_share(times: int, of: int, tail: float) -> float:
    """Return the largest share with which something is seen so seldom with the chance `tail`."""
    return 1 - smallest_share(of - times, of, tail)


def _at_least(times: int, of: int, share: float) -> float:
    """Return the chance of so many or more of a binomial count."""
    if share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    terms = (
        math.exp(log_choose(of, count) + count * math.log(share) + (of - count) * math.log1p(-share))
        for count in range(times, of + 1)
    )
    return math.fsum(terms)
