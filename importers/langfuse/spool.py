"""What the shared spool holds of Langfuse: rows of three sorts, by trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from replaydiff.importers import spool
from replaydiff.importers.langfuse.rows import Row, Sort
from replaydiff.replay.model import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Group:
    """All rows of one trace, in the order in which they arrived."""

    trace_id: str
    file: int
    """Index of the file of its first row."""
    line: int
    observations: list[JsonObject]
    traces: list[JsonObject]
    scores: list[JsonObject]


def keep(rows: spool.Spool, row: Row, file: int = 0, line: int = 0) -> None:
    """Keep a row, or update the one with its id."""
    value = cast("Json", row.values)
    rows.add(row.trace_id, row.sort, row.id, value, updated=_moment(row.values), file=file, line=line)


def group_of(found: spool.Group) -> Group:
    """The rows of one trace by their sort."""
    observations, traces, scores = (
        cast("list[JsonObject]", found.of(sort)) for sort in (Sort.OBSERVATION, Sort.TRACE, Sort.SCORE)
    )
    return Group(found.key, found.file, found.line, observations, traces, scores)


def _moment(row: JsonObject) -> str:
    """When a row was last updated, in one form: exports write a space for the T, and no zone."""
    return str(row.get("updatedAt", "")).replace(" ", "T").removesuffix("Z")
