"""OpenTelemetry spans in files: OTLP/JSON of a collector, and the dumps of SDKs.

| record | written by |
|---|---|
| `{"resourceSpans": …}`, `{"resourceLogs": …}` | the collector's file exporter; OTLP/JSON requests |
| the same in snake_case, with base64 ids and names of enums | protobuf's own JSON; Phoenix |
| `{"batches": …}`, `{"trace": {"resourceSpans": …}}` | Tempo's API |
| `{"name", "context": {"trace_id": "0x…"}, …}` | the console exporter of Python |
| `{"name", "spanContext": {…}, "startTime": [s, ns], …}` | a dump of JavaScript's `ReadableSpan` |
| `{"start_timestamp", "trace_id", "span_id", "attributes", …}` | rows of Logfire's SQL API |

The spans of a trace may stand in any of the files, and log records that hold its messages in others.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Job, RecordError, Skipped
from replaydiff.importers.convert import Group, Spool, done, grouped, refused
from replaydiff.importers.reading import Record
from replaydiff.importers.spans.contents import Event, RawSpan
from replaydiff.importers.spans.interpret import trace
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject

_T = TypeVar("_T")
_EPOCH = datetime(1970, 1, 1)
_ENVELOPES = ("resourceSpans", "resource_spans", "batches", "resourceLogs", "resource_logs")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_LOG_SCOPES = ("scopeLogs", "scope_logs")
_HEX = re.compile(r"(0x)?([0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{11}=|[A-Za-z0-9+/]{22}==")
_NO_ID = re.compile(r"0*")


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """A span, and the trace it is part of."""

    trace_id: str
    span: RawSpan


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """A log record that belongs to a span."""

    trace_id: str
    span_id: str
    event: Event


Found = FoundSpan | FoundEvent


@dataclass(frozen=True, slots=True)
class Bad:
    """A span that cannot be taken, among others that can."""

    value: Json
    reason: str


def dialect(record: Json) -> str | None:
    """Return the format of a record; None if it contains no spans."""
    if not isinstance(record, dict):
        return None
    if any(isinstance(_inside(record).get(key), list) for key in _ENVELOPES):
        return "otlp"
    listed = record.get("spans")
    if isinstance(listed, list) and any(isinstance(one, dict) and _own_ids(one)[1] for one in listed):
        return "listed"
    context = record.get("context")
    if (
        isinstance(context, dict)
        and "trace_id" in context
        and str(record.get("kind")).startswith("SpanKind.")
    ):
        return "console"
    if isinstance(_get(record, "spanContext", "_spanContext"), dict) and "startTime" in record:
        return "javascript"
    if {"start_timestamp", "trace_id", "span_id"} <= record.keys():
        return "logfire"
    return None


def found(record: Json) -> Iterator[Found | Bad]:
    """The spans and log records in one record of a file.

    Raises:
        RecordError: there are none in it.
    """
    if not isinstance(record, dict):
        raise RecordError(f"a record must be an object, not {fields.kind(record)}")
    written = dialect(record)
    if written == "otlp":
        yield from _envelope(_inside(record))
    elif written == "listed":
        for span in _objects(record, "spans"):
            yield _or_bad(span, _listed_span, record)
    elif written == "console":
        yield _console(record)
    elif written == "javascript":
        yield _javascript(record)
    elif written == "logfire":
        if record.get("kind") != "pending_span":
            yield _logfire(record)
    else:
        shown = ", ".join(list(record)[:6]) or "nothing"
        raise RecordError(f"no spans of OpenTelemetry: looked for resourceSpans, it has {shown}")


def _inside(record: JsonObject) -> JsonObject:
    trace = record.get("trace")
    return trace if isinstance(trace, dict) else record


def _get(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _object(value: Mapping[str, Any], name: str) -> JsonObject:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _objects(value: Mapping[str, Any], *names: str) -> Iterator[JsonObject]:
    listed = _get(value, *names)
    yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))


def _damaged(holder: Mapping[str, Any], *names: str) -> Iterator[Bad]:
    """What stands in an envelope where objects should: spans may be lost with it."""
    listed = _get(holder, *names)
    if listed is None and any(isinstance(one, list) and one for one in holder.values()):
        yield Bad(dict(holder), f"there is no {names[0]} in it, but another list")
    elif listed is not None and not isinstance(listed, list):
        yield Bad(listed, f"{names[0]} must be a list, not {fields.kind(listed)}")
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict):
            yield Bad(one, f"an entry of {names[0]} must be an object, not {fields.kind(one)}")


def _or_bad(value: JsonObject, read: Callable[..., _T], *more: Any) -> _T | Bad:
    try:
        return read(value, *more)
    except RecordError as error:
        return Bad(value, str(error))


def _envelope(record: JsonObject) -> Iterator[Found | Bad]:
    yield from _damaged(record, *_ENVELOPES)
    for holder in _objects(record, *_ENVELOPES):
        yield from _damaged(holder, *_SCOPES, *_LOG_SCOPES)
        of_resource = _or_bad(_object(holder, "resource"), lambda held: attributes(held.get("attributes")))
        if isinstance(of_resource, Bad):
            yield of_resource
            of_resource = {}
        for scoped in _objects(holder, *_SCOPES):
            scope = _get(scoped, "scope", "instrumentationLibrary", "instrumentation_library")
            name = str(scope.get("name") or "") if isinstance(scope, dict) else ""
            yield from _damaged(scoped, "spans")
            for span in _objects(scoped, "spans"):
                yield _or_bad(span, otlp_span, name, of_resource)
        for scoped in _objects(holder, *_LOG_SCOPES):
            yield from _damaged(scoped, "logRecords", "log_records")
            for log in _objects(scoped, "logRecords", "log_records"):
                event = _or_bad(log, _log)
                if event is not None:
                    yield event


def otlp_span(span: JsonObject, scope: str, resource: JsonObject) -> FoundSpan:
    """A span of OTLP/JSON, its fields in either case.

    Raises:
        RecordError: it lacks an id or its start, or a time cannot be read.
    """
    status = _object(span, "status")
    return FoundSpan(
        _required(_id(_get(span, "traceId", "trace_id")), "traceId"),
        RawSpan(
            id=_required(_id(_get(span, "spanId", "span_id")), "spanId"),
            parent=_id(_get(span, "parentSpanId", "parent_span_id")),
            name=fields.text(span, "name") or "",
            started_at=_started(_get(span, "startTimeUnixNano", "start_time_unix_nano"), "startTimeUnixNano"),
            ended_at=_nanoseconds(_get(span, "endTimeUnixNano", "end_time_unix_nano"), "endTimeUnixNano"),
            scope=scope,
            failed=status.get("code") in (2, "2", "STATUS_CODE_ERROR"),
            message=_message(status.get("message")),
            attributes=attributes(span.get("attributes")),
            resource=resource,
            events=tuple(
                Event(name=str(event.get("name") or ""), attributes=attributes(event.get("attributes")))
                for event in _objects(span, "events")
            ),
        ),
    )


def _log(log: JsonObject) -> FoundEvent | None:
    """A log record within a span, as an event of it; a body of fields joins its attributes."""
    trace_id = _id(_get(log, "traceId", "trace_id"))
    span_id = _id(_get(log, "spanId", "span_id"))
    own = attributes(log.get("attributes"))
    name = _get(log, "eventName", "event_name") or own.get("event.name")
    if trace_id is None or span_id is None or not isinstance(name, str):
        return None
    body = _value(decode(log.get("body")))
    own = {**own, **body} if isinstance(body, dict) else {**own, "content": body}
    return FoundEvent(trace_id, span_id, Event(name=name, attributes=own))


def _console(span: JsonObject) -> FoundSpan:
    context = fields.mapping(span, "context")
    status = _object(span, "status")
    resource = span.get("resource")
    return FoundSpan(
        _required(_id(context.get("trace_id")), "context.trace_id"),
        RawSpan(
            id=_required(_id(context.get("span_id")), "context.span_id"),
            parent=_id(span.get("parent_id")),
            name=fields.text(span, "name") or "",
            started_at=_started(span.get("start_time"), "start_time"),
            ended_at=fields.time(span, "end_time"),
            failed=status.get("status_code") == "ERROR",
            message=_message(status.get("description")),
            attributes=fields.mapping(span, "attributes"),
            resource=fields.mapping(resource, "attributes") if isinstance(resource, dict) else {},
            events=_plain_events(span),
        ),
    )


def _own_ids(span: JsonObject) -> tuple[str | None, str | None]:
    """Trace id and span id of a span in a dump of somebody's own; ids may be numbers."""
    holder = _object(span, "context") or span
    return _number_id(_get(holder, "trace_id", "traceId"), 32), _number_id(
        _get(holder, "span_id", "spanId"), 16
    )


def _number_id(value: Json, digits: int) -> str | None:
    """An id as text: OpenTelemetry's SDKs keep ids as integers, which exporters write in hexadecimal."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:0{digits}x}" if value > 0 else None
    return _id(value)


def _listed_span(span: JsonObject, record: JsonObject) -> FoundSpan:
    """Return a span of a list under `spans`: ids as numbers or text, times in nanoseconds or ISO 8601."""
    trace_id, span_id = _own_ids(span)
    parent = _get(span, "parent_id", "parent_span_id", "parentSpanId", "parent")
    parent = _get(parent, "span_id", "spanId") if isinstance(parent, dict) else parent
    status = span.get("status")
    status = status if isinstance(status, dict) else {"code": status}
    code = _get(status, "status_code", "code")
    return FoundSpan(
        _required(trace_id or _number_id(_get(record, "trace_id", "traceId"), 32), "trace_id"),
        RawSpan(
            id=_required(span_id, "span_id"),
            parent=_number_id(parent, 16),
            name=fields.text(span, "name") or "",
            started_at=_started(
                _get(span, "start_time", "start_time_unix_nano", "startTimeUnixNano", "startTime"),
                "start_time",
            ),
            ended_at=_nanoseconds(
                _get(span, "end_time", "end_time_unix_nano", "endTimeUnixNano", "endTime"), "end_time"
            ),
            failed=code in (2, "2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"),
            message=_message(_get(status, "description", "message")),
            attributes=attributes(span.get("attributes")),
            events=_plain_events(span),
        ),
    )


def _javascript(span: JsonObject) -> FoundSpan:
    context = _get(span, "spanContext", "_spanContext")
    parent = span.get("parentSpanContext")
    status = _object(span, "status")
    scope = _get(span, "instrumentationScope", "instrumentationLibrary")
    resource = _get(_object(span, "resource"), "attributes", "_attributes")
    return FoundSpan(
        _required(_id(context.get("traceId")), "spanContext.traceId"),
        RawSpan(
            id=_required(_id(context.get("spanId")), "spanContext.spanId"),
            parent=_id(parent.get("spanId") if isinstance(parent, dict) else span.get("parentSpanId")),
            name=fields.text(span, "name") or "",
            started_at=_started(span.get("startTime"), "startTime"),
            ended_at=_pair(span.get("endTime"), "endTime"),
            scope=str(scope.get("name") or "") if isinstance(scope, dict) else "",
            failed=status.get("code") == 2,
            message=_message(status.get("message")),
            attributes=fields.mapping(span, "attributes"),
            resource=resource if isinstance(resource, dict) else {},
            events=_plain_events(span),
        ),
    )


def _logfire(row: JsonObject) -> FoundSpan:
    held = decode(row.get("attributes"))
    names = ("service.name", "service.version", "deployment.environment")
    resource = {name: row.get(name.replace(".", "_")) for name in names}
    thrown = row.get("exception_message") or row.get("exception_type")
    tags = decode(row.get("tags"))
    own: JsonObject = {**held} if isinstance(held, dict) else {}
    if tags:
        own.setdefault("tag.tags", tags)
    return FoundSpan(
        _required(_id(row.get("trace_id")), "trace_id"),
        RawSpan(
            id=_required(_id(row.get("span_id")), "span_id"),
            parent=_id(row.get("parent_span_id")),
            name=str(row.get("span_name") or ""),
            started_at=_started(row.get("start_timestamp"), "start_timestamp"),
            ended_at=fields.time(row, "end_timestamp"),
            scope=str(row.get("otel_scope_name") or ""),
            failed=row.get("otel_status_code") == "ERROR",
            message=_message(row.get("otel_status_message") or thrown),
            attributes=own,
            resource={key: value for key, value in resource.items() if value},
            events=_plain_events({"events": decode(row.get("otel_events"))}),
        ),
    )


def _plain_events(span: JsonObject) -> tuple[Event, ...]:
    return tuple(
        Event(name=str(_get(event, "name", "event_name") or ""), attributes=_object(event, "attributes"))
        for event in _objects(span, "events")
    )


def attributes(listed: Json) -> JsonObject:
    """Attributes as names and plain values, from a list of `{"key", "value": {"stringValue": …}}`.

    Raises:
        RecordError: it is no list of attributes, or one of them has no name.
    """
    if isinstance(listed, dict):
        return listed
    if listed is not None and not isinstance(listed, list):
        raise RecordError(f"attributes must be a list, not {fields.kind(listed)}")
    found: JsonObject = {}
    for pair in listed or ():
        name = pair.get("key") if isinstance(pair, dict) else None
        if not isinstance(pair, dict) or not isinstance(name, str):
            # It may have been the name of a tool, or its arguments: the span without it would look whole.
            raise RecordError("an attribute must be an object whose key is text")
        found[name] = _value(pair.get("value"))
    return found


def _value(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    text = value.get("stringValue")
    if isinstance(text, str | dict):
        return text
    for kind, inner in value.items():
        word = kind.replace("_", "").lower()
        if inner is None:
            continue
        if word == "intvalue":
            return int(inner) if isinstance(inner, str) and re.fullmatch(r"-?\d{1,19}", inner) else inner
        if word == "arrayvalue":
            return [_value(one) for one in _listed(inner)]
        if word == "kvlistvalue":
            return attributes(_listed(inner))
        if word in ("stringvalue", "boolvalue", "doublevalue", "bytesvalue"):
            if isinstance(inner, list):
                raise RecordError(f"{kind} of an attribute must be a plain value, not {fields.kind(inner)}")
            return inner
        raise RecordError(f"an attribute has a value of the type {kind!r}, which is not of OpenTelemetry")
    return None


def _listed(holder: Json) -> list[Json]:
    values = holder.get("values", []) if isinstance(holder, dict) and holder.keys() <= {"values"} else None
    if not isinstance(values, list):
        raise RecordError("an attribute is a list or an object without values")
    return values


def _id(value: Json) -> str | None:
    """An id in lower-case hexadecimal, where it was that, in upper case or in base64; else as it is."""
    if not isinstance(value, str) or _NO_ID.fullmatch(value):
        return None
    written = _HEX.fullmatch(value)
    if written is not None:
        return None if _NO_ID.fullmatch(written[2]) else written[2].lower()
    if _BASE64.fullmatch(value):
        try:
            return base64.b64decode(value, validate=True).hex()
        except binascii.Error:
            return value
    return value


def _required(value: str | None, name: str) -> str:
    if value is None:
        raise RecordError(f"the span has no {name}")
    return value


def _message(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _started(value: Json, name: str) -> datetime:
    found = _pair(value, name) if isinstance(value, list) else _nanoseconds(value, name)
    if found is None:
        raise RecordError(f"the span has no {name}")
    return found


def _nanoseconds(value: Json, name: str) -> datetime | None:
    """Nanoseconds since 1970, as a number or as text; 0 where an end was never written."""
    if value in (None, "", 0, "0"):
        return None
    if isinstance(value, str) and re.fullmatch(r"\d{17,20}", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10**17:
        try:
            return _EPOCH + timedelta(microseconds=value // 1000)
        except OverflowError:
            raise RecordError(f"{name} is not a time: {value}") from None
    return fields.parse_time(value, name)


def _pair(value: Json, name: str) -> datetime | None:
    """`[seconds, nanoseconds]` of JavaScript."""
    if not isinstance(value, list):
        return _nanoseconds(value, name)
    seconds, nanoseconds = (*value, None, None)[:2]
    if not isinstance(seconds, int) or not isinstance(nanoseconds, int):
        raise RecordError(f"{name} must be [seconds, nanoseconds]")
    if seconds == 0:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        raise RecordError(f"{name} is not a time: {value}") from None


NAME = "otlp"
SUMMARY = "OpenTelemetry spans: OTLP/JSON of a collector, GenAI conventions of any age, Vercel, Logfire"
RECOGNISED_BY = "records are spans of OpenTelemetry"

_SPAN, _EVENT = "span", "event"
_SURE = {"otlp": 0.95, "listed": 0.85, "console": 0.8, "javascript": 0.9, "logfire": 0.9}


def recognises(record: Json) -> float:
    """By the envelope, or the dialect of a single span."""
    return _SURE.get(dialect(record) or "", 0.0)


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """One trace for each trace id in the files."""
    return done(read_jobs(files))


def read_jobs(files: Sequence[InputFile]) -> Iterator[Imported | Job]:
    """The same, made of the spans in other processes."""
    return grouped(NAME, files, _keep, _trace_of)


def _keep(spool: Spool, number: int, file: InputFile, record: Record) -> Iterator[Imported]:
    for one in found(record.value):
        if isinstance(one, Bad):
            yield refused(NAME, file, Record(record.line, one.value), one.reason)
            continue
        if isinstance(one, FoundSpan):
            sort, own_id, row = _SPAN, one.span.id, msgspec.to_builtins(one.span)
        else:
            # Log records have no id: each is a row of its own.
            sort, row = _EVENT, {"span": one.span_id, "event": msgspec.to_builtins(one.event)}
            own_id = msgspec.json.encode(row).decode()
        spool.add(one.trace_id, sort, own_id, row, file=number, line=record.line)


def _trace_of(group: Group, _value: Json, _file: InputFile) -> Iterator[Imported]:
    spans = [msgspec.convert(row, RawSpan) for row in group.of(_SPAN)]
    if not spans:
        yield Skipped("log records of traces that are not in these files")
        return
    late_events: dict[str, list[Event]] = {}
    for row in group.of(_EVENT):
        assert isinstance(row, dict)  # noqa: S101 - as it was written above
        late_events.setdefault(str(row["span"]), []).append(msgspec.convert(row["event"], Event))
    whole = [
        replace(span, events=(*span.events, *late_events[span.id])) if span.id in late_events else span
        for span in spans
    ]
    yield from trace(group.key, NAME, whole, {})
