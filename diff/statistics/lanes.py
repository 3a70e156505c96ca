"""Estimate lane noise from two lanes of one version, for differences between lanes of two versions.

A bad hour or a cache that one lane alone has moves all its items together. Two lanes of one version show how
large such shocks are, with one degree of freedom; that they agree may be chance, too.
"""

from __future__ import annotations

import math


def noise_between(gap: float, se: float, repeated: float = 0.5) -> float:
    """Return the standard deviation that shocks of lanes give a new lane's change.

    Lanes differ by 2τ² = max(0, gap² − se²) beyond their trials, τ being the deviation of one lane. The
    change of a new lane against a mean of both old lanes, in which the repeat has the part r, has the
    variance τ²·(1 + (1 − r)² + r²): 3/2 τ² where every item was repeated.

    Args:
        gap: difference of the means of two lanes of the old version.
        se: its standard error by trials.
        repeated: r, the part of the old version's mean that comes from its repeat, from 0 to 0.5.
    """
    between = max(0.0, gap**2 - se**2) / 2
    return math.sqrt(between * (1 + (1 - repeated) ** 2 + repeated**2))
