"""Grades that cost something to know. A grade of the same grader version replaces the earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from replaydiff.replay.model import Grade, GradeState, Lane, Vote
from replaydiff.replay.store import bulk
from replaydiff.replay.store.text import clean_text, encode

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

_read_detail: Any = bulk.reader(dict[str, Any])
_read_votes = bulk.reader(tuple[Vote, ...])


def write_grades(con: DuckDBPyConnection, grades: Sequence[Grade]) -> None:
    """Keep grades, in one statement."""
    rows = [grade_row(grade) for grade in grades]
    latest = {row[: len(_KEY)]: row for row in rows}
    bulk.insert(con, "grades", GRADE_COLUMNS, list(latest.values()), _CONFLICT)


def iter_grades(con: DuckDBPyConnection, run_id: str) -> Iterator[Grade]:
    """All grades of a run, by item, lane, trial, grader and its version; streamed."""
    cursor = con.cursor()
    cursor.execute(
        f"SELECT {', '.join(GRADE_COLUMNS)} FROM grades WHERE run_id = ?"
        " ORDER BY item_id, lane, trial, grader, grader_version",
        [run_id],
    )
    while rows := cursor.fetchmany(_READ_BATCH):
        yield from map(_grade, rows)


def grade_row(grade: Grade) -> tuple[Any, ...]:
    """The values of `GRADE_COLUMNS`."""
    return (
        grade.run_id,
        clean_text(grade.item_id),
        str(grade.lane),
        grade.trial,
        grade.grader,
        grade.grader_version,
        grade.state.value,
        bulk.real(grade.score),
        grade.passed,
        None if grade.reason is None else clean_text(grade.reason),
        encode(grade.detail),
        encode(grade.votes),
        bulk.real(grade.cost_usd),
    )


def _grade(row: Sequence[Any]) -> Grade:
    fields = dict(zip(GRADE_COLUMNS, row, strict=True))
    fields["lane"] = Lane.parse(fields["lane"])
    fields["state"] = GradeState(fields["state"])
    fields["detail"] = _read_detail(fields["detail"])
    fields["votes"] = _read_votes(fields["votes"])
    return Grade(**fields)
