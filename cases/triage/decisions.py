"""What a person can do with an item: promote, put aside, leave for later, label, and take that back.

Each is one decision in the store, with time and person; a promotion is one line of the golden set as well.
The store is opened for each decision alone: while a person reads, other processes may write. While one does,
decisions wait beside the store (`replay.store.pending`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.cases.golden import add_cases, take_back
from replaydiff.cases.promote import with_redactions
from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import StoreBusyError
from replaydiff.replay.golden import case_to_json, read_golden
from replaydiff.replay.media import MediaFolder
from replaydiff.replay.model import Action, Case, Decision, Item
from replaydiff.replay.store import pending
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import DECISIONS, add_decision, latest_decision

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(slots=True)
class Decisions:
    """A person at a store and a golden set."""

    store: Path
    golden: Path
    person: str
    done: list[tuple[Decision, Case | None]] = field(default_factory=list)
    """What was decided here, oldest first: what `undo` takes back."""
    _waits: bool = False
    """Whether another process writes to the store, so that decisions wait beside it."""

    def promote(self, item: Item, case: Case, *, force: bool = False) -> Case:
        """Add the case that an item became to the golden set, and record that in the store.

        A case that a killed promotion added is taken as it is there: only its decision is missing.

        Returns:
            The case as the golden set has it.

        Raises:
            InputError: a case of that id is there already.
            DuplicateError: one like it is (without `force`).
        """
        # Opened first: where the store cannot be used, the golden set stays as it is.
        with self._recording() as con:
            case = with_redactions(con, case)
            present = read_golden(self.golden) if self.golden.exists() else []
            existing = _undecided(con, item, case, present)
            if existing is None:
                add_cases(self.golden, [case], force=force, media=MediaFolder.beside(self.store))
            else:
                case = existing
            self._decide(con, Action.PROMOTE, item, case.provenance.run, case=case)
        return case

    def dismiss(self, items: Sequence[Item], run_id: str | None, reason: str) -> None:
        """Put items aside, with a reason; what was put aside so before stays one decision."""
        with self._recording() as con:
            for item in items:
                latest = latest_decision(con, item.trace_id or item.id)
                if latest and (latest.action, latest.run_id, latest.reason) == (
                    Action.DISMISS,
                    run_id,
                    reason,
                ):
                    continue
                self._decide(con, Action.DISMISS, item, run_id, reason=reason)

    def skip(self, item: Item, run_id: str | None) -> None:
        """Leave an item for later."""
        with self._recording() as con:
            self._decide(con, Action.SKIP, item, run_id)

    def label(self, item: Item, run_id: str | None, label: int) -> None:
        """Say how good the new lane's answer is: 1 poor, 2 fair, 3 good."""
        with self._recording() as con:
            self._decide(con, Action.LABEL, item, run_id, label=label)

    def undo(self) -> Decision | None:
        """Undo the last decision made here; return None if there is none.

        Raises:
            InputError: the case was changed since.
        """
        while self.done:
            decision, case = self.done[-1]
            if decision.action is Action.LABEL:
                self.done.pop()
                continue
            with self._recording() as con:
                if case is not None:
                    take_back(self.golden, case)
                self.done.pop()
                self._write(
                    con,
                    Decision(
                        item_id=decision.item_id,
                        action=Action.UNDO,
                        at=utc_now(),
                        person=self.person,
                        run_id=decision.run_id,
                    ),
                )
            return decision
        return None

    @contextmanager
    def _recording(self) -> Iterator[DuckDBPyConnection]:
        try:
            con, self._waits = open_store(self.store), False
        except StoreBusyError as busy:
            if busy.pid == os.getpid():
                raise
            con, self._waits = open_store(self.store, read_only=True), True
        with con:
            yield con

    def _write(self, con: DuckDBPyConnection, decision: Decision) -> None:
        latest = latest_decision(con, decision.item_id)
        if latest is not None and latest.at >= decision.at:
            # The clock went back, or that of who decided before is ahead: the last word counts.
            decision = replace(decision, at=latest.at + timedelta(microseconds=1))
        if self._waits:
            pending.append(self.store, "decisions", [DECISIONS.values(decision)])
        else:
            add_decision(con, decision)

    def _decide(
        self,
        con: DuckDBPyConnection,
        action: Action,
        item: Item,
        run_id: str | None,
        *,
        reason: str | None = None,
        label: int | None = None,
        case: Case | None = None,
    ) -> None:
        decision = Decision(
            item_id=item.trace_id or item.id,
            action=action,
            at=utc_now(),
            person=self.person,
            run_id=run_id,
            reason=reason,
            case_id=case.id if case else None,
            label=label,
        )
        self._write(con, decision)
        self.done.append((decision, case))


def _undecided(con: DuckDBPyConnection, item: Item, case: Case, present: Sequence[Case]) -> Case | None:
    """Return the same case in the golden set, if no decision says that it was promoted."""
    latest = latest_decision(con, item.trace_id or item.id)
    if latest is not None and latest.action is Action.PROMOTE:
        return None
    case_document = case_to_json(case)
    return next(
        (candidate for candidate in present if case_to_json(_dated_as(candidate, case)) == case_document),
        None,
    )


def _dated_as(case: Case, dated: Case) -> Case:
    """Return a case with the id and the dates of another: a repeated promotion gives new ones."""
    dates = dated.provenance
    provenance = replace(case.provenance, promoted_at=dates.promoted_at, last_reviewed=dates.last_reviewed)
    return replace(case, id=dated.id, provenance=provenance)
