"""What a person decided about an item."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Action(StrEnum):
    """The kinds of decision."""

    PROMOTE = "promote"
    DISMISS = "dismiss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decisions are appended; the newest of an item counts."""

    item_id: str
    action: Action
    at: datetime
    person: str
    """Git's user name and address, or the login name."""
    run_id: str | None = None
    reason: str | None = None
    case_id: str | None = None
    """The case it became, for a promotion."""
