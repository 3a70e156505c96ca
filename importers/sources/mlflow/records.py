"""Read a record of MLflow in any of its forms: one or more traces, each with its spans.

| form | what it looks like |
|---|---|
| export | `Trace.to_json()`: `{"info": …, "data": {"spans": […]}}`, of MLflow 2 and 3 |
| row | a row of `mlflow.search_traces()` as JSON: `{"trace": "<export>", …}`, or its columns with `spans` |
| answer | of the tracking server: `{"trace_info": …, "spans": […]}`, alone, in `trace` or in `traces` |

Three generations of fields come out as one: `request_id` and `trace_id`, tags as a table and as a list of
keys and values, spans with base64 ids, with hex ids and with `context`, attributes as JSON texts and as
protobuf values.

Where there is no server, MLflow keeps an SQLite file on this machine. It is read as it is, nothing is
written to it. Spans that are not in it (MLflow kept them as files before version 3) are not looked for.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from replaydiff.importers import fields
from replaydiff.importers.base import Query, RecordError, ShowStatus
from replaydiff.importers.spans.contents import Event, RawSpan
from replaydiff.replay.errors import InputError, SettingsError
from replaydiff.replay.messages import decode, parse
from replaydiff.replay.model import Json, JsonObject, as_object, objects_in

_BASE64_ID = re.compile(r"[A-Za-z0-9+/]{11}=|[A-Za-z0-9+/]{22}==")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """The fields of a whole trace."""

    trace_id: str
    experiment: str | None
    started_at: datetime
    ended_at: datetime | None
    state: str
    metadata: JsonObject
    tags: JsonObject
    assessments: list[Json]
    request: str | None
    """The beginning of what went in, …"""
    response: str | None
    """… and of what came out: MLflow cuts both."""


def traces_in(record: Json) -> Iterator[tuple[JsonObject, list[Json]]]:
    """Yield the traces of a record, each with its own fields and its spans, unchanged.

    Raises:
        RecordError: there is none.
    """
    record = fields.object_of(record, "a record")
    if "info" in record and "data" in record:
        data = fields.mapping(record, "data")
        yield _texts_of(fields.mapping(record, "info"), data), fields.sequence(data, "spans")
    elif "trace_info" in record:
        yield fields.mapping(record, "trace_info"), fields.sequence(record, "spans")
    elif isinstance(record.get("traces"), list):
        for inner in fields.sequence(record, "traces"):
            yield from traces_in(inner)
    elif "trace" in record and isinstance(decode(record["trace"]), dict):
        yield from traces_in(decode(record["trace"]))
    elif "spans" in record and ("trace_id" in record or "request_id" in record):
        yield dict(record), fields.sequence(record, "spans")
    else:
        raise RecordError("neither info and data, nor trace_info and spans of an MLflow trace")


def _texts_of(info: JsonObject, data: JsonObject) -> JsonObject:
    """Return the fields of a trace with what went in and came out, which MLflow 2 keeps beside the spans."""
    whole = {key: data[key] for key in ("request", "response") if isinstance(data.get(key), str)}
    return {**info, **whole}


def read_info(info: JsonObject) -> Info:
    """Return the fields of a trace.

    Raises:
        RecordError: it has no id or no time, or a field is of the wrong type.
    """
    trace_id = fields.text(info, "trace_id") or fields.text(info, "request_id")
    if trace_id is None:
        raise RecordError("trace_id is missing")
    started_at = fields.time(info, "request_time", "timestamp_ms")
    if started_at is None:
        raise RecordError("request_time is missing")
    took = _duration(info)
    return Info(
        trace_id=trace_id,
        experiment=_experiment(info),
        started_at=started_at,
        ended_at=None if took is None else started_at + took,
        state=str(info.get("state") or info.get("status") or ""),
        metadata=_table(info, "trace_metadata") or _table(info, "request_metadata"),
        tags=_table(info, "tags"),
        assessments=fields.sequence(info, "assessments"),
        request=_text(info, "request", "request_preview"),
        response=_text(info, "response", "response_preview"),
    )


def _text(info: JsonObject, *keys: str) -> str | None:
    values = (info.get(key) for key in keys)
    return next((value for value in values if isinstance(value, str) and value), None)


def _duration(info: JsonObject) -> timedelta | None:
    value = next(
        (
            info[key]
            for key in ("execution_duration_ms", "execution_time_ms", "execution_duration")
            if info.get(key) is not None
        ),
        None,
    )
    seconds = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    try:
        if seconds:
            return timedelta(seconds=float(seconds[1]))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return timedelta(milliseconds=float(value)) if is_number else None  # type: ignore[arg-type]
    except (OverflowError, ValueError):
        return None


def _experiment(info: JsonObject) -> str | None:
    inner = as_object(fields.mapping(info, "trace_location").get("mlflow_experiment"))
    return fields.text(inner, "experiment_id") or fields.text(info, "experiment_id")


def _table(info: JsonObject, key: str) -> JsonObject:
    """Return keys and values, written as an object or as a list of both."""
    value = info.get(key)
    if isinstance(value, list):
        return {str(entry["key"]): entry.get("value") for entry in objects_in(value) if "key" in entry}
    return fields.mapping(info, key)


def read_span(span: Json) -> RawSpan:
    """Return a span in any of its three schemas.

    Raises:
        RecordError: it has no id or no start, or a field is of the wrong type.
    """
    span = fields.object_of(span, "a span")
    context = fields.mapping(span, "context") or span
    span_id = _id(context, "span_id")
    started_at = fields.time(span, "start_time_unix_nano", "start_time")
    if span_id is None or started_at is None:
        raise RecordError("a span needs span_id and start_time_unix_nano")
    status = as_object(span.get("status"))
    message = status.get("message") or span.get("status_message")
    events = objects_in(fields.sequence(span, "events"))
    return RawSpan(
        id=span_id,
        parent=_id(span, "parent_span_id") or _id(span, "parent_id"),
        name=fields.text(span, "name") or "",
        started_at=started_at,
        ended_at=fields.time(span, "end_time_unix_nano", "end_time"),
        failed=str(status.get("code") or span.get("status_code") or "").endswith("ERROR"),
        message=str(message) if message else None,
        attributes=_attributes(span),
        events=tuple(Event(name=str(event.get("name")), attributes=_attributes(event)) for event in events),
    )


def _id(holder: Mapping[str, Any], key: str) -> str | None:
    """Return a span id as MLflow shows it: hex; base64 and `0x` are its other spellings."""
    value = fields.text(holder, key)
    if value is None or not _BASE64_ID.fullmatch(value):
        return value.removeprefix("0x") if value else None
    try:
        return base64.b64decode(value, validate=True).hex()
    except binascii.Error:
        return value


def _attributes(holder: JsonObject) -> JsonObject:
    """Return attributes decoded: JSON in a table, or protobuf values in a list."""
    value = holder.get("attributes")
    if isinstance(value, list):
        return _of_protobuf(value)
    return {key: _json(inner) for key, inner in fields.mapping(holder, "attributes").items()}


def _json(value: Json) -> Json:
    """Decode a value, which MLflow writes as JSON text, exactly once; other tools may write bare text."""
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except ValueError:
        return value


def _of_protobuf(pairs: list[Json]) -> JsonObject:
    return {str(pair["key"]): _value(pair.get("value")) for pair in objects_in(pairs) if "key" in pair}


_KINDS = {
    "string_value", "bool_value", "int_value", "double_value", "bytes_value", "array_value", "kvlist_value"
}  # fmt: skip


def _value(value: Json) -> Json:
    if not value:
        return None
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in _KINDS:
        raise RecordError("a value of an attribute has a type that is not of OpenTelemetry")
    ((kind, inner),) = value.items()
    if kind in ("array_value", "kvlist_value"):
        values = inner.get("values", []) if isinstance(inner, dict) and inner.keys() <= {"values"} else None
        if not isinstance(values, list):
            raise RecordError(f"{kind} of an attribute has no values")
        return [_value(entry) for entry in values] if kind == "array_value" else _of_protobuf(values)
    return inner


LOOK_BACK = timedelta(days=30)
"""How far back traces are looked through for what came to them since."""


def project(query: Query) -> str | None:
    """Name or id of the experiment; None for all."""
    named = os.environ.get("MLFLOW_EXPERIMENT_NAME") or os.environ.get("MLFLOW_EXPERIMENT_ID")
    return query.project or named or None


def bounds(query: Query) -> tuple[int, int]:
    """Return the times between which traces started, in milliseconds since 1970; the end is excluded."""
    since = query.start
    if since is not None and query.updates:
        since -= LOOK_BACK
    return 0 if since is None else _milliseconds(since), _milliseconds(query.end)


def matches(info: Info, query: Query) -> bool:
    """Return whether a trace within `bounds` matches the query."""
    labels = {**info.tags, **info.metadata}
    has = {*(str(key) for key in info.tags), *(f"{key}={value}" for key, value in info.tags.items())}
    environment, release, user = (
        str(labels.get(key)) for key in ("environment", "mlflow.source.git.commit", "mlflow.trace.user")
    )
    name = str(info.tags.get("mlflow.traceName"))
    return query.matches(environment, release, name, user, has) and _since(info, query.start)


def _since(info: Info, start: datetime | None) -> bool:
    """Return whether a trace is of this time: it began, ended or was assessed in it."""
    if start is None or info.started_at >= start:
        return True
    if info.ended_at is not None and info.ended_at >= start:
        return True
    changes = (
        fields.time(assessment, "last_update_time", "create_time")
        for assessment in objects_in(info.assessments)
    )
    return any(moment is not None and moment >= start for moment in changes)


def _milliseconds(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1000)


SCHEME = "sqlite:"
_TELL_EVERY = 1000


def path_of(uri: str) -> Path:
    """Return the file that `sqlite:///mlflow.db` names.

    Raises:
        SettingsError: there is none.
    """
    path = Path(uri.removeprefix(SCHEME).removeprefix("///"))
    if not path.is_file():
        raise SettingsError(f"MLFLOW_TRACKING_URI names {path}, and there is no such file")
    return path


def stored(path: Path, query: Query, show_status: ShowStatus) -> Iterator[JsonObject]:
    """Yield the traces of a query, as `{"trace_info": …, "spans": […]}`, oldest first.

    Raises:
        InputError: it is no tracking store, or has no such experiment.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as con:
            con.row_factory = sqlite3.Row
            yield from _traces(con, query, show_status)
    except sqlite3.Error as error:
        raise InputError(f"{path} cannot be read as a tracking store of MLflow: {error}") from None


def _traces(con: sqlite3.Connection, query: Query, show_status: ShowStatus) -> Iterator[JsonObject]:
    tables = {row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    experiments = _experiments(con, project(query))
    first, last = bounds(query)
    rows = con.execute(
        "SELECT * FROM trace_info WHERE timestamp_ms >= ? AND timestamp_ms < ? ORDER BY timestamp_ms",
        (first, last),
    )
    for number, row in enumerate(rows, start=1):
        if number % _TELL_EVERY == 0:
            show_status(f"{number:,} traces")
        if row["experiment_id"] not in experiments:
            continue
        trace_id = str(row["request_id"])
        info: JsonObject = {
            **dict(row),
            "trace_metadata": _column(row, "session_id", "mlflow.trace.session")
            | _sql_table(con, "trace_request_metadata", trace_id),
            "tags": _column(row, "trace_name", "mlflow.traceName") | _sql_table(con, "trace_tags", trace_id),
            "assessments": _assessments(con, trace_id) if "assessments" in tables else [],
        }
        if _matches(info, query):
            yield {"trace_info": info, "spans": _spans(con, trace_id) if "spans" in tables else []}


def _matches(info: JsonObject, query: Query) -> bool:
    try:
        return matches(read_info(info), query)
    except RecordError:
        # It is rejected where traces are made.
        return True


def _experiments(con: sqlite3.Connection, project: str | None) -> set[int]:
    if project is None:
        active = con.execute("SELECT experiment_id FROM experiments WHERE lifecycle_stage = 'active'")
        return {row[0] for row in active}
    for column in ("name", "CAST(experiment_id AS TEXT)"):
        chosen = con.execute(f"SELECT experiment_id FROM experiments WHERE {column} = ?", (project,))
        ids = {row[0] for row in chosen}
        if ids:
            return ids
    raise InputError(f"there is no experiment {project!r} in this store; --project takes its name or its id")


def _column(row: sqlite3.Row, column: str, name: str) -> JsonObject:
    """Return what newer stores keep in a column of its own, under the name it has elsewhere."""
    return {name: row[column]} if column in row.keys() and row[column] else {}  # noqa: SIM118


def _sql_table(con: sqlite3.Connection, table: str, trace_id: str) -> JsonObject:
    rows = con.execute(f"SELECT key, value FROM {table} WHERE request_id = ?", (trace_id,))
    return {str(row["key"]): row["value"] for row in rows}


def _assessments(con: sqlite3.Connection, trace_id: str) -> list[Json]:
    cursor = con.execute("SELECT * FROM assessments WHERE trace_id = ?", (trace_id,))
    return [
        {
            "assessment_name": row["name"],
            "last_update_time": row["last_updated_timestamp"],
            "valid": bool(row["valid"]),
            "source": {"source_type": row["source_type"]},
            str(row["assessment_type"]): {"value": _plain(row["value"])},
        }
        for row in cursor
    ]


def _plain(value: Json) -> Json:
    """Return a value that stands as JSON text; bare words, numbers and truths too, which records never
    decode.
    """
    wrapped = decode(f"[{value}]") if isinstance(value, str) else [value]
    return wrapped[0] if isinstance(wrapped, list) and len(wrapped) == 1 else value


def _spans(con: sqlite3.Connection, trace_id: str) -> list[Json]:
    rows = con.execute(
        "SELECT content FROM spans WHERE trace_id = ? ORDER BY start_time_unix_nano", (trace_id,)
    )
    return [decode(row["content"]) for row in rows]
