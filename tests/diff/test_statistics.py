"""Statistics against brute force, and against statsmodels where both define the same thing."""

from __future__ import annotations

import math
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.statistics import noise, paired
from tests.stand_ins.full import full

halves = st.sampled_from([-1.0, -2 / 3, -0.5, -1 / 3, 0.0, 1 / 3, 0.5, 2 / 3, 1.0])


def singles(deltas: list[float]) -> paired.Clusters:
    return paired.clusters(deltas, range(len(deltas)))


def test_standard_error_of_single_items_is_that_of_the_mean() -> None:
    from scipy import stats

    deltas = [0.0, 1.0, -1.0, 0.5, 0.0]
    assert paired.standard_error(singles(deltas)) == pytest.approx(stats.sem(deltas))


@full
@pytest.mark.oracle
def test_standard_error_of_clusters_is_that_of_statsmodels() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    keys = rng.integers(0, 12, 60)
    deltas = rng.normal(size=60) + rng.normal(size=12)[keys]
    fitted = sm.OLS(deltas, np.ones(60)).fit(
        cov_type="cluster", cov_kwds={"groups": keys, "use_correction": False}
    )
    count = len(set(keys))
    theirs = fitted.bse[0] * math.sqrt(count / (count - 1))
    assert paired.standard_error(paired.clusters(list(deltas), list(keys))) == pytest.approx(theirs)


def test_repeating_items_within_sessions_adds_nothing() -> None:
    deltas = [0.0, 1.0, -1.0, 0.5]
    once = paired.standard_error(singles(deltas))
    thrice = paired.standard_error(paired.clusters(deltas * 3, [0, 1, 2, 3] * 3))
    assert thrice == pytest.approx(once)


def test_below_two_clusters_nothing_is_known() -> None:
    for grouped in (singles([]), singles([1.0]), paired.clusters([1.0, 0.0], ["s", "s"])):
        assert paired.standard_error(grouped) is None
        assert paired.interval(grouped) is None
    assert paired.sign_flip(singles([])) is None
    assert paired.smallest_effect(None, 1) is None


def test_interval_of_many_changes_is_students_shifted_for_their_skewness() -> None:
    from scipy import stats

    changes = np.random.default_rng(5).choice([-1.0, 0.0, 0.0, 0.5], 120)
    low, high = paired.interval(singles(changes.tolist())) or (0, 0)
    mean, se = changes.mean(), changes.std(ddof=1) / 120**0.5
    quantile = stats.t.ppf(0.975, 119)
    shift = stats.skew(changes) * (2 * quantile**2 + 1) / (6 * 120**0.5)
    assert low == pytest.approx(mean - se * (quantile - shift))
    assert high == pytest.approx(mean + se * quantile)
    flipped = paired.interval(singles((-changes).tolist())) or (0, 0)
    assert flipped[1] == pytest.approx(-mean + se * (quantile - shift))


@pytest.mark.parametrize("items", [10, 20, 50, 71, 72, 200])
def test_no_change_at_all_is_no_proof_of_no_change(items: int) -> None:
    """±3.7/n: the exact bound of a rate that was never seen."""
    from scipy import stats

    low, high = paired.interval(singles([0.0] * items)) or (0, 0)
    assert (low, high) == pytest.approx((-(1 - 0.025 ** (1 / items)), 1 - 0.025 ** (1 / items)))
    assert high == pytest.approx(stats.beta.ppf(0.975, 1, items))
    assert (low >= -0.05) == (items >= 72)


@pytest.mark.parametrize(("fallen", "items"), [(1, 50), (1, 100), (3, 200), (7, 200)])
def test_a_loss_of_a_few_items_has_the_exact_bound_of_their_share(fallen: int, items: int) -> None:
    from scipy import stats

    low, _ = paired.interval(singles([-1.0] * fallen + [0.0] * (items - fallen))) or (0, 0)
    assert low == pytest.approx(-stats.beta.ppf(0.975, fallen + 1, items - fallen))


@pytest.mark.parametrize("tail", [0.001, 0.025, 0.2])
@pytest.mark.parametrize(("a", "b"), [(1, 50), (3.5, 96.5), (20, 4), (0.5, 0.5), (400, 300)])
def test_the_quantile_of_a_beta_distribution_is_scipys(a: float, b: float, tail: float) -> None:
    from scipy import stats

    from replaydiff.diff.statistics.distributions import beta_quantile

    assert beta_quantile(a, b, tail) == pytest.approx(stats.beta.ppf(tail, a, b), rel=1e-9)
    assert beta_quantile(a, b, 1 - tail) == pytest.approx(stats.beta.ppf(1 - tail, a, b), rel=1e-9)


@pytest.mark.parametrize("items", [20, 71, 72, 100])
def test_no_change_in_a_sample_leaves_what_so_many_draws_can_miss(items: int) -> None:
    """The bound of Clopper and Pearson for a rate of which no draw showed one."""
    from scipy import stats

    grouped, tails = singles([0.0] * items), (0.025, 0.025)
    low, high = paired.with_unseen((0.0, 0.0), grouped, tails=tails)
    exact = stats.binomtest(0, items).proportion_ci(0.95, "exact").high
    assert (-low, high) == pytest.approx((exact, exact))
    assert (low >= -0.05) is (items >= 72)


def test_what_no_draw_showed_counts_until_one_shows_it() -> None:
    """A gain seen elsewhere hides no fall; a whole fall that was drawn is in the interval already."""
    tails = (0.025, 0.025)
    for deltas in ([0.5] * 5 + [0.0] * 45, [-0.5] + [0.0] * 49):
        low, high = paired.with_unseen((-0.01, 0.2), singles(deltas), tails=tails)
        share = 1 - 0.025 ** (1 / 50)
        assert (low, high) == pytest.approx(((1 - share) * sum(deltas) / 50 - share, 0.2))
    fallen = singles([-1.0] + [0.0] * 49)
    assert paired.with_unseen((-0.06, 0.01), fallen, tails=tails) == (-0.06, 0.01)


def test_one_frequent_question_does_not_hide_what_the_others_show() -> None:
    """Fourteen of fifty users only greet: the other 36 questions still bound what was not drawn."""
    low, high = paired.interval(paired.clusters([0.0] * 50, [max(0, i - 13) for i in range(50)])) or (0, 0)
    assert -0.1 < low < -0.05 < 0.05 < high < 0.1
    few = paired.interval(paired.clusters([0.0] * 50, [i % 3 for i in range(50)])) or (0, 0)
    assert few[1] > 0.5


def test_interval_grows_with_confidence_and_with_what_an_item_can_change() -> None:
    deltas = [0.0, 0.5, -0.5, 1.0] * 5

    def width(**options: float) -> float:
        low, high = paired.interval(singles(deltas), **options) or (0, 0)  # type: ignore[arg-type]
        return high - low

    assert width(confidence=0.8) < width(confidence=0.95) < width(confidence=0.99)
    assert width(reach=1.0) < width(reach=5.0)


def test_sessions_widen_the_interval() -> None:
    deltas = [1.0] * 10 + [0.0] * 10
    low, high = paired.interval(singles(deltas)) or (0, 0)
    wide_low, wide_high = paired.interval(paired.clusters(deltas, [i // 5 for i in range(20)])) or (0, 0)
    assert wide_high - wide_low > 1.5 * (high - low)


@given(st.lists(halves, min_size=1, max_size=8))
def test_sign_flip_is_what_enumeration_finds(deltas: list[float]) -> None:
    observed = abs(sum(deltas))
    signs = list(product([-1, 1], repeat=len(deltas)))
    reached = sum(
        abs(sum(s * d for s, d in zip(sign, deltas, strict=True))) >= observed - 1e-9 for sign in signs
    )
    assert paired.sign_flip(singles(deltas)) == pytest.approx(reached / len(signs))


def test_sign_flip_of_what_floating_point_left_of_zero_finds_nothing() -> None:
    assert paired.sign_flip(singles([1e-17, -3e-17])) == 1.0


@full
def test_sign_flip_of_single_trials_is_mcnemar() -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    deltas = [1.0] * 9 + [-1.0] * 2 + [0.0] * 30
    theirs = mcnemar([[15, 2], [9, 15]], exact=True).pvalue
    assert paired.sign_flip(singles(deltas)) == pytest.approx(theirs)


def test_sign_flip_of_graded_scores_is_close_to_the_t_test() -> None:
    from scipy import stats

    deltas = list(np.random.default_rng(5).normal(0.3, 1, 80))
    assert paired.sign_flip(singles(deltas)) == pytest.approx(stats.ttest_1samp(deltas, 0).pvalue, abs=0.01)


def test_pass_hat_k_counts_subsets() -> None:
    outcomes = [[True, True, False], [True, True, True], [False], []]
    for k, value in paired.pass_hat_k(outcomes).items():
        shares = [
            np.mean([all(chosen) for chosen in combinations(trials, k)])
            for trials in outcomes
            if len(trials) >= k
        ]
        assert value == pytest.approx(np.mean(shares))
    assert paired.pass_hat_k([[], []]) == {}


def test_pass_k_says_over_how_many_items() -> None:
    assert paired.items_by_trials([[True] * 3, [False], [], [True] * 2]) == {1: 3, 2: 2, 3: 1}
    assert paired.items_by_trials([]) == {}


def test_weighted_mean() -> None:
    assert paired.weighted_mean([1.0, 0.0], [1.0, 3.0]) == 0.25
    assert paired.weighted_mean([], []) is None


@full
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@pytest.mark.oracle
def test_corrections_are_those_of_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    # It collects garbage at every call, which takes longer than all the rest.
    with patch("gc.collect"):
        holm, discovery = (multipletests(p_values, method=method)[1] for method in ("holm", "fdr_bh"))
    assert noise.holm(p_values) == pytest.approx(holm)
    assert noise.false_discovery(p_values) == pytest.approx(discovery)


def test_noise_is_the_mean_square_within() -> None:
    groups = [[1.0, 1.0, 0.0], [0.0, 0.0], [1.0]]
    variance, degrees = noise.pooled_within(groups)
    assert (variance, degrees) == (pytest.approx((2 / 3) / 3), 3)
    null = noise.fit_moments(noise.Moments.of(groups))
    assert null is not None
    assert null.noise == pytest.approx(math.sqrt(variance))


def test_noise_is_unknown_where_nothing_was_tried_twice() -> None:
    assert noise.fit_moments(noise.Moments.of([[1.0], [0.0]])) is None


def test_fit_finds_the_agent_it_was_shown() -> None:
    rng = np.random.default_rng(2)
    rates = rng.beta(2, 1, 3000)
    groups = [list((rng.random(4) < rate).astype(float)) for rate in rates]
    null = noise.fit_moments(noise.Moments.of(groups))
    assert null is not None
    assert (null.a, null.b) == (pytest.approx(2, rel=0.1), pytest.approx(1, rel=0.1))


def test_surprise_is_what_simulation_finds() -> None:
    null = noise.Null(a=0.6, b=0.4, noise=0.3, degrees=10)
    rng = np.random.default_rng(4)
    rates = rng.beta(0.6, 0.4, 200_000)
    change = rng.binomial(3, rates) / 3 - rng.binomial(4, rates) / 4
    for delta in (-1.0, -0.5, 0.25, 2 / 3):
        share = np.mean(change <= delta + 1e-9) if delta < 0 else np.mean(change >= delta - 1e-9)
        assert noise.surprise(null, 4, 3, delta) == pytest.approx(share, abs=0.004)
    assert noise.surprise(null, 4, 3, 0.0) == 1.0


def test_smallest_effect_of_a_run_that_varies_is_that_of_its_error() -> None:
    from scipy import stats

    quantiles = stats.t.ppf(0.975, 49) + stats.norm.ppf(0.8)
    assert paired.smallest_effect(0.1, 50) == pytest.approx(quantiles * 0.1)


@given(st.integers(2, 2000), st.floats(0, 0.2), st.floats(0.1, 10))
def test_smallest_effect_of_a_run_without_change_is_what_single_items_that_fall_make(
    items: int, trials_se: float, reach: float
) -> None:
    from scipy import stats

    found = paired.smallest_effect(trials_se, items, trials_se=trials_se, reach=reach)
    assert found is not None
    quantiles = stats.t.ppf(0.975, items - 1) + stats.norm.ppf(0.8)
    still_open = max(0.0, found * (reach - found))
    assert found == pytest.approx(quantiles * math.sqrt(still_open / items + trials_se**2))


@pytest.mark.parametrize("items", [20, 50, 200])
def test_what_falls_by_the_smallest_effect_is_found_four_times_in_five(items: int) -> None:
    """Items that pass always or fall wholly: how many must fall for the interval to leave out 0?"""
    from scipy import stats

    share = paired.smallest_effect(0.0, items) or 0.0
    fewest = next(
        fallen
        for fallen in range(1, items)
        if (paired.interval(singles([-1.0] * fallen + [0.0] * (items - fallen))) or (0, 0))[1] < 0
    )
    assert 0.8 <= stats.binom.sf(fewest - 1, items, share) < 0.95


@given(st.lists(halves, min_size=4, max_size=12), st.integers(2, 4))
def test_sessions_of_the_same_size_are_items_of_that_many(deltas: list[float], size: int) -> None:
    """An interval over sessions of equal items is that over as many single items."""
    one = paired.interval(singles(deltas))
    many = paired.interval(paired.clusters(deltas * size, list(range(len(deltas))) * size))
    assert many == pytest.approx(one)
