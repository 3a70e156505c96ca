"""How many items and trials show a change of a given size, from the noise of a run, and what they would cost.

The mean change over n items of k trials a lane has the variance

    se²(n, k) = f · (τ² + 2σ²/k) / n

σ² is the variance of one trial around its item's mean (pooled within lanes and between `old` and `old2`),
τ² what items differ in how much they changed, beyond that noise: τ² = var(d) − σ²(1/k_old + 1/k_new), never
below 0 (method of moments for one-way random effects; Searle, Casella & McCulloch, *Variance Components*,
§3.6). f = se²_clustered / se²_plain ≥ 1 is the design effect of sessions (Kish 1965). The smallest change
that n items show with the given power is that of `diff.statistics.paired`: τ² is taken for no less than what
a change of that size makes of it where single items fall wholly, so that a run in which nothing changed does
not promise more than it can.

Where no version was tried twice σ² is not known: all of var(d) is then taken for τ², and more trials seem to
help nothing.

Of a golden set the items are fixed, so that only trials count, se² = 2σ²/(k·n), once there are two of an
item; with one the spread over items stands in for their noise, as above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from replaydiff.diff.comparison import clusters_of
from replaydiff.diff.result import DiffResult, scores_of
from replaydiff.diff.statistics import paired
from replaydiff.diff.statistics.distributions import normal_cdf_array, normal_quantile
from replaydiff.diff.statistics.noise import pooled_within
from replaydiff.diff.statistics.paired import POWER, smallest_effect
from replaydiff.diff.statistics.trials import fixed_items, smallest_fixed_effect
from replaydiff.diff.stopping import EARLIEST_FUTILITY, FUTILE, LookLevels, look_levels, new_plan
from replaydiff.replay.errors import InputError, UnknownNameError
from replaydiff.replay.model import Lane

MOST_ITEMS = 1_000_000
_LEAST_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseEstimate:
    """The noise of one metric in a run, and its prices."""

    metric: str
    items: int
    between: float
    """τ: standard deviation, over items, of how much they changed, beyond the noise of trials."""
    noise: float | None
    """σ: standard deviation of one trial around its item's mean; None where no version was tried twice."""
    design: float
    """f: by how much sessions inflate the variance; 1 where each item stands alone."""
    reach: float
    """The largest change an item can show."""
    fixed: bool
    """Whether the items are a golden set, of which only the noise of trials counts."""
    trial_usd: float | None
    """Mean cost of one trial of either lane, with its grades; None where no trial had a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSize:
    """A comparison of `items` items with `trials` trials a lane."""

    items: int
    trials: int
    effect: float
    """The smallest change it shows with the power asked for."""
    cost_usd: float | None
    stopping: tuple[float, float] | None = None
    """With `--until-known`, the mean share of its trials that run where nothing changed, and at a loss of
    twice the effect; None where it was not asked for."""


def estimate_noise(result: DiffResult, metric: str) -> NoiseEstimate:
    """Return a metric's noise in the run.

    Raises:
        UnknownNameError: the run has no such metric.
        InputError: it compares nothing, or too little to plan from.
    """
    if metric not in result.metrics:
        raise UnknownNameError("metric", metric, result.metrics, where=f"run {result.run.id}")
    if not {Lane.OLD, Lane.NEW} <= result.run.lanes.keys():
        raise InputError(f"run {result.run.id} has one lane, so there is no change to plan from")
    scores = [
        (
            item,
            {lane: scores_of(item.lanes.get(lane, ()), metric) for lane in (Lane.OLD, Lane.NEW, Lane.OLD2)},
        )
        for item in result.items
    ]
    both = [(item, found) for item, found in scores if found[Lane.OLD] and found[Lane.NEW]]
    if len(both) < _LEAST_PAIRS:
        raise InputError(
            f"run {result.run.id} has {len(both)} items with a {metric} score in both lanes; "
            f"a plan needs {_LEAST_PAIRS}"
        )
    values = [value for _, found in both for lane in found.values() for value in lane]
    variance, degrees = pooled_within(
        [group for _, found in both for group in ([*found[Lane.OLD], *found[Lane.OLD2]], found[Lane.NEW])]
    )
    deltas = [fmean(found[Lane.NEW]) - fmean(found[Lane.OLD]) for _, found in both]
    centre = fmean(deltas)
    spread = math.fsum((delta - centre) ** 2 for delta in deltas) / (len(deltas) - 1)
    shared = math.fsum(1 / len(found[Lane.OLD]) + 1 / len(found[Lane.NEW]) for _, found in both) / len(both)
    clusters = clusters_of(item.item for item, _ in both)
    grouped = paired.clusters(deltas, [clusters[item.item.id] for item, _ in both])
    se, plain = paired.standard_error(grouped), math.sqrt(spread / len(deltas))
    return NoiseEstimate(
        metric=metric,
        items=len(both),
        between=math.sqrt(max(0.0, spread - variance * shared)),
        noise=math.sqrt(variance) if degrees else None,
        design=max(1.0, (se / plain) ** 2) if se is not None and plain > 0 else 1.0,
        reach=max(1.0, *values) - min(0.0, *values),
        fixed=result.run.sample is None,
        trial_usd=_price(result),
    )


def smallest_change(
    known: NoiseEstimate, items: int, trials: int, *, confidence: float, power: float = POWER
) -> float:
    """The smallest change that n items of k trials show."""
    of_trials = 2 * (known.noise or 0.0) ** 2 / trials
    if _only_trials_count(known, trials):
        found = smallest_fixed_effect(
            math.sqrt(of_trials / items),
            items * trials,
            confidence=confidence,
            reach=known.reach,
            power=power,
        )
    else:
        independent = items / known.design
        found = smallest_effect(
            math.sqrt((known.between**2 + of_trials) / independent),
            independent,
            trials_se=math.sqrt(of_trials / independent),
            confidence=confidence,
            reach=known.reach,
            power=power,
        )
    return math.inf if found is None else found


def _only_trials_count(known: NoiseEstimate, trials: int) -> bool:
    return known.fixed and known.noise is not None and trials > 1


def items_needed(
    known: NoiseEstimate, wanted: float, trials: int, *, confidence: float, power: float
) -> int | None:
    """The fewest items that show a change of this size; None where a million do not."""
    low, high = 2, 4
    while smallest_change(known, high, trials, confidence=confidence, power=power) > wanted:
        low, high = high, high * 2
        if high > MOST_ITEMS:
            return None
    while low < high:
        middle = (low + high) // 2
        if smallest_change(known, middle, trials, confidence=confidence, power=power) <= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def planned_size(
    known: NoiseEstimate, items: int, trials: int, lanes: int, *, confidence: float, power: float
) -> PlannedSize:
    """What n items of k trials in so many lanes show, and cost."""
    price = known.trial_usd
    return PlannedSize(
        items=items,
        trials=trials,
        effect=smallest_change(known, items, trials, confidence=confidence, power=power),
        cost_usd=None if price is None else price * items * trials * lanes,
    )


_PATHS = 20_000


def expected_share(
    known: NoiseEstimate,
    items: int,
    trials: int,
    loss: float,
    *,
    tolerance: float,
    confidence: float,
) -> float:
    """Return the mean share of its items that a run with `--until-known` replays.

    Simulated with the boundaries of the run's plan: estimates that are normal, with independent increments.

    Args:
        known: the noise.
        items: that the run is planned for.
        trials: of each item and lane.
        loss: how much worse the new version is.
        tolerance: the loss that SHIP leaves open.
        confidence: of the interval over all looks.
    """
    plan = new_plan(items)
    levels = [look_levels(plan, plan.looks[:j], look, confidence) for j, look in enumerate(plan.looks)]
    repeat = 2 * (known.noise or 0.0) ** 2 / trials / items
    changes, noise = known.between**2 * known.design / items, repeat * known.design
    fixed = _only_trials_count(known, trials)
    rng = np.random.default_rng(0)
    steps = np.sqrt(np.diff([look.part for look in levels], prepend=0.0))[:, None]
    drawn, tried = np.cumsum(rng.standard_normal((2, len(levels), _PATHS)) * steps, axis=1)
    part, going = np.zeros(_PATHS), np.ones(_PATHS, dtype=bool)
    for at, look in enumerate(levels):
        # Once all items of a golden set are there, nothing depends on which of them were drawn first.
        of_items = drawn[at] - look.part * drawn[-1] if fixed else drawn[at]
        drift = math.sqrt(changes) * of_items + math.sqrt(noise) * tried[at]
        found = -loss + drift / look.part
        last = math.sqrt(noise if fixed else noise + changes)
        se = math.sqrt(noise / look.part + changes * (1 / look.part - fixed))
        ship = found + normal_quantile(look.ship) * se >= -tolerance
        hold = (found - normal_quantile(look.hold) * se < 0) & (found < -tolerance)
        ends = going & (ship | hold | _is_futile(found, se, last, look, tolerance) | (look.items == items))
        part[ends], going = look.part, going & ~ends
    return float(part.mean())


def _is_futile(found: np.ndarray, se: float, last: float, look: LookLevels, tolerance: float) -> np.ndarray:
    """Return for each estimate whether a run would end at this look because no answer is likely.

    Args:
        found: the estimates.
        se: their standard error.
        last: that which all planned items will leave.
        look: the look.
        tolerance: the loss that SHIP leaves open.
    """
    spread = math.sqrt(max(se**2 - last**2, 1e-18))
    ship = normal_cdf_array((found + tolerance + normal_quantile(look.last_ship) * last) / spread)
    worst = max(-normal_quantile(look.last_hold) * last, tolerance)
    futile: np.ndarray = (look.part >= EARLIEST_FUTILITY) & (
        ship + normal_cdf_array((-worst - found) / spread) < FUTILE
    )
    return futile


def fewest_items(trials: int, old_trials: int, allowed: float, *, fixed: bool, confidence: float) -> int:
    """The fewest items that can be SHIP, where nothing at all changes in any trial.

    Args:
        trials: of the new version, for each item.
        old_trials: of the old version, its repeat's included.
        allowed: the largest loss, or share of changed items, that SHIP leaves open.
        fixed: whether the items are a golden set, of which only the noise of trials counts.
        confidence: of the interval.
    """

    def shows(items: int) -> bool:
        grouped, factor = paired.clusters([0.0] * items, range(items)), 1.0
        if fixed and max(trials, old_trials) > 1:
            found = fixed_items([(1.0,) * old_trials] * items, [(1.0,) * trials] * items, [1.0] * items)
            if found is not None:
                grouped, factor = found
        ends = paired.interval(grouped, confidence=confidence, reach=factor)
        if ends is not None and not fixed:
            ends = paired.with_unseen(ends, grouped, tails=((1 - confidence) / 2,) * 2)
        return ends is not None and max(-ends[0], ends[1]) <= allowed

    low, high = 1, 2
    while not shows(high) and high < MOST_ITEMS:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high


def _price(result: DiffResult) -> float | None:
    """Mean cost of a trial with its grades, over the trials that have a price."""
    costs = []
    for item in result.items:
        for lane in item.lanes.values():
            for graded in lane:
                known = [graded.trial.cost_usd, *(grade.cost_usd for grade in graded.grades.values())]
                found = [cost for cost in known if cost is not None]
                if found:
                    costs.append(math.fsum(found))
    return fmean(costs) if costs else None
