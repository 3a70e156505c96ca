"""Traces of Opik: the files of `opik export`, and rows of its API or SDK, as JSON or JSONL.

A trace and its spans are rows of their own; `opik export` puts those of one trace into one file. Input and
output of the agent are recorded on the trace itself, so the trace is read as the agent's span, above all
others. The SDK's decorator records a result that is no object as `{"output": RESULT}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, RecordError, Skipped
from replaydiff.importers.convert import Group, Spool, grouped
from replaydiff.importers.reading import Record
from replaydiff.importers.spans.interpret import argument, missing_spans, with_notes
from replaydiff.importers.spans.trace import About, Span, of_spans
from replaydiff.replay.messages import definitions
from replaydiff.replay.model import Json, JsonObject, Score, StepKind, Usage, objects_in

NAME = "opik"
RECOGNISED_BY = "records have start_time and the fields of Opik's traces or spans"

_TRACE, _SPAN = "trace", "span"
_KINDS = {
    "llm": StepKind.LLM,
    "tool": StepKind.TOOL,
    "general": StepKind.UNCLASSIFIED,
    "guardrail": StepKind.UNCLASSIFIED,
}
_ONLY_OF_SPANS = ("parent_span_id", "type")
_PROJECTS = ("project_id", "project_name")
_OFFLINE = ("experiment", "playground", "optimization", "evaluator")
"""Sources of traces that are no production traffic."""
_PROJECT_KEYS = {"id", "name"}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CACHED = (
    "original_usage.cache_read_input_tokens",
    "original_usage.prompt_tokens_details.cached_tokens",
    "original_usage.input_tokens_details.cached_tokens",
    "original_usage.cached_content_token_count",
)
_CACHE_WRITTEN = ("original_usage.cache_creation_input_tokens",)
PROJECT = "descriptions of Opik's projects (project.json)"
EXPERIMENT = "traces of Opik's experiments, playground, optimizer and evaluators"


def recognises(record: Json) -> float:
    """Recognise a record by the fields of a trace or a span: of an export, of a page, or the row itself."""
    row = next(iter(_rows(record)), None)
    if _is_project(row):
        return 0.6
    if not isinstance(row, dict) or "start_time" not in row or "run_type" in row:
        return 0.0
    if "trace_id" in row:
        return 0.97 if row.get("type") in _KINDS and any(key in row for key in _ONLY_OF_SPANS) else 0.0
    of_opik = {"id", "start_time"} <= row.keys() and any(key in row for key in _PROJECTS)
    return 0.95 if of_opik and ("input" in row or "output" in row) else 0.0


def _is_project(row: Json) -> bool:
    """Return whether it is what `opik export` writes into `project.json`."""
    return (
        isinstance(row, dict) and row.keys() == _PROJECT_KEYS and _UUID.fullmatch(str(row["id"])) is not None
    )


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Read one trace for each trace id in the files."""
    return grouped(NAME, files, _keep, _trace, unpack=_rows, numbered=False)


def _rows(record: Json) -> Iterator[Json]:
    """Yield the rows in a record: of an exported trace, of a page of the API, or the record itself."""
    if not isinstance(record, dict) or "start_time" in record:
        yield record
        return
    trace, spans, listed = record.get("trace"), record.get("spans"), record.get("content")
    if isinstance(trace, dict) and isinstance(spans, list):
        yield trace
        yield from spans
    elif isinstance(listed, list):
        yield from listed
    else:
        yield record


def _keep(spool: Spool, number: int, _file: InputFile, record: Record) -> Iterator[Imported]:
    row = fields.object_of(record.value, "a trace or span")
    if _is_project(row):
        yield Skipped(PROJECT)
        return
    row_id, trace_id = fields.text(row, "id"), fields.text(row, "trace_id")
    if row_id is None or "start_time" not in row:
        raise RecordError("no trace or span of Opik: looked for id and start_time")
    is_span = trace_id is not None
    if not is_span and any(row.get(key) is not None for key in _ONLY_OF_SPANS):
        raise RecordError("the span has no trace_id")
    state = fields.text(row, "last_updated_at") or fields.text(row, "end_time") or ""
    sort = _SPAN if is_span else _TRACE
    spool.add(trace_id or row_id, sort, row_id, row, updated=state, file=number, line=record.line)


def _trace(group: Group, _value: Json, file: InputFile) -> Iterator[Imported]:
    trace = next(iter(group.objects(_TRACE)), None)
    rows = group.objects(_SPAN)
    rows.sort(key=lambda row: (_started(row), str(row["id"])))
    sources = {fields.text(row, "source") for row in ([trace] if trace else rows)}
    if not file.all_environments and (sources & set(_OFFLINE) or (trace and trace.get("experiment"))):
        yield Skipped(EXPERIMENT)
        return
    spans = [_span(row, group.key if trace else None) for row in rows]
    if trace is not None:
        _check_complete(trace, len(rows))
        spans.insert(0, _root(trace))
    yield from missing_spans(spans)
    yield from with_notes(of_spans(group.key, NAME, spans, _about(trace or {}, rows)), spans)


def _check_complete(trace: JsonObject, present: int) -> None:
    """Refuse a trace whose spans are missing: its tool calls would be."""
    counted = fields.count(trace, "span_count")
    if present < counted or (not present and trace.get("span_count") is None):
        description = f"{present} of its {counted} spans are" if counted else "none of its spans is"
        raise RecordError(f"{description} in these files: import the trace together with all of its spans")


def _root(trace: JsonObject) -> Span:
    """Return the trace as the span of the agent."""
    return Span(
        id=str(trace["id"]),
        parent=None,
        kind=StepKind.AGENT,
        name=fields.text(trace, "name") or _TRACE,
        started_at=_started(trace),
        ended_at=fields.time(trace, "end_time"),
        input=argument(trace.get("input")),
        output=trace.get("output"),
        usage=_usage(trace),
        cost=fields.number(trace, "total_estimated_cost"),
        error=_error(trace),
    )


def _span(row: JsonObject, root: str | None) -> Span:
    sort = fields.text(row, "type") or "general"
    if sort not in _KINDS:
        raise RecordError(f"type must be one of {', '.join(_KINDS)}, not {sort[:40]!r}")
    kind, name = _KINDS[sort], fields.text(row, "name")
    if kind is StepKind.TOOL and name is None:
        raise RecordError("a tool span has no name")
    return Span(
        id=str(row["id"]),
        parent=fields.text(row, "parent_span_id") or root,
        kind=kind,
        name=name or sort,
        started_at=_started(row),
        ended_at=fields.time(row, "end_time"),
        input=argument(row.get("input")) if kind is StepKind.UNCLASSIFIED else row.get("input"),
        output=_result(row.get("output")) if kind is StepKind.TOOL else row.get("output"),
        model=fields.text(row, "model") if kind is StepKind.LLM else None,
        usage=_usage(row) if kind is StepKind.LLM else None,
        cost=fields.number(row, "total_estimated_cost"),
        error=_error(row),
        evaluator=row.get("source") == "evaluator",
    )


def _result(output: Json) -> Json:
    """Return the result of a tool, out of the object that the SDK puts around what is none."""
    return output["output"] if isinstance(output, dict) and output.keys() == {"output"} else output


def _started(row: JsonObject) -> datetime:
    return fields.start_time(row, "start_time", "start_time is empty")


def _usage(row: JsonObject) -> Usage | None:
    """Return tokens; `prompt_tokens` counts what came from a cache, for every provider."""
    return fields.tokens(
        fields.mapping(row, "usage"), ("prompt_tokens",), ("completion_tokens",), _CACHED, _CACHE_WRITTEN
    )


def _error(row: JsonObject) -> str | None:
    error = fields.mapping(row, "error_info")
    if not error:
        return None
    return fields.text(error, "message") or fields.text(error, "exception_type") or "failed"


def _about(trace: JsonObject, rows: Sequence[JsonObject]) -> About:
    metadata = dict(fields.mapping(trace, "metadata"))
    user, release = (fields.popped(metadata, key) for key in ("user_id", "release"))
    offered = [row.get(key) for row in rows if row.get("type") == "llm" for key in ("metadata", "input")]
    definitions.put(metadata, *(offer.get("tools") for offer in objects_in(offered)))
    comments = [comment.get("text") for comment in objects_in(fields.sequence(trace, "comments"))]
    if comments:
        metadata["comments"] = comments
    return About(
        name=fields.text(trace, "name"),
        session_id=fields.text(trace, "thread_id"),
        user_id=user,
        environment=fields.text(trace, "environment"),
        release=release,
        tags=fields.tags(trace),
        scores=_scores((*rows, trace)),
        metadata=metadata,
    )


def _scores(rows: Sequence[JsonObject]) -> dict[str, Score]:
    """Return feedback by name; the trace's own comes last and counts."""
    scores: dict[str, Score] = {}
    for row in rows:
        for feedback in objects_in(fields.sequence(row, "feedback_scores")):
            if isinstance(name := feedback.get("name"), str):
                value = fields.number(feedback, "value")
                label = fields.text(feedback, "category_name")
                if value is not None and math.isfinite(value):
                    scores[name] = value
                elif label:
                    scores[name] = label
    return scores
