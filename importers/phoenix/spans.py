"""Spans and annotations of Phoenix on disk, and the traces that are made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import msgspec

from replaydiff.importers.base import Item, Note
from replaydiff.importers.phoenix.records import (
    Annotation,
    ids_lost,
    is_annotation,
    is_span,
    linked,
    own_id,
    read_annotation,
    read_span,
    scores,
)
from replaydiff.importers.spans.raw import RawSpan
from replaydiff.importers.spans.understood import trace
from replaydiff.importers.spool import Group, Spool
from replaydiff.replay.model import JsonObject

_SPAN, _ANNOTATION, _REFUSED = "span", "annotation", "refused"
LOST_IDS = (
    "spans without ids, since the index of a data frame was not written: which is whose parent was told by "
    "time; export with df.reset_index() to be sure"
)


class Gathered:
    """Two spools in a folder: spans by trace, annotations by what they are of. `close` it."""

    def __init__(self, folder: Path, *, kept: bool = False) -> None:
        self.spans = Spool(folder / "spans.sqlite", kept=kept)
        self.annotations = Spool(folder / "annotations.sqlite", kept=kept)
        self._used = 0

    def close(self) -> None:
        """Let go of the files."""
        self.spans.close()
        self.annotations.close()

    def commit(self) -> None:
        """Write what was taken; marks stand with the spans, so annotations go first."""
        self.annotations.commit()
        self.spans.commit()

    def take(self, row: JsonObject, file: int = 0, line: int = 0) -> bool:
        """Keep a row; False where it is neither a span nor an annotation.

        Raises:
            RecordError: it cannot be read.
        """
        if is_annotation(row):
            found = read_annotation(row)
            if found is not None:
                key = f"{found.name} {found.human} {row.get('identifier') or ''}"
                self.annotations.add(found.of, _ANNOTATION, key, asdict(found), updated=found.updated)
            return True
        if not is_span(row):
            return False
        one = read_span(row)
        self.spans.add(one.trace_id, _SPAN, one.span.id, msgspec.to_builtins(one.span), file=file, line=line)
        return True

    def refuse(self, row: JsonObject, reason: str) -> None:
        """Keep what was wrong with a row, for an import that may be interrupted before it says so."""
        self.annotations.add("", _REFUSED, own_id(row), {"row": row, "reason": reason})

    def refused(self) -> Iterator[tuple[JsonObject, str]]:
        """Rows that could not be taken, and why."""
        for row in self.annotations.of(""):
            assert isinstance(row.value, dict)  # noqa: S101 - as it was written above
            yield row.value["row"], str(row.value["reason"])  # type: ignore[misc]

    def made(self, group: Group, source: str) -> Iterator[Item]:
        """The trace of a group of spans, with its scores.

        Raises:
            RecordError: a number in it cannot be read.
        """
        spans = [msgspec.convert(row, RawSpan) for row in group.of(_SPAN)]
        if ids_lost(spans):
            yield Note(LOST_IDS)
            spans = linked(spans)
        of_spans = [one for span in spans for one in self._judged(span.id)]
        yield from trace(group.key, source, spans, scores(spans, of_spans, self._judged(group.key)))

    def _judged(self, key: str) -> list[Annotation]:
        found = [msgspec.convert(row.value, Annotation) for row in self.annotations.of(key)]
        self._used += len(found)
        return found

    @property
    def unused(self) -> int:
        """Annotations of spans and traces that were not made."""
        return len(self.annotations) - self._used
