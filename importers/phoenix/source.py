"""Phoenix: spans of OpenInference from files, or live from a server over its REST API."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from replaydiff.importers.base import InputFile, Item, Query, RecordError, Skipped, Told
from replaydiff.importers.convert import Rows, guarded, spooled
from replaydiff.importers.phoenix.records import is_annotation, is_span, rows
from replaydiff.importers.phoenix.spans import Gathered
from replaydiff.importers.reading import Record
from replaydiff.importers.spool import Group
from replaydiff.replay.model import Json

NAME = "phoenix"
SUMMARY = "Arize Phoenix, live or files: spans of OpenInference, as the API or a data frame gives them"
TELL = "records are spans or annotations of Phoenix"


def recognises(record: Json) -> float:
    """By the fields of its rows."""
    try:
        found = list(rows(record))
    except RecordError:
        return 0.0
    own = sum(is_span(row) or is_annotation(row) for row in found)
    return 0.95 * own / len(found) if found else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Item]:
    """One trace for each trace id in the files, with the annotations that are in them."""
    with tempfile.TemporaryDirectory(prefix="replay-phoenix-") as folder:
        gathered = Gathered(Path(folder))
        try:
            for number, file in enumerate(files):
                yield from spooled(NAME, file, Rows(rows), partial(_take, gathered, number))
            for group in gathered.spans.groups():
                source = Record(group.line, group.rows[0].value)
                yield from guarded(NAME, files[group.file], source, partial(_made, gathered, group))
            for _ in range(gathered.unused):
                yield Skipped("annotations of spans that are not in these files")
        finally:
            gathered.close()


def _take(gathered: Gathered, number: int, record: Record) -> Iterator[Item]:
    row = record.value
    assert isinstance(row, dict)  # noqa: S101 - `rows` yields objects
    if not gathered.take(row, number, record.line):
        shown = ", ".join(list(row)[:6]) or "nothing"
        raise RecordError(f"neither a span nor an annotation of Phoenix: it has {shown}")
    return iter(())


def _made(gathered: Gathered, group: Group, _value: Json, _file: InputFile) -> Iterator[Item]:
    return gathered.made(group, NAME)


def origin(query: Query) -> str:
    """The server and the project."""
    from replaydiff.importers.phoenix.live import origin

    return origin(query)


def read_live(query: Query, folder: Path, told: Told) -> Iterator[Item]:
    """Ask a server for the spans of a project."""
    from replaydiff.importers.phoenix.live import read_live

    return read_live(query, folder, told)
