"""What two lanes of one version prove about a third."""

from __future__ import annotations

from math import sqrt

import pytest

from replaydiff.diff.statistics.lanes import noise_between, provable_loss


def test_lanes_that_differ_no_more_than_their_trials_have_no_noise_of_their_own() -> None:
    assert noise_between(0.02, 0.03) == 0.0
    assert noise_between(-0.05, 0.03) == pytest.approx(sqrt(0.75) * 0.04)


@pytest.mark.parametrize(
    ("gap", "se", "loss"),
    [
        (0.0, 0.0, 0.05),
        # Lanes that agree by chance count as one standard error apart.
        (0.0, 0.02, 0.08),
        (0.02, 0.02, 0.08),
        (-0.1, 0.02, 8 * sqrt(0.75 * 0.0096)),
    ],
)
def test_a_provable_loss_is_beyond_the_difference_of_the_old_lanes(
    gap: float, se: float, loss: float
) -> None:
    assert provable_loss(gap, se, tolerance=0.05) == pytest.approx(loss)
