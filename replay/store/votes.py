"""What the judge answered, by what it was asked, and the batches of questions that are on their way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from replaydiff.replay.model import GradeState, Vote
from replaydiff.replay.store import bulk
from replaydiff.replay.store.text import clean_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
_KEY = ("judge", "material", "index")
_CONFLICT = "ON CONFLICT DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in VOTE_COLUMNS if name not in _KEY
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVote:
    """A vote that stands, and what it was asked about."""

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


def write_votes(con: DuckDBPyConnection, votes: Sequence[KeptVote], at: datetime) -> None:
    """Keep votes; one on the same material with the same index is replaced."""
    rows = {
        (kept.judge, kept.material, kept.vote.index): (
            kept.judge,
            kept.material,
            kept.vote.index,
            kept.vote.state.value,
            bulk.real(kept.vote.score),
            None if kept.vote.reason is None else clean_text(kept.vote.reason),
            bulk.real(kept.cost_usd),
            at,
        )
        for kept in votes
    }
    bulk.insert(con, "judge_votes", VOTE_COLUMNS, list(rows.values()), _CONFLICT)


def read_votes(con: DuckDBPyConnection, judge: str) -> dict[tuple[str, int], Vote]:
    """Every vote of a judge, by material and index."""
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
    """A batch whose answers are kept, or which was never taken."""
    con.execute("DELETE FROM judge_batches WHERE mark = ?", [mark])


def sent_batches(con: DuckDBPyConnection, judges: Sequence[str]) -> list[SentBatch]:
    """The batches of these judges that were not fetched yet, the oldest first."""
    rows = con.execute(
        "SELECT mark, judge, requests, sent_at, batch_id FROM judge_batches WHERE list_contains(?, judge)"
        " ORDER BY sent_at, mark",
        [list(judges)],
    ).fetchall()
    return [
        SentBatch(mark=mark, judge=judge, requests=requests, sent_at=sent_at, batch_id=batch_id)
        for mark, judge, requests, sent_at, batch_id in rows
    ]
