"""Grades that cost something to compute, the judge's votes and batches, and a person's decisions.

A grade of the same grader version replaces the earlier one; a decision is appended and never changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from replaydiff.replay.interruption import interruptible
from replaydiff.replay.model import Decision, Grade, GradeState, Vote
from replaydiff.replay.store import sql
from replaydiff.replay.store.rows import TableRows
from replaydiff.replay.store.sql import clean_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GRADES = TableRows(
    Grade,
    "grades",
    key=("run_id", "item_id", "lane", "trial", "grader", "grader_version"),
    readers={"grader": sys.intern, "grader_version": sys.intern},
    shared=("detail", "votes"),
)
_READ_BATCH = 500


def write_grades(con: DuckDBPyConnection, grades: Sequence[Grade]) -> None:
    """Keep grades, in one statement."""
    GRADES.upsert(con, grades)


class GraderVersion(NamedTuple):
    """One version of a grader, and how much of a run it graded."""

    grader: str
    version: str
    lanes: int
    grades: int


def grader_versions(con: DuckDBPyConnection, run_id: str) -> list[GraderVersion]:
    """Return the graders' versions that a run has grades of."""
    rows = con.execute(
        "SELECT grader, grader_version, count(DISTINCT lane), count(*) FROM grades WHERE run_id = ?"
        " GROUP BY grader, grader_version ORDER BY ALL",
        [run_id],
    ).fetchall()
    return [GraderVersion(*row) for row in rows]


def iter_grades(
    con: DuckDBPyConnection, run_id: str, versions: Mapping[str, str] | None = None
) -> Iterator[Grade]:
    """Yield all grades of a run, by item, lane, trial, grader and its version; streamed.

    Args:
        con: the store.
        run_id: the run.
        versions: of each grader the version to read; None for all of them.
    """
    graders = [f"{grader}\n{version}" for grader, version in (versions or {}).items()]
    cursor = interruptible(con.cursor())
    cursor.execute(
        f"SELECT {GRADES.selected} FROM grades WHERE run_id = $run"
        " AND ($every OR list_contains($graders, grader || chr(10) || grader_version))"
        " ORDER BY item_id, lane, trial, grader, grader_version",
        {"run": run_id, "every": versions is None, "graders": graders},
    )
    while rows := cursor.fetchmany(_READ_BATCH):
        yield from map(GRADES.value, rows)


VOTE_COLUMNS = {
    "judge": "VARCHAR",
    "material": "VARCHAR",
    "index": "INTEGER",
    "state": "VARCHAR",
    "score": "DOUBLE",
    "reason": "VARCHAR",
    "cost_usd": "DOUBLE",
    "cast_at": "TIMESTAMP",
}
_VOTE_KEY = ("judge", "material", "index")
_VOTE_CONFLICT = "ON CONFLICT DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in VOTE_COLUMNS if name not in _VOTE_KEY
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVote:
    """A valid vote, with the question it answers."""

    judge: str
    """The grader version: model, prompt hash and rubric hash."""
    material: str
    """A hash of the judged document."""
    vote: Vote
    cost_usd: float | None
    """None where the price of the model is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """A batch of questions whose answers were not fetched yet."""

    mark: str
    """Ours: what the ids of its questions begin with."""
    judge: str
    requests: int
    sent_at: datetime
    """Naive UTC; just before it was sent."""
    batch_id: str | None = None
    """The provider's; None while it is not known whether the batch was taken."""


_BATCHES = TableRows(SentBatch, "judge_batches")


def write_votes(con: DuckDBPyConnection, votes: Sequence[StoredVote], at: datetime) -> None:
    """Keep votes; one on the same material with the same index is replaced."""
    rows = {(vote.judge, vote.material, vote.vote.index): vote_row(vote, at) for vote in votes}
    sql.insert(con, "judge_votes", VOTE_COLUMNS, list(rows.values()), _VOTE_CONFLICT)


def vote_row(stored: StoredVote, at: datetime) -> tuple[Any, ...]:
    """Return the values of `VOTE_COLUMNS`."""
    return (
        stored.judge,
        stored.material,
        stored.vote.index,
        stored.vote.state.value,
        sql.real(stored.vote.score),
        None if stored.vote.reason is None else clean_text(stored.vote.reason),
        sql.real(stored.cost_usd),
        at,
    )


def read_votes(con: DuckDBPyConnection, judge: str) -> dict[tuple[str, int], Vote]:
    """Return every vote of a judge, by material and index."""
    rows = con.execute(
        "SELECT material, index, state, score, reason FROM judge_votes WHERE judge = ?", [judge]
    ).fetchall()
    return {
        (material, index): Vote(index=index, state=GradeState(state), score=score, reason=reason)
        for material, index, state, score, reason in rows
    }


def write_batch(con: DuckDBPyConnection, batch: SentBatch) -> None:
    """Note a batch, or the id that the provider gave it."""
    _BATCHES.insert(con, [batch], "ON CONFLICT DO UPDATE SET batch_id = excluded.batch_id")


def drop_batch(con: DuckDBPyConnection, mark: str) -> None:
    """Remove a batch whose results are stored, or that was never accepted."""
    con.execute("DELETE FROM judge_batches WHERE mark = ?", [mark])


def sent_batches(con: DuckDBPyConnection, judges: Sequence[str]) -> list[SentBatch]:
    """Return the batches of these judges that were not fetched yet, the oldest first."""
    return _BATCHES.select(con, "WHERE list_contains(?, judge) ORDER BY sent_at, mark", [list(judges)])


DECISIONS = TableRows(Decision, "decisions", columns={"at": "decided_at"})


def add_decision(con: DuckDBPyConnection, decision: Decision) -> None:
    """Append one decision."""
    DECISIONS.insert(con, [decision])


def latest_decision(con: DuckDBPyConnection, item_id: str) -> Decision | None:
    """Return the last decision on an item; None if there is none."""
    chosen = "WHERE item_id = ? ORDER BY decided_at DESC, rowid DESC LIMIT 1"
    return next(iter(DECISIONS.select(con, chosen, [item_id])), None)


def decisions(con: DuckDBPyConnection) -> list[Decision]:
    """Return all decisions, oldest first."""
    return DECISIONS.select(con, "ORDER BY decided_at, rowid")
