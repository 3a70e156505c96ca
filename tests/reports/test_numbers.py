"""The rules of `reports.format`, one table each."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.reports import format as fmt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (1.0, "1.00"),
        (0.8249, "0.82"),
        (-0.5, "−0.50"),
        (-0.001, "0.00"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (12.44, "12.4"),
        (99.96, "100"),
        (999.4, "999"),
        (1240.4, "1,240"),
        (1e15, "1.00e+15"),
    ],
)
def test_score(value: float | None, text: str) -> None:
    assert fmt.score(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.00"),
        (0.07, "+0.07"),
        (-0.074, "−0.07"),
        (0.004, "+0.004"),
        (0.0051, "+0.01"),
        (-0.00042, "−0.0004"),
        (0.00001, "~0"),
        (-12.44, "−12.4"),
        (-1240.0, "−1,240"),
    ],
)
def test_change(value: float | None, text: str) -> None:
    assert fmt.change(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), ((-0.15, -0.02), "[−0.15,\u00a0−0.02]"), ((-0.01, 0.11), "[−0.01,\u00a0+0.11]")],
)
def test_interval(value: tuple[float, float] | None, text: str) -> None:
    assert fmt.interval(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (1.0, "1.00"),
        (0.214, "0.21"),
        (0.0312, "0.031"),
        (0.00123, "0.0012"),
        (0.0004, "<0.001"),
        (0.0, "<0.001"),
    ],
)
def test_p_value(value: float | None, text: str) -> None:
    assert fmt.p_value(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0\u00a0%"),
        (0.004, "<1\u00a0%"),
        (0.973, "97\u00a0%"),
        (0.9999, ">99\u00a0%"),
        (1.0, "100\u00a0%"),
    ],
)
def test_share(value: float | None, text: str) -> None:
    assert fmt.share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "$0.00"),
        (0.0042, "$0.0042"),
        (0.000004, "<$0.00001"),
        (0.0994, "$0.099"),
        (0.0996, "$0.10"),
        (0.4123, "$0.41"),
        (12.3, "$12.30"),
        (999.994, "$999.99"),
        (1240.4, "$1,240"),
    ],
)
def test_dollars(value: float | None, text: str) -> None:
    assert fmt.dollars(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0 ms"),
        (839.6, "840 ms"),
        (999.6, "1.00 s"),
        (1240.0, "1.24 s"),
        (12_340.0, "12.3 s"),
        (59_960.0, "1 min 00 s"),
        (125_000.0, "2 min 05 s"),
        (3_600_000.0, "1 h 00 min"),
        (3_840_000.0, "1 h 04 min"),
    ],
)
def test_duration(value: float | None, text: str) -> None:
    assert fmt.duration(value).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (840, "840"),
        (8400, "8,400"),
        (88_123, "88k"),
        (999_499, "999k"),
        (999_600, "1.00M"),
        (1_240_000, "1.24M"),
    ],
)
def test_tokens(value: int | None, text: str) -> None:
    assert fmt.tokens(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4.0, "4"), (-0.07, "−0.07"), (1.0, "1.00"), (1240.0, "1,240"), (None, "–")]
)
def test_figure(value: float | None, text: str) -> None:
    assert fmt.figure(value) == text


def test_counts_and_moments() -> None:
    assert (fmt.count(None), fmt.count(1240), fmt.count(-3)) == ("–", "1,240", "−3")
    assert [fmt.plural(n, "item") for n in (0, 1, 1200)] == [
        "0\u00a0items",
        "1\u00a0item",
        "1,200\u00a0items",
    ]
    assert fmt.plural(2, "retry", "retries") == "2\u00a0retries"
    assert fmt.moment(datetime(2026, 11, 20, 22, 13)) == "2026-11-20\u00a022:13"
    assert fmt.moment(None) == "–"


FUNCTIONS: list[Callable[[float], str]] = [
    fmt.score,
    fmt.change,
    fmt.figure,
    fmt.p_value,
    fmt.share,
    fmt.dollars,
    fmt.duration,
]


@given(st.floats(min_value=-1e12, max_value=1e12))
def test_a_figure_never_breaks_over_lines_and_never_has_two_signs(value: float) -> None:
    for write in FUNCTIONS:
        text = write(abs(value) if write in (fmt.duration, fmt.p_value) else value)
        assert text
        assert " " not in text
        assert "-" not in text.replace("e-", "")
        assert text.count("−") + text.count("+") - text.count("e+") <= 1


@given(st.floats(min_value=-10, max_value=10).filter(lambda value: abs(value) >= 0.0001))
def test_a_change_that_is_not_zero_does_not_read_zero(value: float) -> None:
    text = fmt.change(value)
    assert text[0] == ("−" if value < 0 else "+")
    assert float(text[1:]) > 0
