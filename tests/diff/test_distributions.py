"""The distributions of a comparison against those of scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from replaydiff.diff.statistics import distributions

CHANCES = st.floats(1e-12, 1 - 1e-12)
DEGREES = st.floats(1, 1e5)


@given(st.floats(-30, 30))
def test_the_normal_distribution(z: float) -> None:
    assert distributions.normal_cdf(z) == pytest.approx(float(special.ndtr(z)), rel=1e-12)


@given(CHANCES)
def test_the_normal_quantile(chance: float) -> None:
    assert distributions.normal_quantile(chance) == pytest.approx(float(special.ndtri(chance)), abs=1e-12)


def test_many_normal_chances_keep_the_shape() -> None:
    values = np.linspace(-9, 9, 30).reshape(5, 6)
    assert distributions.normal_cdf_array(values) == pytest.approx(special.ndtr(values), rel=1e-12)


@given(DEGREES, st.floats(-1e6, 1e6))
def test_students_t(degrees: float, t: float) -> None:
    assert distributions.t_cdf(degrees, t) == pytest.approx(float(special.stdtr(degrees, t)), rel=1e-8)


@given(DEGREES, CHANCES)
def test_the_quantile_of_students_t(degrees: float, chance: float) -> None:
    found = distributions.t_quantile(degrees, chance)
    assert found == pytest.approx(float(special.stdtrit(degrees, chance)), rel=1e-8, abs=1e-8)


def test_the_ends_of_both_quantiles() -> None:
    for found in (
        distributions.normal_quantile,
        lambda chance: distributions.t_quantile(3, chance),
    ):
        assert (found(0.0), found(0.5), found(1.0)) == (-math.inf, 0, math.inf)


@given(st.integers(0, 3000), st.data())
def test_ways_to_choose(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    assert distributions.log_choose(n, k) == pytest.approx(math.log(math.comb(n, k)), rel=1e-9, abs=1e-9)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_the_beta_function(a: float, b: float) -> None:
    assert distributions.log_beta(a, b) == pytest.approx(float(special.betaln(a, b)), rel=1e-9, abs=1e-9)
