"""The right commit is found with few trials, whatever the shape of the history; noise alone is no finding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.bisect.history import groups
from replaydiff.replay.bisect.inference import RATES, SMALLEST, changed, infer, information
from replaydiff.replay.bisect.search import Search
from tests.bisect.histories import graph, linear, simulate


@pytest.mark.parametrize("first_bad", [0, 1, 31, 62, 63])
def test_an_agent_without_noise_is_bisected_like_git_does(first_bad: int) -> None:
    search = simulate(linear(64), first_bad, items=12, before=0, after=1, affected=12, seed=1)
    found = search.finding()
    assert found.commit == first_bad
    assert found.confidence >= 0.95
    assert search.trial_count <= 45


def test_a_noisy_agent_is_bisected_right_nineteen_times_in_twenty() -> None:
    history = linear(64)
    right = trials = 0
    for seed in range(20):
        first_bad = (seed * 29) % 64
        search = simulate(history, first_bad, items=12, before=0.1, after=0.9, affected=8, seed=seed)
        right += search.finding().commit == first_bad
        trials += search.trial_count
    assert right >= 19
    # `git bisect run` with three repeats of each item makes 6 x 36 trials.
    assert trials / 20 <= 0.6 * 216


@pytest.mark.parametrize("items", [1, 12])
def test_an_agent_that_fails_alike_at_both_ends_is_no_finding(items: int) -> None:
    for seed in range(5):
        found = simulate(
            linear(16), 7, items=items, before=0.3, after=0.3, affected=items, seed=seed
        ).finding()
        assert found.commit is None
        assert "do not differ beyond chance" in found.reason


def test_what_fails_at_both_ends_or_at_none_is_named() -> None:
    both = simulate(linear(8), 3, items=2, before=1, after=1, affected=2, seed=0).finding()
    none = simulate(linear(8), 3, items=2, before=0, after=0, affected=2, seed=0).finding()
    assert (both.commit, none.commit) == (None, None)
    assert "fail at both ends" in both.reason
    assert "no item fails at either end" in none.reason


def test_both_sides_of_a_merge_are_searched() -> None:
    # 1 ─ 2 ─ 3 ─┐
    #  └─ 4 ─ 5 ─┴ 6 ─ 7
    merged = graph({1: [0], 2: [1], 3: [2], 4: [1], 5: [4], 6: [3, 5], 7: [6]})
    for first_bad in range(7):
        search = simulate(merged, first_bad, items=6, before=0, after=1, affected=6, seed=first_bad)
        assert search.finding().commit == first_bad


def test_a_commit_that_does_not_start_is_no_obstacle_unless_it_is_next_to_the_change() -> None:
    far = simulate(linear(16), 10, items=6, before=0, after=1, affected=6, seed=3, broken=[8, 9])
    assert far.finding().commit == 10
    near = simulate(linear(16), 10, items=6, before=0, after=1, affected=6, seed=3, broken=[11]).finding()
    assert near.commit is None
    assert near.group == (10, 11)
    assert "one of 2 commits" in near.reason


def test_a_limit_of_trials_ends_the_search_without_a_commit() -> None:
    found = simulate(linear(64), 40, items=12, before=0.1, after=0.9, affected=6, seed=0, max_trials=30)
    assert found.trial_count <= 40
    assert found.finding().commit is None


def test_a_search_goes_on_from_the_counts_of_another() -> None:
    whole = simulate(linear(32), 11, items=4, before=0.1, after=0.9, affected=4, seed=5)
    again = Search(whole.history, 4)
    for point, row in enumerate(whole.trials):
        for item, number in enumerate(row):
            for place in range(int(number)):
                again.add(point, item, place < whole.failures[point, item])
    assert again.next() is None
    assert again.finding() == whole.finding()


def test_the_posterior_is_that_of_a_double_sum() -> None:
    failures = np.array([[0.0], [1.0], [2.0]])
    trials = np.array([[2.0], [1.0], [2.0]])
    contains = linear(2).contains()
    pairs = [(low, high) for low in RATES for high in RATES if high - low >= SMALLEST]

    def likelihood(rate: float, failed: float, number: float) -> float:
        return float(rate**failed * (1 - rate) ** (number - failed))

    one = np.mean([likelihood(rate, 3, 5) for rate in RATES])
    evidence = []
    for after in ([1, 2], [2]):
        before = [place for place in range(3) if place not in after]
        both = np.mean(
            [
                likelihood(low, failures[before].sum(), trials[before].sum())
                * likelihood(high, failures[after].sum(), trials[after].sum())
                for low, high in pairs
            ]
        )
        evidence.append(np.mean([share * both + (1 - share) * one for share in (0.1, 0.3, 0.5, 0.6, 0.9)]))
    weights = np.array([*(0.25 * np.array(evidence)), 0.5 * one])
    assert infer(failures, trials, contains).probability == pytest.approx(weights / weights.sum())


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.booleans()), min_size=0, max_size=60))
def test_beliefs_are_probabilities_and_information_is_at_most_a_bit(
    made: list[tuple[int, int, bool]],
) -> None:
    search = Search(linear(8), 3)
    for point, item, failed in made:
        search.add(point, item, failed)
    belief = search.belief
    assert belief.probability.sum() == pytest.approx(1)
    for values in (belief.probability, belief.before, belief.after, belief.affected):
        assert np.isfinite(values).all()
        assert ((values >= 0) & (values <= 1)).all()
    bits = information(belief, search.contains)
    assert ((bits >= 0) & (bits <= 1)).all()


def test_thousands_of_trials_do_not_underflow() -> None:
    trials = np.full((3, 2), 5000.0)
    belief = infer(np.array([[0.0, 50.0], [5000.0, 60.0], [5000.0, 40.0]]), trials, linear(2).contains())
    assert belief.probability[0] == pytest.approx(1)


def test_a_version_is_told_apart_by_its_trials() -> None:
    before, after = np.array([0.1, 0.1]), np.array([0.9, 0.1])
    assert changed(np.array([3.0, 0.0]), np.array([3.0, 1.0]), before, after) > 0.98
    assert changed(np.array([0.0, 0.0]), np.array([3.0, 1.0]), before, after) < 0.02
    assert changed(np.zeros(2), np.zeros(2), before, after) == 0.5


def test_commits_between_which_nothing_can_be_tested_are_one_group() -> None:
    contains = linear(4).contains()
    assert groups(contains, [True, True, False, True, True]) == [[0], [1, 2], [3]]
