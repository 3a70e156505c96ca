"""What a comparison of this size could have shown."""

from __future__ import annotations

import math

from scipy.special import ndtri, stdtrit

POWER = 0.8


def smallest_effect(
    se: float | None,
    items: float,
    *,
    trials_se: float = 0.0,
    confidence: float = 0.95,
    reach: float = 1.0,
    power: float = POWER,
) -> float | None:
    """The smallest true mean change that is found with this power; None below two items.

    The minimum detectable effect q·se(δ), q = t_{1−α/2, n−1} + z_{power} (Bloom 1995; Miller 2024, arXiv
    2411.00640, §5), where the error is that of a run in which the mean *did* change by δ. That is not the
    error of a run in which nothing changed: a mean change of δ that single items make, by falling as far as
    an item can (`reach`), has the variance δ(reach − δ) over items, the largest that one-sided changes of
    this mean can have (Bhatia & Davis 2000), and the noise of trials comes on top. So

        δ = max(q·se, the positive root of (1 + c)·δ² − c·reach·δ − q²·trials_se² = 0),  c = q²/n

    and a change this large is found with this power in whatever items it sits. Found means that the interval
    leaves out 0 (`benchmarks/plan_power.py`).

    Args:
        se: standard error of the mean change, as seen.
        items: n, the items that stand alone: clusters, or items over the design effect.
        trials_se: the part of `se` that the noise of trials makes; 0 where it is not known.
        confidence: of the interval.
        reach: the largest change an item can show.
        power: the chance of finding it.
    """
    if se is None or items < 2:
        return None
    quantiles = float(stdtrit(items - 1, (1 + confidence) / 2) + ndtri(power))
    share = quantiles**2 / items
    half = share * reach / 2
    single = (half + math.sqrt(half**2 + (1 + share) * (quantiles * trials_se) ** 2)) / (1 + share)
    return max(quantiles * se, single)
