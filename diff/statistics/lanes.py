"""What the difference of two lanes of one version says about differences between lanes of two versions.

A bad hour or a cache that one lane alone has moves all its items together. Two lanes of one version show how
large such shocks are, with one degree of freedom; that they agree may be chance, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GAPS = 1.5
_NOISES = 8.0
"""Student's t with one degree of freedom gives 6.3 at one-sided 95 %; the rest makes up for lanes that agree
by chance, whose noise is 0. `benchmarks/lane_frontier.py` compares the rule with the best one."""


def noise_between(gap: ArrayLike, se: ArrayLike) -> NDArray[np.float64]:
    """Return the standard deviation that shocks of lanes give a new lane's change.

    Lanes differ by τ² = max(0, gap² − se²)/2 beyond their trials. The change of a new lane against the mean
    of both has 3/2 of that variance.

    Args:
        gap: difference of the means of two lanes of the old version.
        se: its standard error by trials.
    """
    found: NDArray[np.float64] = np.sqrt(0.75 * np.maximum(0.0, np.square(gap) - np.square(se)))
    return found


def provable_loss(gap: ArrayLike, se: ArrayLike, tolerance: float) -> NDArray[np.float64]:
    """Return the loss above which a new lane is worse by more than `tolerance`, whatever shocks lanes have.

    It is the larger of two: the tolerance and one and a half times the difference of the old lanes, which
    counts as one standard error at least; and eight times the noise between lanes.

    Args:
        gap: difference of the means of two lanes of the old version.
        se: its standard error by trials.
        tolerance: the loss that is allowed.
    """
    return np.maximum(tolerance + _GAPS * np.maximum(np.abs(gap), se), _NOISES * noise_between(gap, se))
