"""A trace as the store takes it: texts that DuckDB turns into columns by itself.

Binding each of some thirty columns as a Python list takes longer than all the rest of a write. So the short
columns of a trace are one JSON object, and those of its tool calls one array, which DuckDB takes apart; what
is JSON in the store already stays apart, since it would be written as JSON twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from replaydiff.replay.model import Trace, TraceState
from replaydiff.replay.store import bulk
from replaydiff.replay.store.text import clean_text, encode

COLUMNS = {
    "started_at": "TIMESTAMP",
    "ended_at": "TIMESTAMP",
    "incomplete": "BOOLEAN",
    "state": "VARCHAR",
    "name": "VARCHAR",
    "session_id": "VARCHAR",
    "user_id": "VARCHAR",
    "environment": "VARCHAR",
    "release": "VARCHAR",
    "model": "VARCHAR",
    "tags": "VARCHAR[]",
    "tool_path": "VARCHAR",
    "input": "VARCHAR",
    "final_response": "VARCHAR",
    "input_tokens": "BIGINT",
    "output_tokens": "BIGINT",
    "cost_usd": "DOUBLE",
    "latency_ms": "DOUBLE",
    "error": "VARCHAR",
    "usage": "VARCHAR",
    "scores": "VARCHAR",
}
"""What `TraceRow.columns` holds: name → SQL type."""
FACTS = tuple(name for name in COLUMNS if name not in ("incomplete", "usage"))
"""Those that are shown: `state` says the same as `incomplete`, and the tokens stand beside `usage`."""
CALL_COLUMNS = {
    "index": "INTEGER",
    "name": "VARCHAR",
    "args": "VARCHAR",
    "call_id": "VARCHAR",
    "result": "VARCHAR",
    "error": "VARCHAR",
    "answered": "BOOLEAN",
    "started_at": "TIMESTAMP",
    "duration_ms": "DOUBLE",
}
"""What each object of `TraceRow.calls` holds: name → SQL type."""


class TraceRow(NamedTuple):
    """One trace, clean and encoded."""

    source: str
    source_id: str
    digest: str
    """Hash of the columns, the four texts below them, and nothing else."""
    columns: str
    """One JSON object; what is null is left out."""
    metadata: str
    messages: str
    steps: str
    calls: str
    """JSON array of the tool calls; empty where there is none."""
    call_count: int
    state: TraceState
    updated_at: datetime | None
    characters: int
    """How much text it is."""


class _Columns(msgspec.Struct, omit_defaults=True):
    started_at: datetime
    ended_at: datetime | None
    incomplete: bool
    state: TraceState
    tags: tuple[str, ...]
    tool_path: str
    input: str
    scores: str
    name: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    environment: str | None = None
    release: str | None = None
    model: str | None = None
    final_response: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    error: str | None = None
    usage: str | None = None


class _Call(msgspec.Struct, omit_defaults=True):
    index: int
    name: str
    args: str
    answered: bool
    call_id: str | None = None
    result: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    duration_ms: float | None = None


def encode_trace(trace: Trace) -> TraceRow:
    """The row of a trace."""
    usage = trace.usage
    state = trace.state
    columns = encode(
        _Columns(
            started_at=trace.started_at,
            ended_at=trace.ended_at,
            incomplete=trace.incomplete,
            state=state,
            tags=trace.tags,
            tool_path=trace.tool_path,
            input=trace.input,
            scores=encode(trace.scores) if trace.scores else "{}",
            name=trace.name,
            session_id=trace.session_id,
            user_id=trace.user_id,
            environment=trace.environment,
            release=trace.release,
            model=trace.model,
            final_response=trace.final_response,
            input_tokens=bulk.whole(usage.input_tokens) if usage else None,
            output_tokens=bulk.whole(usage.output_tokens) if usage else None,
            cost_usd=bulk.real(trace.cost_usd),
            latency_ms=bulk.real(trace.latency_ms),
            error=trace.error,
            usage=encode(usage) if usage else None,
        )
    )
    metadata = encode(trace.metadata) if trace.metadata else "{}"
    messages = encode(trace.messages) if trace.messages else "[]"
    steps = encode(trace.steps) if trace.steps else "[]"
    calls = encode(_calls(trace)) if trace.tool_calls else ""
    texts = (columns, metadata, messages, steps, calls)
    return TraceRow(
        source=clean_text(trace.source),
        source_id=clean_text(trace.trace_id),
        digest=_digest(texts),
        columns=columns,
        metadata=metadata,
        messages=messages,
        steps=steps,
        calls=calls,
        call_count=len(trace.tool_calls),
        state=state,
        updated_at=trace.updated_at,
        characters=sum(map(len, texts)),
    )


def _calls(trace: Trace) -> list[_Call]:
    return [
        _Call(
            index=index,
            name=call.name,
            args=encode(call.args),
            answered=call.answered,
            call_id=call.call_id,
            result=None if call.result is None else encode(call.result),
            error=call.error,
            started_at=call.started_at,
            duration_ms=bulk.real(call.duration_ms),
        )
        for index, call in enumerate(trace.tool_calls)
    ]


def _digest(texts: Sequence[str]) -> str:
    # No JSON text holds a NUL.
    return f"blake2b:{hashlib.blake2b(chr(0).join(texts).encode(), digest_size=16).hexdigest()}"
