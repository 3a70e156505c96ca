"""Months of a time zone as spans of UTC."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.errors import InputError
from replaydiff.replay.months import in_zone, month_at, month_range, months_between

ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "America/Havana")


@pytest.mark.parametrize(
    ("month", "first", "after"),
    [
        ("2026-12", datetime(2026, 12, 1), datetime(2027, 1, 1)),
        # Summer time ends on the 25th, and begins on the 29th of March.
        ("2026-10 Europe/Berlin", datetime(2026, 9, 30, 22), datetime(2026, 10, 31, 23)),
        ("2026-03 Europe/Berlin", datetime(2026, 2, 28, 23), datetime(2026, 3, 31, 22)),
        # Clocks go back at one in the morning of the first day: it has two midnights, the first one counts.
        ("2026-11 America/Havana", datetime(2026, 11, 1, 4), datetime(2026, 12, 1, 5)),
        # The month has no 30th: the zone crossed the date line.
        ("2011-12 Pacific/Apia", datetime(2011, 12, 1, 10), datetime(2011, 12, 31, 10)),
    ],
)
def test_a_month_is_a_span_of_utc(month: str, first: datetime, after: datetime) -> None:
    assert month_range(month) == (first, after)


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)),
    st.timedeltas(timedelta(0), timedelta(days=400)),
    st.sampled_from(ZONES),
)
def test_months_follow_each_other_without_gaps(first: datetime, length: timedelta, zone: str) -> None:
    months = [*months_between(first, first + length, zone)]
    spans = [month_range(month) for month in months]
    assert spans[0][0] <= first < spans[0][1]
    assert spans[-1][0] <= first + length < spans[-1][1]
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert months[0] == month_at(first, zone)


def test_the_zone_of_a_month_is_stated_unless_it_is_utc() -> None:
    assert in_zone("2026-10", "Asia/Tokyo") == "2026-10 Asia/Tokyo"
    assert in_zone("2026-10 Asia/Tokyo", "Europe/Berlin") == "2026-10 Asia/Tokyo"
    assert in_zone("2026-10", "UTC") == "2026-10"


@pytest.mark.parametrize("month", ["2026-10 Mars/Olympus", "2026-10 ../../etc/passwd", "2026-10  UTC"])
def test_what_is_no_zone(month: str) -> None:
    with pytest.raises(InputError, match="is no time zone of this machine"):
        month_range(month)
