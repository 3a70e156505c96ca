"""What people decided about items: appended, never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replaydiff.replay.model import Action, Decision
from replaydiff.replay.store.text import clean_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COLUMNS = "item_id, action, decided_at, person, run_id, reason, case_id, label"


def add_decision(con: DuckDBPyConnection, decision: Decision) -> None:
    """Append one decision."""
    con.execute(
        f"INSERT INTO decisions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            decision.item_id,
            decision.action.value,
            decision.at,
            clean_text(decision.person),
            decision.run_id,
            None if decision.reason is None else clean_text(decision.reason),
            decision.case_id,
            decision.label,
        ],
    )


def decisions(con: DuckDBPyConnection) -> list[Decision]:
    """All decisions, oldest first."""
    rows = con.execute(f"SELECT {_COLUMNS} FROM decisions ORDER BY decided_at, rowid").fetchall()
    return [
        Decision(
            item_id=item_id,
            action=Action(action),
            at=at,
            person=person,
            run_id=run_id,
            reason=reason,
            case_id=case_id,
            label=label,
        )
        for item_id, action, at, person, run_id, reason, case_id, label in rows
    ]
