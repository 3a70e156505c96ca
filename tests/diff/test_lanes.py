"""What two lanes of one version prove about a third."""

from __future__ import annotations

from math import sqrt

import pytest

from replaydiff.diff.statistics.lanes import noise_between


def test_lanes_that_differ_no_more_than_their_trials_have_no_noise_between_them() -> None:
    assert noise_between(0.02, 0.03) == 0.0


@pytest.mark.parametrize(("repeated", "variances"), [(0.5, 1.5), (0.1, 1.82), (0.0, 2.0)])
def test_the_less_was_repeated_the_more_a_shock_of_the_old_lane_moves_the_change(
    repeated: float, variances: float
) -> None:
    """Two old lanes 0.05 apart with an error of 0.03: each deviates by sqrt(0.0008)."""
    assert noise_between(-0.05, 0.03, repeated) == pytest.approx(sqrt(0.0008 * variances))
