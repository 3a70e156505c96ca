"""The time: naive UTC everywhere, as the store keeps it."""

from __future__ import annotations

from datetime import UTC, date, datetime


def utc_now() -> datetime:
    """Return the time now: naive UTC, to the microsecond."""
    return datetime.now(UTC).replace(tzinfo=None)


def utc_at(seconds: float) -> datetime:
    """Return the moment so many seconds after the epoch (`time.time`): naive UTC, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def utc_today() -> date:
    """Return the calendar day in UTC."""
    return utc_now().date()


def as_utc(moment: datetime) -> datetime:
    """Return a moment as naive UTC; one without an offset is UTC already.

    Raises:
        OverflowError: within a day of year 1 or 9999 the offset cannot be taken off.
    """
    if moment.tzinfo not in (None, UTC):
        moment = moment.astimezone(UTC)
    return moment.replace(tzinfo=None)
