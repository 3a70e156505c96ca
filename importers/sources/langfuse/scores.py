"""Scores of a trace: rows of their own, a list on the trace, or columns of a table export."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from replaydiff.importers import fields
from replaydiff.importers.sources.langfuse.rows import TraceRows
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, Score

_OWN_TEXTS = {"input", "output", "metadata", "name", "traceName", "statusMessage"}
_OWN_LISTS = {"tags", "comments", "scores", "corrections", "observations", "toolCalls", "toolCallNames"}
_LISTS = _OWN_TEXTS | _OWN_LISTS
"""Columns of Langfuse's own that may hold a list, or text that reads like one; any other list is a score."""


def scores(group: TraceRows) -> dict[str, Score]:
    """Scores by name; of two of one name the later one counts."""
    found: dict[str, Score] = {}
    for holder in (*group.observations, *group.traces):
        found.update(_columns(holder))
    for row in score_rows(group):
        value = _value(row)
        if value is not None and not _is_correction(row):
            found[str(row["name"])] = value
    return found


def correction(group: TraceRows, roots: Collection[str]) -> str | None:
    """The answer that a person wrote in place of the trace's own; of several the latest.

    A correction of an observation that is none of the `roots` says nothing of the whole.
    """
    found = [row for row in (*_listed(group, "corrections"), *score_rows(group)) if _is_correction(row)]
    of_whole = [row for row in found if _observation(row) is None or _observation(row) in roots]
    texts = [text for row in sorted(of_whole, key=_time) if isinstance(text := _value(row), str) and text]
    return texts[-1] if texts else None


def score_rows(group: TraceRows) -> list[Mapping[str, Any]]:
    """All scores that are rows, the latest last: pages of the API begin with it."""
    return sorted((*_listed(group, "scores"), *group.scores), key=_time)


def _time(row: Mapping[str, Any]) -> str:
    return str(row.get("timestamp") or row.get("createdAt") or "")


def _is_correction(row: Mapping[str, Any]) -> bool:
    return str(row.get("dataType", "")).upper() == "CORRECTION"


def _observation(row: Mapping[str, Any]) -> str | None:
    subject = row.get("subject")
    if isinstance(subject, dict):
        return str(subject.get("id")) if subject.get("kind") == "observation" else None
    found = row.get("observationId")
    return str(found) if found else None


def _listed(group: TraceRows, key: str) -> Iterator[Mapping[str, Any]]:
    """Scores that a trace carries whole; the trace list of the API has only their ids."""
    for trace in group.traces:
        listed = decode(trace.get(key))
        for row in listed if isinstance(listed, list) else ():
            if isinstance(row, dict) and isinstance(row.get("name"), str):
                yield row


def _value(row: Mapping[str, Any]) -> Score | None:
    kind = str(row.get("dataType", "")).upper()
    value, text = row.get("value"), row.get("stringValue") or row.get("longStringValue")
    if kind == "BOOLEAN":
        return value if isinstance(value, bool) else str(text or value).lower() in ("true", "1", "1.0")
    if kind in ("CATEGORICAL", "TEXT", "CORRECTION") and isinstance(text, str) and text:
        return text
    if kind == "NUMERIC" and isinstance(value, str):
        # A row of CSV.
        return fields.number(row, "value")
    return _score(value if value is not None else text)


def _columns(row: Mapping[str, Any]) -> Iterator[tuple[str, Score]]:
    for name, cell in row.items():
        # Most cells are no list, and there are many: they are passed over without being read.
        if name in _LISTS or not (isinstance(cell, list) or (isinstance(cell, str) and cell[:1] in '["')):
            continue
        values = decode(cell)
        if isinstance(values, list) and values:
            score = _score(values[-1])
            if score is not None:
                yield name, score


def _score(value: Json) -> Score | None:
    if isinstance(value, bool | str):
        return value
    return float(value) if isinstance(value, int | float) else None
