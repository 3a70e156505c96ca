"""What control lanes can prove about noise that hits a whole lane: the best that any rule can do.

    python benchmarks/lane_frontier.py

A bad hour, a cache or a deployment that one lane alone uses moves all its items together. Only lanes of one
version show how large such shocks are: with m of them m − 1 degrees of freedom. Lanes' means are normal here,
with the noise of 100 items × 3 trials of an 85 % agent and a shock of unknown sd up to 0.1; so the change and
the sd between the old version's lanes are independent. A rule decides which pairs of them are SHIP, and gives
SHIP more easily the better the new version is.

Each figure is the largest share of equal versions without shocks that any such rule gives SHIP (a linear
program over all rules), where SHIP is wrong in 2.5 % of runs without a shock, and in `wrong SHIP` of runs with
one, at a loss of 0.05, the tolerance. `replay` is its own rule in the same model: the interval, where the old
version's two lanes do not differ significantly.

The second table is the same for HOLD of versions that are worse, without a shock, and for HOLD of an equal
version under shocks; the best rule has the highest mean power at losses of 0.1 and 0.2 among those that hold an
equal version no more often than `replay` does, under any shock.

The third table is for HOLD, too, by simulation of the agent itself: items that always pass cannot pass more
often in a good hour, so that bad hours move a lane more than good ones. A rule there knows the change and the
old lanes' difference in standard errors.

The best rule for HOLD steps where these two losses need it; that of `replay` serves all losses alike: it holds
by the interval where the old lanes agree, and includes the noise between them where they differ. The command ends with 1 if a rule of `replay` is 3 points (HOLD: 4) or more below the best with as many wrong answers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.stats import chi2, norm, t

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.table import finish
from benchmarks.truth.worlds import mixed

LOSS, LEVEL, SHOCK = 0.05, 0.025, 0.1
TRIALS_VARIANCE = 0.075 / 300
"""Of a lane's mean: 0.4 of the items are mixed, and their trials have a variance of 0.1875 on average."""
LANES = (2, 3, 4, 6)
LEVELS = (0.025, 0.05, 0.08, 0.1)
BEHIND, HOLD_BEHIND = 0.03, 0.04
_SPREADS = np.concatenate([np.linspace(0, 0.08, 161), [0.1, 0.15, 0.2, 0.4, 9.0]])
_LIMITS = np.arange(-0.06, 0.4, 0.002)
_HOLD_LIMITS = -np.arange(0.05, 0.6, 0.004)
SHOCKS = (0.02, 0.035, 0.05, 0.07, 0.1, 0.2)
HELD = (0.05, 0.07, 0.1, 0.2)
POWERED = (0.1, 0.2)
"""Losses over which the power to hold is averaged."""
ITEMS, TRIALS, RATE, SIMULATED = 100, 3, 0.85, 20_000
HOLD_LEVELS = (0.04, 0.05, 0.06, 0.07, 0.08)
_GAPS = np.concatenate([np.arange(0, 3, 0.25), [3.0, 4.0, 6.0, 10.0, np.inf]])


def _chances(loss: float, shock: float, lanes: int) -> np.ndarray:
    """By the sd between old lanes (rows) and the least change that is SHIP (columns): the chance of SHIP.

    The last column never gives SHIP.
    """
    variance = TRIALS_VARIANCE + shock**2
    spread = np.diff(chi2.cdf((lanes - 1) * _SPREADS**2 / variance, lanes - 1))
    ship = norm.sf((_LIMITS + loss) / sqrt(variance * (1 + 1 / lanes)))
    return np.outer(spread, np.append(ship, 0.0))


def best_ship(lanes: int, wrong: float, shocks: Sequence[float] = (SHOCK,)) -> float:
    """Return the largest share of SHIP for an equal version without shocks.

    Args:
        lanes: of the old version.
        wrong: the share of wrong SHIPs under each of the shocks.
        shocks: standard deviations; without one the share is at most 2.5 %.
    """
    wanted = _chances(0.0, 0.0, lanes)
    limits = {0.0: LEVEL, **dict.fromkeys(shocks, wrong)}
    rows, columns = wanted.shape
    found = linprog(
        -wanted.ravel(),
        A_ub=np.stack([_chances(LOSS, shock, lanes).ravel() for shock in limits]),
        b_ub=[*limits.values()],
        A_eq=sparse.kron(sparse.eye(rows), np.ones((1, columns))),
        b_eq=np.ones(rows),
        bounds=(0, 1),
        method="highs",
    )
    return float(-found.fun)


def _hold_chances(loss: float, shock: float) -> np.ndarray:
    """As `_chances`, of HOLD with two lanes of the old version; the columns are the largest change held."""
    variance = TRIALS_VARIANCE + shock**2
    spread = np.diff(chi2.cdf(_SPREADS**2 / variance, 1))
    hold = norm.cdf((_HOLD_LIMITS + loss) / sqrt(1.5 * variance))
    return np.outer(spread, np.append(hold, 0.0))


def best_hold(wrong: float) -> float:
    """Return the highest mean power of a rule that holds an equal version in `wrong` of runs at most."""
    wanted = sum((_hold_chances(loss, 0.0) for loss in POWERED), np.zeros(1)) / len(POWERED)
    return _best_power(wanted, [_hold_chances(0.0, shock) for shock in SHOCKS], wrong)


def _best_power(wanted: np.ndarray, limited: Sequence[np.ndarray], wrong: float) -> float:
    """Return the most of `wanted` that a rule reaches whose chances in `limited` are at most `wrong`."""
    rows, columns = wanted.shape
    found = linprog(
        -wanted.ravel(),
        A_ub=np.stack([one.ravel() for one in limited]),
        b_ub=np.full(len(limited), wrong),
        A_eq=sparse.kron(sparse.eye(rows), np.ones((1, columns))),
        b_eq=np.ones(rows),
        bounds=(0, 1),
        method="highs",
    )
    return float(-found.fun)


def least_loss(gap: np.ndarray, se: float | np.ndarray) -> np.ndarray:
    """Return the loss above which the rule of `replay` gives HOLD by the mean.

    The interval lies below 0 and the loss exceeds the tolerance; where the old lanes differ significantly, the
    noise between them widens the interval by Student's t with one degree of freedom.

    Args:
        gap: difference of the means of the old version's two lanes.
        se: its standard error by trials.
    """
    excluded = norm.ppf(0.975) * sqrt(0.75) * se
    noise = t.ppf(0.975, 1) * np.sqrt(0.75 * np.maximum(0.0, gap**2 - np.square(se)))
    differs = np.abs(gap) > norm.ppf(0.975) * se
    least: np.ndarray = np.maximum(LOSS, np.where(differs, np.hypot(excluded, noise), excluded))
    return least


def own_hold(loss: float, shock: float) -> float:
    """Return how often the rule of `replay` gives HOLD by the mean, with two lanes of the old version."""
    gap = np.linspace(0, 2, 20_001)
    variance = TRIALS_VARIANCE + shock**2
    weight = norm.pdf(gap / sqrt(2 * variance))
    least = least_loss(gap, sqrt(2 * TRIALS_VARIANCE))
    return float(np.average(norm.cdf((loss - least) / sqrt(1.5 * variance)), weights=weight))


@dataclass(frozen=True, slots=True)
class _Simulated:
    """Comparisons of 100 items whose lanes have shocks, as far as pass rates of 0 and 1 allow."""

    change: np.ndarray
    gap: np.ndarray
    se: np.ndarray

    @classmethod
    def of(cls, loss: float, shock: float) -> _Simulated:
        """Simulate versions that lose `loss` in all items, under shocks of this sd."""
        rng = np.random.default_rng([int(1000 * loss), int(1000 * shock)])
        old = mixed(rng, SIMULATED * ITEMS, RATE).reshape(SIMULATED, ITEMS)
        new = old * (1 - loss / old.mean(axis=1, keepdims=True))
        means, noise = [], np.zeros(SIMULATED)
        for rates in (old, old, new):
            hour = np.clip(rates + shock * rng.standard_normal((SIMULATED, 1)), 0, 1)
            passed = rng.binomial(TRIALS, hour) / TRIALS
            means.append(passed.mean(axis=1))
            if rates is old:
                noise += (passed * (1 - passed)).mean(axis=1) / (TRIALS - 1) / ITEMS
        return cls(change=means[2] - (means[0] + means[1]) / 2, gap=means[1] - means[0], se=np.sqrt(noise))

    @property
    def held(self) -> float:
        """The share that the rule of `replay` holds by the mean."""
        return float(np.mean(self.change < -least_loss(self.gap, self.se)))

    def chances(self) -> np.ndarray:
        """As `_hold_chances`, by the difference of the old lanes in standard errors."""
        gaps = np.digitize(np.abs(self.gap) / np.maximum(self.se, 1e-9), _GAPS) - 1
        held = self.change[:, None] <= np.append(_HOLD_LIMITS, -np.inf)
        rows = [held[gaps == row].sum(axis=0) / SIMULATED for row in range(len(_GAPS) - 1)]
        return np.stack(rows)


def _with_ceiling() -> Iterator[tuple[str, bool]]:
    """The third table."""
    equal = [_Simulated.of(0.0, shock) for shock in SHOCKS if shock <= SHOCK]
    worse = [_Simulated.of(loss, 0.0) for loss in POWERED]
    limits = [one.chances() for one in equal]
    wanted = sum((one.chances() for one in worse), np.zeros(1)) / len(worse)
    wrong, power = max(one.held for one in equal), float(np.mean([one.held for one in worse]))
    *best, at_own = (_best_power(wanted, limits, level) for level in (*HOLD_LEVELS, wrong))
    yield (
        "where scores end at 1: mean power at 0.1 and 0.2, by HOLD of an equal version under shocks up to 0.1",
        True,
    )
    yield f"{'':14}" + "".join(f"{level:>8.1%}" for level in HOLD_LEVELS), True
    yield f"{'best rule':14}" + "".join(f"{one:8.1%}" for one in best), True
    yield (
        f"replay: {power:.1%} with {wrong:.1%}, where the best rule has {at_own:.1%}",
        power > at_own - HOLD_BEHIND,
    )


def own_ship(loss: float, shock: float) -> float:
    """Return how often the rule of `replay` gives SHIP, with two lanes of the old version."""
    limit = norm.ppf(1 - LEVEL) * sqrt(1.5 * TRIALS_VARIANCE) - LOSS
    variance = TRIALS_VARIANCE + shock**2
    agree = 1 - 2 * norm.sf(norm.ppf(0.975) * sqrt(TRIALS_VARIANCE / variance))
    return float(agree * norm.sf((limit + loss) / sqrt(1.5 * variance)))


def table() -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield "equal versions that the best rule gives SHIP, by wrong SHIP under a shock of sd 0.1", True
    yield f"{'lanes of old':14}" + "".join(f"{level:>8.1%}" for level in LEVELS), True
    for lanes in LANES:
        yield f"{lanes:<14}" + "".join(f"{best_ship(lanes, level):8.1%}" for level in LEVELS), True
    yield "the same by wrong SHIP under any shock up to that", True
    shocks = (0.02, 0.035, 0.05, 0.07, SHOCK)
    for lanes in LANES:
        yield f"{lanes:<14}" + "".join(f"{best_ship(lanes, level, shocks):8.1%}" for level in LEVELS), True
    equal, wrong = own_ship(0.0, 0.0), own_ship(LOSS, SHOCK)
    best = best_ship(2, wrong)
    yield (
        f"replay, 2 lanes: {equal:.1%}, with {wrong:.1%} wrong SHIP, where the best rule gives {best:.1%}",
        (equal > best - BEHIND),
    )
    yield "HOLD of a version that is worse, and of an equal one under a shock", True
    yield (
        "".join(f"{f'loss {loss}':>11}" for loss in HELD)
        + "".join(f"{f'shock {shock}':>12}" for shock in SHOCKS),
        True,
    )
    wrong = [own_hold(0.0, shock) for shock in SHOCKS]
    yield (
        "".join(f"{own_hold(loss, 0.0):11.1%}" for loss in HELD) + "".join(f"{w:12.1%}" for w in wrong),
        True,
    )
    power = float(np.mean([own_hold(loss, 0.0) for loss in POWERED]))
    best = best_hold(max(wrong))
    yield (
        f"mean power at 0.1 and 0.2: {power:.1%}, where the best rule has {best:.1%}",
        power > best - HOLD_BEHIND,
    )
    yield from _with_ceiling()


if __name__ == "__main__":
    finish(table())
