"""One trace as a record of the published trace format, which `replay import jsonl` reads back.

Messages are written in OpenAI's shape, which every tool for chats knows. `tool_path` marks a record as our
own: what is null in it was unknown, and is not worked out anew from the messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from replaydiff.replay.model import Message, Step, ToolCall, Trace, Usage


def trace_record(trace: Trace) -> dict[str, Any]:
    """The record: plain JSON values."""
    record: dict[str, Any] = {
        "trace_id": trace.trace_id,
        "source": trace.source,
        "started_at": _time(trace.started_at),
        "ended_at": _time(trace.ended_at),
        "updated_at": _time(trace.updated_at),
        "incomplete": trace.incomplete,
        "name": trace.name,
        "session_id": trace.session_id,
        "user_id": trace.user_id,
        "environment": trace.environment,
        "release": trace.release,
        "model": trace.model,
        "tags": list(trace.tags),
        "tool_path": trace.tool_path,
        "input": trace.input,
        "final_response": trace.final_response,
        "tool_calls": [_call(call) for call in trace.tool_calls],
        "usage": _usage(trace.usage),
        "cost_usd": trace.cost_usd,
        "latency_ms": trace.latency_ms,
        "error": trace.error,
        "scores": trace.scores,
        "metadata": trace.metadata,
    }
    if trace.messages:
        record["messages"] = _messages(trace.messages)
    if trace.steps:
        record["steps"] = [_step(step) for step in trace.steps]
    return record


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat() + "Z"


def _usage(usage: Usage | None) -> dict[str, int] | None:
    return None if usage is None else msgspec.to_builtins(usage)


def _call(call: ToolCall) -> dict[str, Any]:
    record: dict[str, Any] = {"name": call.name, "args": call.args, "id": call.call_id}
    if call.answered or call.result is not None:
        record["result"] = call.result
    if not call.answered:
        record["answered"] = False
    record["error"] = call.error
    if call.started_at is not None:
        record["started_at"] = _time(call.started_at)
    if call.duration_ms is not None:
        record["duration_ms"] = call.duration_ms
    return record


def _messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [_message(message) for message in messages]


def _message(message: Message) -> dict[str, Any]:
    record: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        record["tool_calls"] = [_request(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        record["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        record["name"] = message.name
    if message.is_error:
        record["is_error"] = True
    return record


def _content(message: Message) -> Any:
    if message.data is not None:
        return message.data
    if message.text.startswith("[{"):
        # A list as bare text may be what another framework writes for a request: in a part it is text.
        return [{"type": "text", "text": message.text}]
    return message.text


def _request(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.args).decode()
    record: dict[str, Any] = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return record if call.call_id is None else {"id": call.call_id, **record}


def _step(step: Step) -> dict[str, Any]:
    record: dict[str, Any] = {
        "kind": step.kind.value,
        "name": step.name,
        "parent": step.parent,
        "output": step.output,
        "model": step.model,
        "usage": _usage(step.usage),
        "started_at": _time(step.started_at),
        "ended_at": _time(step.ended_at),
        "error": step.error,
        "id": step.source_span_id,
    }
    return {**record, "messages": _messages(step.messages)} if step.messages else record
