"""The time, as the store keeps it."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Now: naive UTC, to the microsecond."""
    return datetime.now(UTC).replace(tzinfo=None)
