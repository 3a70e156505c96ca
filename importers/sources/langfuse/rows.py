"""Rows of Langfuse files and answers: their sorts, and the rows of one trace.

| file | rows |
|---|---|
| page of the public API, v2 observations or older: `{data: […], meta}` | observations, traces or scores |
| export of the observations or traces table (JSON, JSONL, CSV), camelCase | observations or traces |
| scheduled blob export (JSON, JSONL, CSV, Parquet), snake_case | observations, traces or scores; a manifest |
| download of one trace `{trace, observations}`, or `GET /traces/{id}` | one trace with its observations |

The manifests of a scheduled blob export name which of its files are whole, and how many rows they have. An
export writes `{project}/{table}/TIME.ext` for each table and last of all `{project}/manifests/TIME.json`.
A file that no manifest names is of a run that failed or is not done: the run is repeated under the same name.
Where there are no manifests (older servers), or a file was named by itself, it is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.convert import Group, Spool
from replaydiff.importers.reading import Record, records
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject, as_object, objects_in
from replaydiff.replay.model.light import light_dataclass

TYPES = frozenset(
    {
        "SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING",
        "GUARDRAIL",
    }
)  # fmt: skip

_SNAKE = re.compile(r"_([a-z])")
_SNAKE_ROW = frozenset(("trace_id", "project_id", "start_time"))


_OBSERVATION = frozenset(("id", "traceId", "startTime", "type"))
_NO_TRACE = frozenset(("sessionId", "datasetRunId", "experimentId"))


class Sort(StrEnum):
    """What a row is about."""

    OBSERVATION = "observation"
    TRACE = "trace"
    SCORE = "score"
    COMMENT = "comment"
    MANIFEST = "manifest"


@light_dataclass(frozen=True, slots=True)
class Row:
    """One row, its fields in camelCase whatever the file called them, empty ones left out."""

    sort: Sort
    id: str
    trace_id: str
    values: JsonObject


def rows(record: Json) -> Iterator[JsonObject]:
    """Yield the rows in one record of a file: the record itself, or what is inside a page or a download."""
    record = fields.object_of(record, "a row")
    data = record.get("data")
    if isinstance(data, list) and ("meta" in record or len(record) == 1):
        for row in data:
            yield row if isinstance(row, dict) else {"": row}
        return
    observations = record.get("observations")
    trace = record.get("trace", record)
    if isinstance(observations, list) and isinstance(trace, dict) and objects_in(observations):
        yield {**trace, "observations": None}
        for row in observations:
            yield {"traceId": trace.get("id"), **row} if isinstance(row, dict) else {"": row}
        return
    yield record


def read_row(values: JsonObject) -> Row:
    """Name a row's sort and ids.

    Raises:
        RecordError: it is none of the five, or lacks the ids that say which trace it belongs to.
    """
    row: JsonObject = {key: value for key, value in camel_keys(values).items() if value not in (None, "")}
    sort = sort_of(row)
    if sort is None and row.keys() >= _OBSERVATION:
        # A server that is newer may have further types.
        sort = Sort.OBSERVATION
    if sort is None:
        shown = ", ".join(list(values)[:6]) or "nothing"
        raise RecordError(f"neither an observation, a trace nor a score of Langfuse: it has {shown}")
    if sort is Sort.MANIFEST:
        return Row(sort, "", "", {})
    row_id = row.get("id")
    trace_id = row_id if sort is Sort.TRACE else _trace_of(row)
    if sort is Sort.COMMENT:
        # Of observations, sessions and prompts there are comments, too.
        if not isinstance(row["objectType"], str):
            raise RecordError(f"objectType of the comment must be text, not {fields.kind(row['objectType'])}")
        trace_id = row["objectId"] if row["objectType"] == "TRACE" else ""
    if not isinstance(row_id, str) or not isinstance(trace_id, str):
        missing = "id" if not isinstance(row_id, str) else "traceId"
        if sort is Sort.SCORE and missing == "traceId" and _is_of_no_trace(row):
            return Row(sort, str(row_id), "", row)
        raise RecordError(f"the {sort} has no {missing}")
    if sort is Sort.SCORE:
        _check_value(row, values)
    if sort is Sort.OBSERVATION and "startTime" not in row:
        raise RecordError("the observation has no startTime")
    return Row(sort, row_id, trace_id, row)


def sort_of(row: Mapping[str, Any]) -> Sort | None:
    """Return what a row in camelCase is, by its fields."""
    if {"tables", "files", "window"} <= row.keys():
        return Sort.MANIFEST
    if {"objectType", "objectId", "content"} <= row.keys():
        return Sort.COMMENT
    if "dataType" in row and "name" in row:
        return Sort.SCORE
    if str(row.get("type", "")).upper() in TYPES and ("startTime" in row or "traceId" in row):
        return Sort.OBSERVATION
    if "timestamp" in row and "id" in row and row.keys().isdisjoint(("traceId", "subject")):
        return Sort.TRACE
    return None


def camel_keys(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with its keys in camelCase, where it comes from a blob export."""
    if not _SNAKE_ROW & record.keys():
        # Names of scores are columns of the table export too, and stay as they are.
        return dict(record)
    return {_camel(key): value for key, value in record.items()}


@lru_cache(maxsize=1_000)
def _camel(key: str) -> str:
    return _SNAKE.sub(lambda match: match[1].upper(), key)


def _trace_of(row: Mapping[str, Any]) -> Json:
    subject = row.get("subject")
    if "traceId" in row or not isinstance(subject, dict):
        trace_id: Json = row.get("traceId")
        return trace_id
    return subject.get("traceId") or (subject.get("id") if subject.get("kind") == "trace" else None)


def _check_value(score: JsonObject, values: JsonObject) -> None:
    value = score.get("value", score.get("stringValue"))
    if isinstance(value, list | dict):
        raise RecordError(f"the value of the score must be a number or text, not {fields.kind(value)}")
    if {"value", "stringValue", "string_value"}.isdisjoint(values):
        raise RecordError("the score has no value")
    if not isinstance(score["dataType"], str):
        raise RecordError(f"dataType of the score must be text, not {fields.kind(score['dataType'])}")
    if score["dataType"] == "CATEGORICAL" and not isinstance(score.get("stringValue", value), str):
        raise RecordError("the score is of a category, and its text is missing")


def _is_of_no_trace(score: Mapping[str, Any]) -> bool:
    """Return whether a score says that it is of something else."""
    subject = score.get("subject")
    kind = subject.get("kind") if isinstance(subject, dict) else None
    return kind in ("session", "experiment") or not score.keys().isdisjoint(_NO_TRACE)


def table(row: Mapping[str, Any], key: str) -> JsonObject:
    """Return an object field, also if it is given as JSON text."""
    return as_object(decode(row.get(key)))


@dataclass(frozen=True, slots=True)
class TraceRows:
    """All rows of one trace, in the order in which they arrived."""

    trace_id: str
    file: int
    """Index of the file of its first row."""
    line: int
    observations: list[JsonObject]
    traces: list[JsonObject]
    scores: list[JsonObject]
    comments: list[JsonObject]


def keep_row(rows: Spool, row: Row, file: int = 0, line: int = 0) -> None:
    """Keep a row, or update the one with its id."""
    value = cast("Json", row.values)
    rows.add(row.trace_id, row.sort, row.id, value, updated=_moment(row.values), file=file, line=line)


def trace_rows(group: Group) -> TraceRows:
    """Return the rows of one trace by their sort."""
    observations, traces, scores, comments = (
        cast("list[JsonObject]", group.of(sort))
        for sort in (Sort.OBSERVATION, Sort.TRACE, Sort.SCORE, Sort.COMMENT)
    )
    return TraceRows(group.key, group.file, group.line, observations, traces, scores, comments)


def _moment(row: JsonObject) -> str:
    """Return when a row was last updated, in one form: exports write a space for the T, and no zone."""
    return str(row.get("updatedAt", "")).replace(" ", "T").removesuffix("Z")


FOLDER = "manifests"
TABLES = frozenset(("observations_v2", "observations", "traces", "scores"))
_NOT_NAMED = (
    "files of a blob export that no manifest names: their run failed or is not done; to import one all the "
    "same, name the file itself"
)
_NOT_HERE = "files that a manifest of the blob export names are not here; fetch them and import again"

Named = tuple[Path, str, str]
"""Folder of the project, table, and name of the file without `.gz`, which some tools take off."""


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """The files of an import, as far as they are to be read."""

    files: list[InputFile] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """Path of a file → rows it has, by its manifest."""
    remarks: list[Imported] = field(default_factory=list)
    """What a person should know of files that are not read."""


def export(files: Sequence[InputFile]) -> ExportManifest:
    """Return the files without manifests, and without what no manifest names where there are some."""
    entries: dict[Named, int | None] = {}
    data = []
    for file in files:
        listed = _manifest(file)
        if listed is None:
            data.append(file)
        else:
            entries.update(_entries(Path(file.path).parent.parent, listed))
    projects = {project for project, _, _ in entries}
    manifest = ExportManifest()
    for file in data:
        named = _named(Path(file.path))
        rows = entries.get(named)
        if named[0] in projects and named[1] in TABLES and named not in entries:
            manifest.remarks.append(Skipped(_NOT_NAMED))
        else:
            manifest.files.append(file)
            if rows is not None:
                manifest.rows[file.path] = rows
    manifest.remarks.extend(Note(_NOT_HERE) for named in entries if not _is_here(named))
    return manifest


def _manifest(file: InputFile) -> list[Json] | None:
    """Return the files that a manifest lists; None where it is none."""
    if Path(file.path).parent.name != FOLDER:
        return None
    for record in islice(records(file), 1):
        if isinstance(record, Record) and isinstance(record.value, dict) and "window" in record.value:
            listed = record.value.get("files")
            return listed if isinstance(listed, list) else None
    return None


def _entries(project: Path, listed: Sequence[Json]) -> Iterator[tuple[Named, int | None]]:
    for entry in listed:
        if not isinstance(entry, dict):
            continue
        key, rows = entry.get("key"), entry.get("rowCount")
        if isinstance(key, str) and ".." not in key and "\x00" not in key:
            yield _named(project / Path(*key.split("/")[-2:])), rows if isinstance(rows, int) else None


def _named(path: Path) -> Named:
    return path.parent.parent, path.parent.name, path.name.removesuffix(".gz")


def _is_here(named: Named) -> bool:
    project, table, name = named
    return any((project / table / file_name).exists() for file_name in (name, f"{name}.gz"))
