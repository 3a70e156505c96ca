"""Scores of traces from a file of their own: a benchmark's result, or labels, for traces that are stored.

A row names a trace by one of its fields and has scores: a column each, or `name` and `value`. All traces with
that value get them. A later state of a trace, imported afterwards, has its own scores again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.importers import fields
from replaydiff.importers.base import InputFile, RecordError
from replaydiff.importers.reading import Broken, records
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Json, JsonObject, Score
from replaydiff.replay.store.traces import add_scores
from replaydiff.replay.store.where import SOURCE, field_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LONG = {"name", "value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedScores:
    """What became of the rows of score files."""

    rows: int
    traces: int
    """Traces that got a score."""
    names: tuple[str, ...]
    """The scores that were attached."""
    unmatched: int
    """Values of the field that no stored trace has."""
    example: str | None
    """One of them."""


def attach_scores(con: DuckDBPyConnection, files: Sequence[InputFile], by: str) -> AttachedScores:
    """Give stored traces the scores of files.

    Args:
        con: the store, open for writing.
        files: JSON Lines, JSON, CSV or Parquet.
        by: the field of a trace that a row names, as `trace_id` or `metadata.task_id`; its column is called
            like it, or like the last part of it.

    Raises:
        InputError: a row cannot be read, or has no such column; nothing was changed.
        UnknownNameError: traces have no such field.
    """
    column = field_text(by)
    scores: defaultdict[str, dict[str, Score]] = defaultdict(dict)
    rows = 0
    for file in files:
        for record in records(file):
            try:
                if isinstance(record, Broken):
                    raise RecordError(record.reason)
                key, values = _row(record.value, by)
            except RecordError as error:
                where = f"{file.name}:{record.line}"
                raise InputError(f"{where}: {error}; no score was attached") from None
            scores[key].update(values)
            rows += 1
    matches = con.execute(
        f"SELECT trace_id, {column} FROM {SOURCE} WHERE {column} IN (SELECT unnest(?::VARCHAR[]))",
        [[*scores]],
    ).fetchall()
    add_scores(con, {trace_id: scores[key] for trace_id, key in matches if scores[key]})
    unmatched = scores.keys() - {key for _, key in matches}
    return AttachedScores(
        rows=rows,
        traces=sum(bool(scores[key]) for _, key in matches),
        names=tuple(sorted({name for _, key in matches for name in scores[key]})),
        unmatched=len(unmatched),
        example=min(unmatched, default=None),
    )


def _row(row: Json, by: str) -> tuple[str, dict[str, Score]]:
    """Return the value that names a trace, and the scores of a row."""
    row = fields.object_of(row, "a row")
    column = next((name for name in (by, by.rpartition(".")[2]) if row.get(name) not in (None, "")), None)
    if column is None:
        raise RecordError(f"the row has no {by}: it has {', '.join(row)[:100] or 'nothing'}")
    key = row[column]
    beside = {name: value for name, value in row.items() if name != column}
    if beside.keys() >= _LONG:
        beside = {str(beside["name"]): beside["value"]}
    values: JsonObject = {name: _score(value) for name, value in beside.items() if value not in (None, "")}
    text = str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)
    return text, fields.scores({"scores": values})


def _score(value: Json) -> Json:
    """Return a cell of a table as the number or truth that it is written for."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    try:
        return float(value)
    except ValueError:
        return value
