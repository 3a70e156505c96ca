"""Calls of W&B Weave: rows of its API and exports of its UI, as JSON, JSONL, CSV or Parquet.

A call is a span, and an op has no kind of its own unless its author gave it one: a call with token usage and
none below it is a model call, and an op that a model call requested by its name is a tool. Evaluations are no
production traffic. Feedback, as far as it was exported with the calls, is scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.convert import Group, Spool, grouped
from replaydiff.importers.reading import Record
from replaydiff.importers.spans.contents import nested
from replaydiff.importers.spans.interpret import argument, with_notes
from replaydiff.importers.spans.trace import About, Span, of_spans
from replaydiff.replay.messages import decode, definitions
from replaydiff.replay.model import (
    Json,
    JsonObject,
    Score,
    StepKind,
    Usage,
    as_object,
    objects_in,
    total_usage,
)

NAME = "weave"
RECOGNISED_BY = "records have op_name and trace_id"

_CALL = "call"
_KEYS = {"op_name", "trace_id", "started_at"}
_REFERENCE = "weave:///"
_OBJECTS = ("inputs", "output", "attributes", "summary")
"""Fields that are JSON text, or spread over columns, in a table export."""
_KINDS = {"llm": StepKind.LLM, "tool": StepKind.TOOL, "agent": StepKind.AGENT}
_EVALUATIONS = ("Evaluation.", "EvaluationLogger")
EVALUATION = "evaluations of Weave"
REFERENCES = (
    "values that Weave stored apart (weave:///…) were not in the export: get them with expand_columns"
)


def recognises(record: Json) -> float:
    """Recognise a record by the fields that every call has."""
    return 0.97 if isinstance(record, dict) and record.keys() >= _KEYS else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Read one trace for each trace id in the files."""
    return grouped(NAME, files, _keep, _trace, numbered=False)


def _keep(spool: Spool, number: int, _file: InputFile, record: Record) -> Iterator[Imported]:
    row = fields.object_of(record.value, "a call")
    call_id, trace_id = fields.text(row, "id"), fields.text(row, "trace_id")
    if call_id is None or trace_id is None or fields.text(row, "op_name") is None:
        raise RecordError("no call of Weave: looked for id, op_name and trace_id")
    if row.get("deleted_at"):
        yield Skipped("calls that were deleted")
        return
    plain = {**row, **{key: decode(row[key] if key in row else nested(row, key)) for key in _OBJECTS}}
    ended = fields.text(row, "ended_at") or ""
    spool.add(trace_id, _CALL, call_id, plain, updated=ended, file=number, line=record.line)


def _trace(group: Group, _value: Json, file: InputFile) -> Iterator[Imported]:
    rows = group.objects(_CALL)
    rows.sort(key=_started)
    call_ids = {row["id"] for row in rows}
    root = next((row for row in rows if row.get("parent_id") not in call_ids), rows[0])
    if (root.get("is_eval") is True or _op(root).startswith(_EVALUATIONS)) and not file.all_environments:
        yield Skipped(EVALUATION)
        return
    if any(_is_reference(value) for row in rows for value in (row.get("output"), *_inputs(row).values())):
        yield Note(REFERENCES)
    counted = {row.get("parent_id") for row in rows if _usage(row) is not None}
    spans = [_span(row, is_root=row is root, is_leaf=row["id"] not in counted) for row in rows]
    yield from with_notes(of_spans(group.key, NAME, spans, _about(root, rows)), spans)


def _started(row: JsonObject) -> datetime:
    return fields.start_time(row, "started_at", "the call has no started_at")


def _op(row: JsonObject) -> str:
    """Return the name of the op, out of its address: `weave:///entity/project/op/NAME:digest`."""
    name = str(row.get("op_name") or "")
    return name.rpartition("/")[2].partition(":")[0] if name.startswith(_REFERENCE) else name


def _inputs(row: JsonObject) -> JsonObject:
    """Return what an op was given, without the object whose method it is."""
    return {key: value for key, value in as_object(row.get("inputs")).items() if key != "self"}


def _is_reference(value: Json) -> bool:
    return isinstance(value, str) and value.startswith(_REFERENCE)


def _usage(row: JsonObject) -> Usage | None:
    """Return tokens of a call and all below it, by model."""
    return total_usage(map(fields.usage, as_object(as_object(row.get("summary")).get("usage")).values()))


def _span(row: JsonObject, *, is_root: bool, is_leaf: bool) -> Span:
    usage = _usage(row)
    kind_name = as_object(as_object(row.get("attributes")).get("weave")).get("kind")
    kind = _KINDS.get(str(kind_name)) or (
        StepKind.LLM if usage is not None and is_leaf else StepKind.UNCLASSIFIED
    )
    if kind is StepKind.UNCLASSIFIED and is_root:
        kind = StepKind.AGENT
    models = list(as_object(as_object(row.get("summary")).get("usage")))
    inputs = _inputs(row)
    return Span(
        id=str(row["id"]),
        parent=fields.text(row, "parent_id"),
        kind=kind,
        name=_op(row),
        started_at=_started(row),
        ended_at=fields.time(row, "ended_at"),
        input=argument(inputs) if kind is StepKind.AGENT else inputs,
        output=row.get("output"),
        model=(models[-1] if models else None) if kind is StepKind.LLM else None,
        usage=usage,
        cost=_cost(row),
        error=_error(row),
    )


def _error(row: JsonObject) -> str | None:
    """Return the exception: an object as JSON text, or (older clients) a traceback."""
    error = decode(row.get("exception"))
    if isinstance(error, dict):
        return ": ".join(str(error[key]) for key in ("type", "message") if error.get(key)) or "failed"
    lines = str(error or "").strip().splitlines()
    return lines[-1] if lines else None


def _cost(row: JsonObject) -> float | None:
    """Return US dollars by model, where the export has costs."""
    costs = as_object(as_object(as_object(row.get("summary")).get("weave")).get("costs")).values()
    parts = [
        cost
        for model_cost in objects_in([*costs])
        for key in ("prompt_tokens_total_cost", "completion_tokens_total_cost")
        if (cost := fields.number(model_cost, key)) is not None and math.isfinite(cost)
    ]
    return sum(parts) if parts else None


def _about(root: JsonObject, rows: Sequence[JsonObject]) -> About:
    metadata = {key: value for key, value in as_object(root.get("attributes")).items() if key != "weave"}
    user, environment, release = (
        fields.popped(metadata, key) for key in ("user_id", "environment", "release")
    )
    definitions.put(metadata, *(_inputs(row).get("tools") for row in rows))
    scores: dict[str, Score] = {}
    notes: list[Json] = []
    for row in (*rows, root):
        for feedback in objects_in(as_object(as_object(row.get("summary")).get("weave")).get("feedback")):
            _take_feedback(feedback, scores, notes)
    if notes:
        metadata["notes"] = notes
    return About(
        name=fields.text(root, "display_name") or _op(root),
        session_id=fields.text(root, "thread_id"),
        user_id=user,
        environment=environment,
        release=release,
        scores=scores,
        metadata=metadata,
    )


def _take_feedback(feedback: JsonObject, scores: dict[str, Score], notes: list[Json]) -> None:
    """Put a reaction, an annotation or a scorer's result among the scores, and a note among the notes."""
    kind, payload = str(feedback.get("feedback_type") or ""), as_object(feedback.get("payload"))
    name = kind.rpartition(".")[2]
    if kind.startswith("wandb.note"):
        if payload.get("note") not in (None, *notes):
            notes.append(payload["note"])
        return
    value: Json = payload.get("output", payload.get("value"))
    if kind.startswith("wandb.reaction"):
        name, value = "reaction", payload.get("alias") or payload.get("emoji")
    named = (
        {f"{name}.{key}": score for key, score in value.items()} if isinstance(value, dict) else {name: value}
    )
    scores |= {key: score for key, value in named.items() if (score := fields.score(value)) is not None}
