"""Small records for the store's tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from replaydiff.replay.model import (
    Item,
    Lane,
    RunRecord,
    Step,
    StepKind,
    ToolCall,
    Trace,
    Usage,
    Version,
    VersionKind,
)
from replaydiff.replay.model.trace import Message

WHEN = datetime(2026, 10, 3, 14, 22, 5, 123456)


def trace(trace_id: str, **fields: Any) -> Trace:
    """A trace with only what is needed, and the fields given."""
    return Trace(**{"trace_id": trace_id, "source": "jsonl", "started_at": WHEN, "input": "hello", **fields})


def calls(*names: str) -> tuple[ToolCall, ...]:
    """Answered calls of these tools."""
    return tuple(
        ToolCall(name=name, index=index, args={"n": index}, call_id=f"c{index}", result={"ok": True})
        for index, name in enumerate(names)
    )


def rich_trace(trace_id: str) -> Trace:
    """A trace with every field set."""
    made = (*calls("get_order", "cancel_order"), ToolCall(name="lost", index=2, answered=False, error="cut"))
    messages = (
        Message(role="user", text="cancel it"),
        Message(role="assistant", tool_calls=made),
        Message(role="tool", text='{"ok": true}', tool_call_id="c0", name="get_order", is_error=True),
    )
    step = Step(
        index=0,
        kind=StepKind.LLM,
        name="generation",
        messages=messages,
        output={"text": ["done", 1, None]},
        model="m",
        usage=Usage(input_tokens=3),
        started_at=WHEN,
        ended_at=WHEN,
        source_span_id="s",
    )
    return trace(
        trace_id,
        ended_at=datetime(2026, 10, 3, 14, 23),
        updated_at=datetime(2026, 10, 3, 15),
        name="agent",
        session_id="s1",
        user_id="u1",
        environment="production",
        release="2.1",
        model="m",
        tags=("vip", "eu"),
        messages=messages,
        final_response="done",
        steps=(step,),
        tool_calls=made,
        usage=Usage(input_tokens=10, output_tokens=2, cache_read_tokens=4),
        cost_usd=0.25,
        latency_ms=1500.5,
        error="late",
        scores={"reward": 1.0, "ok": True, "label": "good"},
        metadata={"plan": "gold", "nested": {"z": 1, "a": [1, 2.5, None, "x"]}},
    )


def run(run_id: str, **fields: Any) -> RunRecord:
    """A run of one Python version against another."""
    lanes = {
        Lane.OLD: Version(
            name="prod", kind=VersionKind.PYTHON, env={"TOKEN": "secret"}, env_names=("TOKEN",)
        ),
        Lane.NEW: Version(name="next", kind=VersionKind.PYTHON, args={"model": "m"}),
    }
    return RunRecord(**{"id": run_id, "created_at": WHEN, "lanes": lanes, "trials": 1, "seed": 3, **fields})


def items(count: int) -> list[Item]:
    """Items whose ids do not sort in the order of the run."""
    return [
        Item(id=f"item-{(n * 37) % count:05d}", input=f"question {n}", tape=calls("search"))
        for n in range(count)
    ]
