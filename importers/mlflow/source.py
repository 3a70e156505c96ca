"""MLflow traces: exports of its client, and live from a tracking server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from replaydiff.importers.base import InputFile, Item, Job, Query, RecordError, Told
from replaydiff.importers.convert import converted, guarded, jobs
from replaydiff.importers.mlflow.records import traces_in
from replaydiff.importers.mlflow.trace import made
from replaydiff.importers.reading import Record
from replaydiff.replay.model import Json

NAME = "mlflow"
SUMMARY = "MLflow traces: Trace.to_json(), search_traces() as JSON; or live from a tracking server"
TELL = "records are traces of MLflow, with info and spans"


def recognises(record: Json) -> float:
    """By the words of MLflow in what is said of a trace."""
    try:
        info, spans = next(traces_in(record), ({}, []))
    except RecordError:
        return 0.0
    own = {"trace_metadata", "request_metadata", "trace_location", "execution_time_ms", "request_time"}
    return 0.95 if own & info.keys() else 0.6 if spans else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Item]:
    """Each record as it is read: a trace of MLflow is whole."""
    return converted(NAME, files, _convert)


def read_jobs(files: Sequence[InputFile]) -> Iterator[Item | Job]:
    """The same in blocks."""
    return jobs(NAME, files, _convert)


def _convert(record: Json, file: InputFile) -> Iterator[Item]:
    for info, spans in traces_in(record):
        yield from made(info, spans, NAME, all_environments=file.all_environments)


def origin(query: Query) -> str:
    """The server, the experiment and the user."""
    from replaydiff.importers.mlflow import live

    return live.origin(query)


def read_live(query: Query, folder: Path, told: Told) -> Iterator[Item]:
    """The traces of a tracking server."""
    from replaydiff.importers.mlflow import live

    server = InputFile(
        path="", name=origin(query), size=0, modified=0.0, all_environments=query.all_environments
    )
    for number, whole in enumerate(live.gathered(query, folder, told), start=1):
        yield from guarded(NAME, server, Record(number, whole), _convert, alone=True)
