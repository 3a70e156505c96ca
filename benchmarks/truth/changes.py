"""Changes between two versions whose mean over all items that could be drawn is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.truth.agents import AGENTS, SESSION, Truth

Draw = Callable[[np.random.Generator, int], Truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How n items are drawn, and what the change is on average over all of them."""

    name: str
    draw: Draw
    mean: float
    """The true mean change of an item; of the month's items, where the draw is weighted."""
    sampled: bool = False
    """Whether only samples have such items: sessions, strata."""


def _falling(share: float, high: float = 0.95, low: float = 0.05) -> Draw:
    """A share of the items falls from one pass rate to the other."""

    def draw(rng: np.random.Generator, n: int) -> Truth:
        return Truth(old=np.full(n, high), new=np.where(rng.random(n) < share, low, high))

    return draw


def _both(rng: np.random.Generator, n: int) -> Truth:
    kind = rng.choice(3, size=n, p=[0.1, 0.2, 0.7])
    steady = AGENTS["Beta(0.5, 0.5)"](rng, n)
    old = np.select([kind == 0, kind == 1], [0.9, 0.1], steady)
    new = np.select([kind == 0, kind == 1], [0.1, 0.9], steady)
    return Truth(old=old, new=new)


def _slip(rng: np.random.Generator, n: int) -> Truth:
    old = rng.beta(2, 1, n)
    return Truth(old=old, new=0.85 * old)


def _sessions(share: float) -> Draw:
    """Whole sessions fall together; they have one to seven items, four on average."""

    def draw(rng: np.random.Generator, n: int) -> Truth:
        sizes = rng.integers(1, 2 * SESSION, n)
        session = np.repeat(np.arange(n), sizes)[:n]
        falling = rng.random(n) < share
        return Truth(old=np.full(n, 0.9), new=np.where(falling[session], 0.1, 0.9), session=session)

    return draw


_SHARES = np.array([0.7, 0.2, 0.1])
"""Of the month's traces, by stratum; the sample takes a third from each."""
_LOSS = np.array([0.05, 0.1, 0.5])
"""Share of a stratum's items that fall."""


def _weighted(rng: np.random.Generator, n: int) -> Truth:
    stratum = np.arange(n) % len(_SHARES)
    sizes = np.bincount(stratum)
    falling = rng.random(n) < _LOSS[stratum]
    return Truth(
        old=np.full(n, 0.95),
        new=np.where(falling, 0.05, 0.95),
        weight=1000 * _SHARES[stratum] / sizes[stratum],
        stratum=stratum,
    )


CHANGES = [
    Change(name="1 in 50 falls", draw=_falling(0.02), mean=-0.018),
    Change(name="1 in 10 falls", draw=_falling(0.1), mean=-0.09),
    Change(name="1 in 10 falls, certain", draw=_falling(0.1, 1.0, 0.0), mean=-0.1),
    Change(name="1 in 3 falls, certain", draw=_falling(1 / 3, 1.0, 0.0), mean=-1 / 3),
    Change(name="1 in 5 rises, 1 in 10 falls", draw=_both, mean=0.08),
    Change(name="all slip a little", draw=_slip, mean=-0.1),
    Change(name="1 session in 5 falls", draw=_sessions(0.2), mean=-0.16, sampled=True),
    Change(
        name="weighted to the month", draw=_weighted, mean=float(-0.9 * (_SHARES * _LOSS).sum()), sampled=True
    ),
]
