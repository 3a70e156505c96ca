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
from replaydiff.replay.model import Action, Decision, Grade, GradeState, JsonObject, Lane, Vote
from replaydiff.replay.store import sql
from replaydiff.replay.store.sql import clean_text, encode

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GRADE_COLUMNS = {
    "run_id": "VARCHAR",
    "item_id": "VARCHAR",
    "lane": "VARCHAR",
    "trial": "INTEGER",
    "grader": "VARCHAR",
    "grader_version": "VARCHAR",
    "state": "VARCHAR",
    "score": "DOUBLE",
    "passed": "BOOLEAN",
    "reason": "VARCHAR",
    "detail": "VARCHAR",
    "votes": "VARCHAR",
    "cost_usd": "DOUBLE",
}
_KEY = ("run_id", "item_id", "lane", "trial", "grader", "grader_version")
_CONFLICT = "ON CONFLICT DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in GRADE_COLUMNS if name not in _KEY
)
_READ_BATCH = 500

_LONG_DETAIL = 400
"""From so many characters on hardly two details are equal."""
_read_detail: Any = sql.reader(dict[str, Any])
_read_votes = sql.reader(tuple[Vote, ...])


def write_grades(con: DuckDBPyConnection, grades: Sequence[Grade]) -> None:
    """Keep grades, in one statement."""
    rows = [grade_row(grade) for grade in grades]
    latest = {row[: len(_KEY)]: row for row in rows}
    sql.insert(con, "grades", GRADE_COLUMNS, list(latest.values()), _CONFLICT)


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
        f"SELECT {', '.join(GRADE_COLUMNS)} FROM grades WHERE run_id = $run"
        " AND ($every OR list_contains($graders, grader || chr(10) || grader_version))"
        " ORDER BY item_id, lane, trial, grader, grader_version",
        {"run": run_id, "every": versions is None, "graders": graders},
    )
    lanes: dict[str, Lane] = {}
    details: dict[str, JsonObject] = {}
    while rows := cursor.fetchmany(_READ_BATCH):
        for row in rows:
            yield _grade(row, lanes, details)


def grade_row(grade: Grade) -> tuple[Any, ...]:
    """Return the values of `GRADE_COLUMNS`."""
    return (
        grade.run_id,
        clean_text(grade.item_id),
        str(grade.lane),
        grade.trial,
        grade.grader,
        grade.grader_version,
        grade.state.value,
        sql.real(grade.score),
        grade.passed,
        None if grade.reason is None else clean_text(grade.reason),
        encode(grade.detail),
        encode(grade.votes),
        sql.real(grade.cost_usd),
    )


def _grade(row: Sequence[Any], lanes: dict[str, Lane], details: dict[str, JsonObject]) -> Grade:
    """Return the grade of a row; grades of equal lane or detail share it, as nearly all of a judge do."""
    (
        run_id, item_id, lane, trial, grader, version, state, score, passed, reason, detail, votes, cost_usd
    ) = row  # fmt: skip
    if lane not in lanes:
        lanes[lane] = sql.stored(Lane.parse, lane)
    if len(detail) > _LONG_DETAIL:
        decoded = _read_detail(detail)
    elif (decoded := details.get(detail)) is None:
        decoded = details[detail] = _read_detail(detail)
    return Grade(
        run_id=run_id,
        item_id=item_id,
        lane=lanes[lane],
        trial=trial,
        grader=sys.intern(grader),
        grader_version=sys.intern(version),
        state=sql.stored(GradeState, state),
        score=score,
        passed=passed,
        reason=reason,
        detail=decoded,
        votes=() if votes == "[]" else _read_votes(votes),
        cost_usd=cost_usd,
    )


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
    con.execute(
        "INSERT INTO judge_batches (mark, judge, requests, sent_at, batch_id) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET batch_id = excluded.batch_id",
        [batch.mark, batch.judge, batch.requests, batch.sent_at, batch.batch_id],
    )


def drop_batch(con: DuckDBPyConnection, mark: str) -> None:
    """Remove a batch whose results are stored, or that was never accepted."""
    con.execute("DELETE FROM judge_batches WHERE mark = ?", [mark])


def sent_batches(con: DuckDBPyConnection, judges: Sequence[str]) -> list[SentBatch]:
    """Return the batches of these judges that were not fetched yet, the oldest first."""
    rows = con.execute(
        "SELECT mark, judge, requests, sent_at, batch_id FROM judge_batches WHERE list_contains(?, judge)"
        " ORDER BY sent_at, mark",
        [list(judges)],
    ).fetchall()
    return [
        SentBatch(mark=mark, judge=judge, requests=requests, sent_at=sent_at, batch_id=batch_id)
        for mark, judge, requests, sent_at, batch_id in rows
    ]


_DECISION_COLUMNS = "item_id, action, decided_at, person, run_id, reason, case_id, label"


def add_decision(con: DuckDBPyConnection, decision: Decision) -> None:
    """Append one decision."""
    con.execute(
        f"INSERT INTO decisions ({_DECISION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", decision_row(decision)
    )


def decision_row(decision: Decision) -> list[Any]:
    """Return the values of a decision's columns."""
    return [
        decision.item_id,
        decision.action.value,
        decision.at,
        clean_text(decision.person),
        decision.run_id,
        None if decision.reason is None else clean_text(decision.reason),
        decision.case_id,
        decision.label,
    ]


def latest_decision(con: DuckDBPyConnection, item_id: str) -> Decision | None:
    """Return the last decision on an item; None if there is none."""
    rows = con.execute(
        f"SELECT {_DECISION_COLUMNS} FROM decisions WHERE item_id = ?"
        " ORDER BY decided_at DESC, rowid DESC LIMIT 1",
        [item_id],
    ).fetchall()
    return _decision(rows[0]) if rows else None


def decisions(con: DuckDBPyConnection) -> list[Decision]:
    """Return all decisions, oldest first."""
    rows = con.execute(f"SELECT {_DECISION_COLUMNS} FROM decisions ORDER BY decided_at, rowid").fetchall()
    return [_decision(row) for row in rows]


def _decision(row: Sequence[Any]) -> Decision:
    item_id, action, at, person, run_id, reason, case_id, label = row
    return Decision(
        item_id=item_id,
        action=Action(action),
        at=at,
        person=person,
        run_id=run_id,
        reason=reason,
        case_id=case_id,
        label=label,
    )
