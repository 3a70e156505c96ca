"""Spans of Datadog LLM Observability: pages of its export API, and what SDKs and the HTTP intake are sent.

The export API flattens what is under `meta` in a span as it was sent; both are read as the former. Calls and
results are beside a message's content, as `tool_calls` and `tool_results`. Costs are not read: Datadog adds
them later, in units of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.convert import Group, Spool, grouped
from replaydiff.importers.reading import Record
from replaydiff.importers.spans.interpret import argument, missing_spans, with_notes
from replaydiff.importers.spans.trace import About, Span, of_spans
from replaydiff.replay.messages import decode, definitions
from replaydiff.replay.model import Json, JsonObject, Score, StepKind, Usage, as_object

NAME = "datadog"
RECOGNISED_BY = "records have span_id, start_ns and meta or span_kind"

_SPAN = "span"
_KINDS = {
    "llm": StepKind.LLM,
    "tool": StepKind.TOOL,
    "agent": StepKind.AGENT,
    "workflow": StepKind.UNCLASSIFIED,
    "task": StepKind.UNCLASSIFIED,
    "retrieval": StepKind.UNCLASSIFIED,
    "embedding": StepKind.UNCLASSIFIED,
    "experiment": StepKind.UNCLASSIFIED,
}
_NO_PARENT = ("undefined", "0")
_SHARED = ("ml_app", "session_id", "tags")
"""What the HTTP intake is sent once for several spans."""
_TOOL_CALL = {"name", "args", "id", "type"}
"""Keys of a call as LangChain gives it to a tool."""
_DROPPED = "[This value has been dropped because"
"""Beginning of what the SDK sends in place of an input or output that is too large."""
_OF_SDK = ("ddtrace.version", "language", "error", "error_type", "decorator", "source", "integration")
"""Tags that say nothing of the run."""
EXPERIMENT = "experiments of Datadog"
DROPPED = "inputs and outputs that Datadog's SDK dropped, because their span was too large, are not known"


def recognises(record: Json) -> float:
    """Recognise a record by the fields of a span: of a payload, of a page, or the record itself."""
    row = next(iter(_rows(record)), None)
    is_span = isinstance(row, dict) and {"span_id", "trace_id", "start_ns"} <= row.keys()
    return 0.97 if is_span and isinstance(row, dict) and ("meta" in row or "span_kind" in row) else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Read one trace for each trace id in the files."""
    return grouped(NAME, files, _keep, _trace, unpack=_rows, numbered=False)


def _rows(record: Json) -> Iterator[Json]:
    """Yield the spans in a record: a payload of the SDK or the intake, a page of the API, or a span."""
    if isinstance(record, list):
        for entry in record:
            yield from _rows(entry)
        return
    if not isinstance(record, dict) or "span_id" in record:
        yield record
        return
    data, spans, attributes = record.get("data"), record.get("spans"), record.get("attributes")
    if isinstance(data, list | dict):
        yield from _rows(data)
    elif isinstance(spans, list):
        scope = {"scope": record["_dd.scope"]} if "_dd.scope" in record else {}
        yield from ({**scope, **entry} if isinstance(entry, dict) else entry for entry in spans)
    elif isinstance(attributes, dict) and record.get("type") == _SPAN:
        listed = attributes.get("spans")
        shared = {key: attributes[key] for key in _SHARED if key in attributes}
        rows = listed if isinstance(listed, list) else [attributes]
        yield from ({**shared, **entry} if isinstance(entry, dict) else entry for entry in rows)
    else:
        yield record


def _keep(spool: Spool, number: int, _file: InputFile, record: Record) -> Iterator[Imported]:
    row = fields.object_of(record.value, "a span")
    trace_id, span_id = fields.text(row, "trace_id"), fields.text(row, "span_id")
    if trace_id is None or span_id is None or "start_ns" not in row:
        raise RecordError("no span of Datadog: looked for trace_id, span_id and start_ns")
    spool.add(trace_id, _SPAN, span_id, row, file=number, line=record.line)
    yield from ()


def _trace(group: Group, _value: Json, file: InputFile) -> Iterator[Imported]:
    rows = list(map(_flat, group.objects(_SPAN)))
    rows.sort(key=lambda row: fields.number(row, "start_ns") or 0.0)
    span_ids = {str(row["span_id"]) for row in rows}
    root = next((row for row in rows if _parent(row) not in span_ids), rows[0])
    tags = _tags(root)
    offline = root.get("scope") == "experiments" or _kind(root) == "experiment" or "experiment_id" in tags
    if offline and not file.all_environments:
        yield Skipped(EXPERIMENT)
        return
    if any(_is_dropped(fields.mapping(row, key)) for row in rows for key in ("input", "output")):
        yield Note(DROPPED)
    spans = [_span(row, is_root=row is root) for row in rows]
    yield from missing_spans(spans)
    yield from with_notes(of_spans(group.key, NAME, spans, _about(root, tags, rows)), spans)


def _flat(row: JsonObject) -> JsonObject:
    """Return a span as the export API writes it: with what is in `meta` beside the other fields."""
    meta = fields.mapping(row, "meta")
    nested = fields.mapping(meta, "span")
    kind = nested.get("kind") or meta.get("kind") or meta.get("span.kind")
    # Older SDKs write the error in fields of its own.
    error = {key: meta[f"error.{key}"] for key in ("message", "type") if f"error.{key}" in meta}
    return {"span_kind": kind, **({"error": error} if error else {}), **row, **meta}


def _kind(row: JsonObject) -> str:
    kind = fields.text(row, "span_kind")
    if kind not in _KINDS:
        raise RecordError(f"the kind of the span must be one of {', '.join(_KINDS)}, not {str(kind)[:40]!r}")
    return kind


def _parent(row: JsonObject) -> str | None:
    parent_id = fields.text(row, "parent_id")
    return None if parent_id in _NO_PARENT else parent_id


def _span(row: JsonObject, *, is_root: bool) -> Span:
    kind = _KINDS[_kind(row)]
    if kind is StepKind.UNCLASSIFIED and is_root:
        kind = StepKind.AGENT
    name = fields.text(row, "name")
    if kind is StepKind.TOOL and name is None:
        raise RecordError("a tool span has no name")
    received, call_id = _content(fields.mapping(row, "input")), None
    if kind is StepKind.TOOL:
        received, call_id = _arguments(received)
    is_agent = kind in (StepKind.AGENT, StepKind.UNCLASSIFIED)
    return Span(
        id=str(row["span_id"]),
        parent=_parent(row),
        kind=kind,
        name=name or _kind(row),
        started_at=fields.start_time(row, "start_ns", "start_ns is empty"),
        ended_at=_ended(row),
        input=argument(decode(received)) if is_agent else received,
        output=_content(fields.mapping(row, "output")),
        call_id=call_id,
        model=fields.text(row, "model_name") if kind is StepKind.LLM else None,
        usage=_usage(row),
        error=_error(row),
    )


def _arguments(received: Json) -> tuple[Json, str | None]:
    """Return the arguments of a tool, and the id of its call where LangChain gave it the whole call."""
    call = decode(received)
    if not isinstance(call, dict) or call.keys() != _TOOL_CALL or call["type"] != "tool_call":
        return received, None
    return call["args"], fields.text(call, "id")


def _ended(row: JsonObject) -> datetime | None:
    started, duration = fields.number(row, "start_ns"), fields.number(row, "duration")
    return None if started is None or duration is None else fields.parse_time(started + duration, "duration")


def _is_dropped(content: JsonObject) -> bool:
    return str(content.get("value")).startswith(_DROPPED)


def _content(content: JsonObject) -> Json:
    """Return what went in or came out: messages, or a value."""
    if not content or _is_dropped(content):
        return None
    messages = decode(content.get("messages"))
    if isinstance(messages, list):
        return [part for message in messages for part in _messages(message)]
    return content.get("value", content)


def _messages(message: Json) -> Iterator[Json]:
    """Yield a message with its calls' ids where chat messages have them, after the results that it brings."""
    if not isinstance(message, dict):
        yield message
        return
    if message.get("role") == "reasoning":
        return
    results, calls = message.get("tool_results"), message.get("tool_calls")
    if isinstance(results, list):
        message = {key: value for key, value in message.items() if key != "tool_results"}
        for result in results:
            yield _result(result)
    if isinstance(calls, list):
        message = {**message, "tool_calls": [_call(call) for call in calls]}
    # The SDK writes an empty message for a model call that failed, and where all of it is results.
    if message.get("content") or calls or not message.keys() <= {"role", "content", "id"}:
        yield message


def _call(call: Json) -> Json:
    return {**call, "id": call["tool_id"]} if isinstance(call, dict) and "tool_id" in call else call


def _result(result: Json) -> Json:
    if not isinstance(result, dict):
        return {"role": "tool", "content": result}
    name = fields.text(result, "name")
    named = {"name": name} if name else {}
    return {"role": "tool", "tool_call_id": result.get("tool_id"), "content": result.get("result"), **named}


def _usage(row: JsonObject) -> Usage | None:
    """Return tokens of a model call; the SDK counts what came from a cache among its input tokens."""
    return fields.tokens(
        fields.mapping(row, "metrics"),
        ("input_tokens", "prompt_tokens"),
        ("output_tokens", "completion_tokens"),
        ("cache_read_input_tokens",),
        ("cache_write_input_tokens",),
    )


def _error(row: JsonObject) -> str | None:
    # The HTTP intake takes `error: 1` beside the error of `meta`, which `_flat` has put in its place.
    error = row.get("error")
    details = as_object(error)
    message = fields.text(details, "message") or fields.text(details, "type")
    failed = row.get("status") == "error" or error in (1, True)
    if message is None and failed:
        return _tags(row).get("error_type") or "the span has status error"
    return message


def _tags(row: JsonObject) -> dict[str, str]:
    """Return tags that have a name and a value, by name."""
    pairs = (tag.partition(":") for tag in fields.tags(row))
    return {name: value for name, _, value in pairs if value}


def _about(root: JsonObject, tags: dict[str, str], rows: Sequence[JsonObject]) -> About:
    metadata = {key: value for key, value in fields.mapping(root, "metadata").items() if key != "_dd"}
    app = fields.text(root, "ml_app") or tags.pop("ml_app", None)
    if app:
        metadata["ml_app"] = app
    definitions.put(metadata, *map(_offered, rows))
    session, user, environment, release = (
        tags.pop(key, None) for key in ("session_id", "user_id", "env", "version")
    )
    sessions = (fields.text(row, "session_id") for row in (root, *rows))
    return About(
        session_id=next(filter(None, sessions), session),
        user_id=user,
        environment=environment,
        release=release,
        tags=tuple(f"{name}:{value}" for name, value in tags.items() if name not in _OF_SDK),
        scores=_scores((*rows, root)),
        metadata=metadata,
    )


def _offered(row: JsonObject) -> Json:
    """Return the tools that a model call was offered, with their schema where others have it."""
    return [
        {**tool, "parameters": tool.get("schema")} if isinstance(tool, dict) else tool
        for tool in fields.sequence(row, "tool_definitions")
    ]


def _scores(rows: Sequence[JsonObject]) -> dict[str, Score]:
    """Return evaluations by name; those of the root come last and count."""
    scores: dict[str, Score] = {}
    for row in rows:
        for name, evaluation in fields.mapping(row, "evaluation").items():
            value = as_object(evaluation).get("value")
            score = value if isinstance(value, str) else fields.score(value)
            if score is not None:
                scores[name] = score
    return scores
