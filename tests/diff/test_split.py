"""What of a judged change's uncertainty is the judge's, the agent's and the items'."""

from __future__ import annotations

import random

import pytest

from replaydiff.diff.statistics.split import LaneVoteScores, split_variance


def _made(
    votes: float, trials: float, items: float, *, size: int = 600, n: int = 4, k: int = 3
) -> list[tuple[LaneVoteScores, LaneVoteScores]]:
    """Items by the model: an effect of each item, of each trial and of each vote, of these deviations."""
    rng = random.Random(7)

    def lane(centre: float) -> LaneVoteScores:
        return [
            [rng.gauss(around, votes) for _ in range(k)]
            for around in (rng.gauss(centre, trials) for _ in range(n))
        ]

    return [(lane(0.0), lane(rng.gauss(0.1, items))) for _ in range(size)]


def test_the_parts_that_went_in_come_out() -> None:
    found = split_variance(_made(0.3, 0.2, 0.1, size=4000))
    assert found is not None
    assert found.votes == pytest.approx(0.3, rel=0.05)
    assert found.trials == pytest.approx(0.2, rel=0.05)
    assert found.items == pytest.approx(0.1, rel=0.25)
    assert sum(found.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("votes", "trials", "items", "buy"),
    [(0.6, 0.05, 0.02, "votes"), (0.1, 0.4, 0.05, "trials"), (0.1, 0.1, 0.5, "items")],
)
def test_what_to_buy_is_what_varies_most(votes: float, trials: float, items: float, buy: str) -> None:
    found = split_variance(_made(votes, trials, items))
    assert found is not None
    assert found.buy == buy
    assert found.shares[buy] > 0.5


def test_what_cannot_be_told_apart_is_not_told() -> None:
    single = split_variance([([[0.0]], [[1.0]]), ([[1.0]], [[1.0]])])
    assert single is not None
    assert (single.votes, single.trials, single.buy) == (None, None, "items")
    assert split_variance([([[0.0]], [[1.0]]), ([], [[1.0]])]) is None
    level = split_variance([([[1.0, 1.0]], [[1.0, 1.0]])] * 3)
    assert level is not None
    assert (level.votes, level.buy) == (0.0, None)
