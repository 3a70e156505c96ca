"""Months of the project's time zone.

A month is text: `2026-10` in UTC, `2026-10 Europe/Berlin` in another zone. So whatever prints a month states
the zone, and a stored sample keeps it. The store holds times in UTC; here a month becomes a span of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from replaydiff.replay.errors import InputError

UTC_ZONE = "UTC"


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of this name.

    Raises:
        ValueError: the machine knows no such zone.
    """
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise ValueError(
            f"{name!r} is no time zone of this machine; write it like Europe/Berlin"
            " (a machine without zones gets them by `pip install tzdata`)"
        ) from None


def in_zone(month: str, zone: str) -> str:
    """Return a month in this zone, unless it names one itself."""
    return month if " " in month or zone == UTC_ZONE else f"{month} {zone}"


def month_range(month: str) -> tuple[datetime, datetime]:
    """Return the first moment of a month (`YYYY-MM`, or `YYYY-MM ZONE`) and of the next, in UTC.

    Raises:
        InputError: it is not a month.
    """
    text, _, zone = month.partition(" ")
    match = re.fullmatch(r"(\d{4})-(\d{2})", text, re.ASCII)
    if not match or not 1 <= int(match[2]) <= 12 or not 1 <= int(match[1]) <= 9998:
        raise InputError(f"{month!r} is not a month", hint="write it as YYYY-MM, like 2026-10")
    year, number = int(match[1]), int(match[2])
    try:
        zoneinfo = zone_of(zone or UTC_ZONE)
    except ValueError as error:
        raise InputError(f"{month!r} is not a month: {error}") from None
    first = _utc(datetime(year, number, 1, tzinfo=zoneinfo))
    return first, _utc(datetime(year + number // 12, number % 12 + 1, 1, tzinfo=zoneinfo))


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # before the first moment that there is
        return datetime.min


def month_at(time: datetime, zone: str) -> str:
    """Return the month of a moment in UTC."""
    return in_zone(f"{time.replace(tzinfo=UTC).astimezone(zone_of(zone)):%Y-%m}", zone)


def months_between(first: datetime, last: datetime, zone: str) -> Iterator[str]:
    """Yield the months from that of one moment to that of another, both in UTC."""
    month, end = month_at(first, zone), month_at(last, zone)
    while month < end:
        yield month
        year, number = int(month[:4]), int(month[5:7])
        month = in_zone(f"{year + number // 12:04}-{number % 12 + 1:02}", zone)
    yield end
