"""Traces in this project's own format: one JSON object a line.

    {"trace_id": "t1", "started_at": "2026-11-01T10:00:00Z", "input": "Where is my order?",
     "tool_calls": [{"name": "get_order", "args": {"id": "7"}, "result": "shipped"}], "final_response": "…"}

Needed are `trace_id`, `started_at`, and `input` or `messages`. With `messages` the input is the last user
turn that was answered, and where `tool_calls` or `final_response` are not given they come from the messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Job, Note, RecordError
from replaydiff.importers.convert import converted, jobs
from replaydiff.replay.messages import conversation, read_args, read_messages, read_text
from replaydiff.replay.model import Json, Message, Step, StepKind, ToolCall, Trace

NAME = "jsonl"
SUMMARY = "traces in replaydiff's own format, one JSON object a line"
RECOGNISED_BY = "records have trace_id and started_at"

FIELDS = {field.name for field in dataclasses.fields(Trace)} | {"tool_path"}
"""Everything a record may have; `source` and `tool_path` come with our own exports."""


def recognises(record: Json) -> float:
    """By the two ids that only this format has at the top: `trace_id` and `started_at`."""
    if not isinstance(record, dict) or "parent_observation_id" in record:
        return 0.0
    present = {"trace_id", "started_at"} & record.keys()
    body = {"input", "messages"} & record.keys()
    return 0.95 if len(present) == 2 and body else 0.5 if present and body else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """One trace for each record."""
    return converted(NAME, files, read)


def read_jobs(files: Sequence[InputFile]) -> Iterator[Imported | Job]:
    """The same in blocks."""
    return jobs(NAME, files, read)


def read(record: Json, _file: InputFile) -> Iterator[Imported]:
    """The trace of one record, with a note for each field that the format does not know."""
    if not isinstance(record, dict):
        raise RecordError(f"a trace must be an object, not {fields.kind(record)}")
    for key in record.keys() - FIELDS:
        yield Note(f"the field {key[:60]!r} is not of the trace format and was left out")
    yield _trace(record)


def _trace(record: dict[str, Json]) -> Trace:
    trace_id = fields.text(record, "trace_id")
    started_at = fields.time(record, "started_at")
    if trace_id is None or started_at is None:
        raise RecordError(f"{'trace_id' if trace_id is None else 'started_at'} is missing")
    messages = _messages(record)
    if messages is None and record.get("input") is None:
        raise RecordError("input is missing (or messages)")
    # Our own exports are complete: what is null there was unknown, and who imported the trace first counts.
    ours = "tool_path" in record
    given_response = fields.text(record, "final_response")
    error = fields.text(record, "error")
    elsewhere = given_response is not None or error is not None or record.get("tool_calls") is not None
    run = conversation(messages or (), input_only=elsewhere)
    ended_at = fields.time(record, "ended_at")
    latency = fields.number(record, "latency_ms")
    return Trace(
        trace_id=trace_id,
        source=(fields.text(record, "source") if ours else None) or NAME,
        started_at=started_at,
        ended_at=ended_at,
        name=fields.text(record, "name"),
        session_id=fields.text(record, "session_id"),
        user_id=fields.text(record, "user_id"),
        environment=fields.text(record, "environment"),
        release=fields.text(record, "release"),
        model=fields.text(record, "model"),
        tags=fields.tags(record),
        incomplete=record.get("incomplete") is True,
        updated_at=fields.time(record, "updated_at"),
        input=_input(record["input"]) if record.get("input") is not None else run.input,
        messages=messages or (),
        final_response=given_response if ours or given_response is not None else run.final_response,
        steps=tuple(_step(step, index) for index, step in enumerate(fields.sequence(record, "steps"))),
        tool_calls=run.tool_calls if record.get("tool_calls") is None else tool_calls(record),
        usage=fields.usage(fields.mapping(record, "usage")),
        cost_usd=fields.number(record, "cost_usd"),
        latency_ms=latency if ours or latency is not None else fields.elapsed_ms(started_at, ended_at),
        error=error,
        scores=fields.scores(record),
        metadata=fields.mapping(record, "metadata"),
    )


def _messages(record: Mapping[str, Any]) -> tuple[Message, ...] | None:
    value = record.get("messages")
    if value in (None, []):
        return None
    found = read_messages(value)
    if found is None:
        raise RecordError("messages has no message: each needs a role and a content")
    return found


def _input(value: Json) -> str:
    if isinstance(value, str):
        return value
    found = read_messages(value)
    if found:
        return conversation(found, input_only=True).input
    return read_text(value) or msgspec.json.encode(value).decode()


def tool_calls(record: Mapping[str, Any], key: str = "tool_calls") -> tuple[ToolCall, ...]:
    """The calls of a `tool_calls` field: `{name, args, id, result, error, started_at, duration_ms}` each."""
    found = []
    for index, call in enumerate(fields.sequence(record, key)):
        if not isinstance(call, dict):
            raise RecordError(f"{key}[{index}] must be an object, not {fields.kind(call)}")
        name = fields.text(call, "name")
        if name is None:
            raise RecordError(f"{key}[{index}] has no name")
        error = fields.text(call, "error")
        found.append(
            ToolCall(
                index=index,
                name=name,
                args=read_args(call.get("args", call.get("arguments"))),
                call_id=fields.text(call, "call_id" if "call_id" in call else "id"),
                result=call.get("result"),
                error=error,
                answered=call.get("answered") is not False and ("result" in call or error is not None),
                started_at=fields.time(call, "started_at"),
                duration_ms=fields.number(call, "duration_ms"),
            )
        )
    return tuple(found)


def _step(step: Json, index: int) -> Step:
    if not isinstance(step, dict):
        raise RecordError(f"steps[{index}] must be an object, not {fields.kind(step)}")
    kind = fields.text(step, "kind")
    parent = step.get("parent")
    return Step(
        index=index,
        kind=StepKind(kind) if kind in set(StepKind) else StepKind.OTHER,
        name=fields.text(step, "name") or kind or "step",
        parent=parent if isinstance(parent, int) and not isinstance(parent, bool) else None,
        messages=read_messages(step.get("messages")) or (),
        output=step.get("output"),
        model=fields.text(step, "model"),
        usage=fields.usage(step.get("usage")),
        started_at=fields.time(step, "started_at"),
        ended_at=fields.time(step, "ended_at"),
        error=fields.text(step, "error"),
        source_span_id=fields.text(step, "source_span_id" if "source_span_id" in step else "id"),
    )
