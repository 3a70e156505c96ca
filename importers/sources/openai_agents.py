"""Traces of the OpenAI Agents SDK, as its processors and exporters write them: one trace or span a record.

A span is `{object: "trace.span", trace_id, parent_id, span_data: {type, …}}`, and `{object: "trace"}` has the
name of the workflow and the group of a conversation. What is sent to a backend, `{data: […]}`, is read too.
A `generation` span has the messages of its model call. A `response` span is exported without any: its tools
are known from their own spans, the question and the answer are not, unless an exporter of the user's own
adds `input` and `response` to `span_data`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError
from replaydiff.importers.convert import Group, Spool, grouped
from replaydiff.importers.reading import Record
from replaydiff.importers.spans.interpret import with_notes
from replaydiff.importers.spans.trace import About, Span, of_spans
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject, StepKind, as_object

NAME = "openai-agents"
RECOGNISED_BY = "records have object trace or trace.span"

_TRACE, _SPAN = "trace", "trace.span"
_KINDS = {
    "generation": StepKind.LLM,
    "response": StepKind.LLM,
    "function": StepKind.TOOL,
    "agent": StepKind.AGENT,
}
NO_CONTENT = (
    "response spans of the OpenAI Agents SDK export no messages: let a trace processor of your own write "
    "span.span_data.input and span.span_data.response.model_dump() into span_data as input and response"
)


def recognises(record: Json) -> float:
    """Recognise a record by the kind of object, and what each of them has."""
    row = next(iter(_rows(record)), None)
    if not isinstance(row, dict):
        return 0.0
    if row.get("object") == _SPAN and isinstance(row.get("span_data"), dict):
        return 0.97
    return 0.97 if row.get("object") == _TRACE and "workflow_name" in row else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Read one trace for each trace id in the files."""
    return grouped(NAME, files, _keep, _trace, unpack=_rows, numbered=False)


def _rows(record: Json) -> Iterator[Json]:
    listed = record.get("data") if isinstance(record, dict) and "object" not in record else None
    yield from listed if isinstance(listed, list) else [record]


def _keep(spool: Spool, number: int, _file: InputFile, record: Record) -> Iterator[Imported]:
    row = fields.object_of(record.value, "a trace or span")
    kind, row_id = row.get("object"), fields.text(row, "id")
    trace_id = row_id if kind == _TRACE else fields.text(row, "trace_id")
    if kind not in (_TRACE, _SPAN) or row_id is None or trace_id is None:
        raise RecordError("no trace or span of the Agents SDK: looked for object, id and trace_id")
    ended = fields.text(row, "ended_at") or ""
    spool.add(trace_id, str(kind), row_id, row, updated=ended, file=number, line=record.line)
    yield from ()


def _trace(group: Group, _value: Json, _file: InputFile) -> Iterator[Imported]:
    about = next(iter(group.objects(_TRACE)), {})
    rows = group.objects(_SPAN)
    if not rows:
        raise RecordError("the trace has no spans in these files: import all of them together")
    spans = sorted(map(_span, rows), key=lambda span: span.started_at)
    if any(span.kind is StepKind.LLM and not span.has_content for span in spans):
        yield Note(NO_CONTENT)
    yield from with_notes(of_spans(group.key, NAME, spans, _about(about)), spans)


def _span(row: JsonObject) -> Span:
    data = fields.mapping(row, "span_data")
    sort = fields.text(data, "type")
    if sort is None:
        raise RecordError("span_data has no type")
    kind = _KINDS.get(sort, StepKind.UNCLASSIFIED)
    name = fields.text(data, "name")
    if kind is StepKind.TOOL and name is None:
        raise RecordError("a function span has no name")
    response = fields.mapping(data, "response")
    return Span(
        id=str(row["id"]),
        parent=fields.text(row, "parent_id"),
        kind=kind,
        name=name or sort,
        started_at=_started(row),
        ended_at=fields.time(row, "ended_at"),
        input=decode(data.get("input")) if kind is StepKind.TOOL else data.get("input"),
        output=response.get("output") if response else data.get("output"),
        model=fields.text(data, "model") or fields.text(response, "model"),
        usage=fields.usage(data.get("usage") or response.get("usage")) if kind is StepKind.LLM else None,
        error=_error(row),
    )


def _started(row: JsonObject) -> datetime:
    return fields.start_time(row, "started_at", "the span has no started_at")


def _error(row: JsonObject) -> str | None:
    """Return the message of an error, with what its data say of it."""
    error = fields.mapping(row, "error")
    if not error:
        return None
    detail = as_object(error.get("data")).get("error")
    parts = [part for part in (error.get("message"), detail) if isinstance(part, str) and part]
    return ": ".join(parts) or "the span failed"


def _about(row: JsonObject) -> About:
    metadata = dict(fields.mapping(row, "metadata"))
    user, environment, release = (
        fields.popped(metadata, key) for key in ("user_id", "environment", "release")
    )
    return About(
        name=fields.text(row, "workflow_name"),
        session_id=fields.text(row, "group_id"),
        user_id=user,
        environment=environment,
        release=release,
        metadata=metadata,
    )
