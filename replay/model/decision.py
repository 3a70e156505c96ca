"""What a person decided about an item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Action(StrEnum):
    """The kinds of decision."""

    PROMOTE = "promote"
    DISMISS = "dismiss"
    SKIP = "skip"
    """Seen, and left for later."""
    LABEL = "label"
    """How good the new lane's answer is, by a person's own reading."""
    UNDO = "undo"
    """Takes back the newest promotion, dismissal or skip of the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decisions are appended, never changed: `effective_decisions` returns those that count."""

    item_id: str
    action: Action
    at: datetime
    person: str
    """Git's user name and address, or the login name."""
    run_id: str | None = None
    reason: str | None = None
    case_id: str | None = None
    """The case it became, for a promotion."""
    label: int | None = None
    """1 (poor) to 3 (good), for a label."""


def effective_decisions(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """What was decided of each item, from decisions oldest first: item id → the promotion, dismissal or skip
    that was not taken back. Labels decide nothing."""
    found: dict[str, Decision] = {}
    for decision in decisions:
        if decision.action is Action.UNDO:
            found.pop(decision.item_id, None)
        elif decision.action is not Action.LABEL:
            found[decision.item_id] = decision
    return found
