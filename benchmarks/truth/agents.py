"""Agents as pass rates by item, and their trials: clustered in sessions, and read by a noisy judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

Rates = Callable[[np.random.Generator, int], np.ndarray]

AGENTS: dict[str, Rates] = {
    "certain": lambda rng, n: (rng.random(n) < 0.8).astype(float),
    "always passes": lambda _rng, n: np.ones(n),
    "98 % each": lambda _rng, n: np.full(n, 0.98),
    "90 % certain, 10 % coins": lambda rng, n: np.where(rng.random(n) < 0.1, 0.5, 1.0),
    "70 % certain, 30 % coins": lambda rng, n: np.where(rng.random(n) < 0.3, 0.5, 1.0),
    "Beta(0.5, 0.5)": lambda rng, n: rng.beta(0.5, 0.5, n),
    "Beta(2, 1)": lambda rng, n: rng.beta(2, 1, n),
    "coins": lambda _rng, n: np.full(n, 0.5),
}
"""Pass rates of n items, drawn from what the agent is like over all items."""

SESSION = 4
"""Items of one session."""
_TOGETHER = 0.5
"""How far the items of one session pass and fail together in one trial: the correlation of a Gaussian copula."""
_CATCHES, _CLEARS, _VOTES = 0.8, 0.9, 3
"""A judge that fails four failures of five and passes nine passes of ten, asked three times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Both versions' pass rates by item."""

    old: np.ndarray
    new: np.ndarray
    session: np.ndarray | None = None
    """Number of each item's session; None where each item is its own."""
    weight: np.ndarray | None = None
    """How many traces of the month each item represents; None where the items are no sample."""
    stratum: np.ndarray | None = None
    repeated: np.ndarray | None = None
    """Whether the A/A lane replays each item; None where it replays all."""


def unchanged(rates: np.ndarray, *, sessions: bool = False) -> Truth:
    """The same version twice. With `sessions` the items of one session have the rate of its first."""
    if not sessions:
        return Truth(old=rates, new=rates)
    session = np.arange(len(rates)) // SESSION
    shared = rates[session * SESSION]
    return Truth(old=shared, new=shared, session=session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How a version is worse, and over what its loss is exact."""

    falls: bool
    """Whether single items fail from now on; else every item passes so much less often."""
    drawn: bool = False
    """Whether the items are a sample, whose loss is the mean over all that could be drawn."""

    @property
    def name(self) -> str:
        """As in tables."""
        return f"{'falls' if self.falls else 'slips'}, {'drawn' if self.drawn else 'fixed'}"


LOSSES = [Loss(falls=falls, drawn=drawn) for drawn in (False, True) for falls in (True, False)]


def worse(rates: Rates, rng: np.random.Generator, n: int, loss: float, kind: Loss) -> Truth:
    """n items of an agent, and a version whose pass rate is lower by `loss`."""
    old = rates(rng, n)
    if not kind.drawn:
        loss = min(loss, float(old.mean()))
        return Truth(old=old, new=worse_by(rng, old, loss) if kind.falls else old * (1 - loss / old.mean()))
    share = loss / _mean(rates)
    new = np.where(rng.random(n) < share, 0.0, old) if kind.falls else old * (1 - share)
    return Truth(old=old, new=new, weight=np.full(n, 100.0))


@cache
def _mean(rates: Rates) -> float:
    """Return the mean pass rate over all items that could be drawn."""
    return float(rates(np.random.default_rng(0), 200_000).mean())


def worse_by(rng: np.random.Generator, old: np.ndarray, loss: float) -> np.ndarray:
    """Pass rates that are lower by `loss` on average over these very items: some fall to 0, one part of the way."""
    order = rng.permutation(len(old))
    left = loss * len(old) - np.concatenate([[0.0], np.cumsum(old[order])[:-1]])
    new = old.copy()
    new[order] -= np.clip(left, 0.0, old[order])
    return new


def outcomes(rng: np.random.Generator, rates: np.ndarray, k: int, session: np.ndarray | None) -> np.ndarray:
    """Whether each of k trials of each item passed; item i passes with chance `rates[i]`, exactly.

    Items of one session share luck: in each trial a bad moment strikes all of them.
    """
    if session is None:
        return (rng.random((len(rates), k)) < rates[:, None]).astype(float)
    shared = rng.standard_normal((int(session.max()) + 1, k))[session]
    own = rng.standard_normal((len(rates), k))
    luck = np.sqrt(_TOGETHER) * shared + np.sqrt(1 - _TOGETHER) * own
    # scipy.stats takes a second to import: only what draws sessions waits for it.
    from scipy import stats

    return (stats.norm.cdf(luck) < rates[:, None]).astype(float)


def judged(rng: np.random.Generator, passed: np.ndarray) -> np.ndarray:
    """What the noisy judge makes of outcomes: the mean of its votes on each trial."""
    right = np.where(passed == 1, _CLEARS, 1 - _CATCHES)
    votes = rng.random((_VOTES, *passed.shape)) < right
    return votes.mean(axis=0)
