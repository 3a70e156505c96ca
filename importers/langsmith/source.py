"""LangSmith: dumps of runs, bulk exports, and live over its API.

A run stands for itself: which trace it belongs to shows when all were read, so they are grouped on disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from replaydiff.importers.base import InputFile, Item, Query, RecordError, Skipped, Told
from replaydiff.importers.convert import Rows, guarded, spooled
from replaydiff.importers.langsmith.runs import FEEDBACK, RUN, is_feedback, read_run, rows
from replaydiff.importers.langsmith.runs import spooled as add_row
from replaydiff.importers.langsmith.trace import made
from replaydiff.importers.reading import Record
from replaydiff.importers.spool import Group, Spool
from replaydiff.replay.model import Json

NAME = "langsmith"
SUMMARY = "LangSmith runs: dumps of the API as JSON, bulk exports as Parquet; or live over its API"
TELL = "records are runs of LangSmith, with run_type and dotted_order"


def recognises(record: Json) -> float:
    """By the first run or feedback in it."""
    try:
        row = next(rows(record), {})
    except RecordError:
        return 0.0
    if is_feedback(row):
        return 0.7
    return 0.95 if "dotted_order" in row else 0.75 if "run_type" in row else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Item]:
    """One trace for each trace id in the files."""
    with tempfile.TemporaryDirectory(prefix="replay-langsmith-") as folder:
        spool = Spool(Path(folder) / "runs.sqlite")
        try:
            for number, file in enumerate(files):
                found = Rows(rows, numbered=False)
                yield from spooled(NAME, file, found, partial(_keep, spool, number))
            for group in spool.groups():
                yield from _grouped(group, files[group.file])
        finally:
            spool.close()


def _keep(spool: Spool, number: int, record: Record) -> Iterator[Item]:
    assert isinstance(record.value, dict)  # noqa: S101 - `rows` yields objects
    add_row(spool, record.value, file=number, line=record.line)
    return iter(())


def _grouped(group: Group, file: InputFile) -> Iterator[Item]:
    if not group.of(RUN):
        yield Skipped("feedback on runs that are not in these files")
        return
    record = Record(group.line, group.of(RUN)[0])
    yield from guarded(NAME, file, record, partial(_trace, group))


def _trace(group: Group, _value: Json, file: InputFile) -> Iterator[Item]:
    runs = [read_run(row) for row in group.of(RUN) if isinstance(row, dict)]
    feedback = [row for row in group.of(FEEDBACK) if isinstance(row, dict)]
    return made(group.key, runs, feedback, NAME, all_environments=file.all_environments)


def origin(query: Query) -> str:
    """The server, the workspace and the project."""
    from replaydiff.importers.langsmith import live

    return live.origin(query)


def read_live(query: Query, folder: Path, told: Told) -> Iterator[Item]:
    """The traces of a server."""
    from replaydiff.importers.langsmith import live

    server = InputFile(
        path="", name=origin(query), size=0, modified=0.0, all_environments=query.all_environments
    )
    for group in live.gathered(query, folder, told):
        yield from _grouped(group, server)
