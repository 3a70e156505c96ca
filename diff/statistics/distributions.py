"""The normal and Student's t distribution, as far as a comparison needs them.

scipy.special has the same functions, but loading it costs more time than comparing two runs of fifty items.
`tests/diff/test_distributions.py` compares these with scipy's.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

_NORMAL = NormalDist()
_TINY = 1e-300
"""In place of 0 as a denominator."""
_PRECISION = 1e-15


def normal_cdf(z: float) -> float:
    """Return the chance that a standard normal value is at most `z`."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_cdf_array(z: np.ndarray) -> np.ndarray:
    """Return `normal_cdf` of each element."""
    scaled = (z / -math.sqrt(2)).ravel().tolist()
    return np.array([math.erfc(value) for value in scaled]).reshape(z.shape) / 2


def normal_quantile(chance: float) -> float:
    """Return the value that a standard normal one stays below with this chance; infinite for 0 and 1."""
    if chance <= 0 or chance >= 1:
        return math.inf if chance > 0 else -math.inf
    return _NORMAL.inv_cdf(chance)


def t_cdf(degrees: float, t: float) -> float:
    """Return the chance that a value of Student's t distribution is at most `t`."""
    tail = _t_tail(degrees, abs(t))
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(degrees: float, chance: float) -> float:
    """Return the value that one of Student's t distribution stays below with this chance."""
    tail = min(chance, 1 - chance)
    if tail <= 0:
        return math.copysign(math.inf, chance - 0.5)
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    # The tail is convex and heavier than the normal one: Newton's steps from the normal quantile only rise.
    t = -normal_quantile(tail)
    while True:
        density = math.exp(log_scale - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = (_t_tail(degrees, t) - tail) / density
        if step <= _PRECISION * t:
            return math.copysign(t, chance - 0.5)
        t += step


@lru_cache(maxsize=4096)
def beta_quantile(a: float, b: float, chance: float) -> float:
    """Return the value that one of the beta distribution stays below with this chance, by bisection."""
    low, high = 0.0, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _beta_cdf(a, b, middle) < chance else (low, middle)
    return (low + high) / 2


def _beta_cdf(a: float, b: float, x: float) -> float:
    """Return the chance that a value of the beta distribution is at most `x`, 0 < x < 1 (DLMF 8.17.22)."""
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b))
    # The fraction converges fast on its own side of the mean.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def log_choose(n: int, k: int) -> float:
    """Return the logarithm of the number of ways to choose `k` of `n`."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def log_beta(a: float, b: float) -> float:
    """Return the logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _t_tail(degrees: float, t: float) -> float:
    """Return the chance of a value above `t`, which is not negative (Abramowitz & Stegun 26.7.1)."""
    a, b = degrees / 2, 0.5
    below, above = t * t / (degrees + t * t), degrees / (degrees + t * t)
    if not below:
        return 0.5
    front = math.exp(a * math.log(above) + b * math.log(below) - log_beta(a, b))
    # The fraction converges fast on its own side of the mean.
    if above < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, above) / a / 2
    return (1 - front * _fraction(b, a, below) / b) / 2


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    step = 0
    while True:
        step += 1
        even, odd = a + 2 * step, a + 2 * step + 1
        for factor in (
            step * (b - step) * x / ((even - 1) * even),
            -(a + step) * (a + b + step) * x / (even * odd),
        ):
            d = 1 / _not_zero(1 + factor * d)
            c = _not_zero(1 + factor / c)
            value *= c * d
        if abs(c * d - 1) < _PRECISION:
            return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
