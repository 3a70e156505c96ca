"""What a comparison of this size could have shown."""

from __future__ import annotations

import math

from scipy import stats

POWER = 0.8


def smallest_effect(
    se: float | None,
    items: int,
    *,
    confidence: float = 0.95,
    reach: float = 1.0,
    power: float = POWER,
) -> float | None:
    """The smallest true mean change that would be found with this power; None below two items.

    mde = (t_{1−α/2, n−1} + z_{power}) · se (Bloom 1995; Miller 2024, arXiv 2411.00640, §5). The error is not
    taken below that of two half-observations of an item changed by `reach` among n that did not change,
    reach/√((n+1)(n+2)): items that all stayed the same are no proof of infinite precision.
    """
    if se is None or items < 2:
        return None
    least = reach / math.sqrt((items + 1) * (items + 2))
    quantiles = stats.t.ppf((1 + confidence) / 2, items - 1) + stats.norm.ppf(power)
    return float(quantiles * max(se, least))
