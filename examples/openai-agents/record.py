"""Write traces.jsonl with the first version. In production your tracing does this.

PYTHONPATH=v1 .venv/bin/python record.py > traces.jsonl
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

from agent import run_agent
from agents import RunResult

QUESTIONS = [
    "Where is parcel {}?",
    "Is invoice {} paid?",
    "Please send me a copy of invoice {}.",
    "My parcel {} has not arrived.",
    "Hello, can you help me?",
    "I need a copy of invoice {} for my tax office.",
]


def tool_calls(result: RunResult) -> list[dict[str, object]]:
    """The calls of function tools with their results; handoffs are not tool calls."""
    outputs = {
        item.raw_item["call_id"]: item.output
        for item in result.new_items
        if item.type == "tool_call_output_item"
    }
    return [
        {
            "id": item.raw_item.call_id,
            "name": item.raw_item.name,
            "args": json.loads(item.raw_item.arguments),
            "result": outputs[item.raw_item.call_id],
        }
        for item in result.new_items
        if item.type == "tool_call_item"
    ]


for number in range(48):
    text = QUESTIONS[number % 6].format(4000 + number * 31)
    result = asyncio.run(run_agent(text))
    started = datetime(2026, 10, 1, 8, tzinfo=UTC) + timedelta(hours=15 * number)
    trace = {
        "trace_id": f"desk-{number:02}",
        "started_at": started.isoformat(),
        "input": text,
        "final_response": result.final_output,
        "tool_calls": tool_calls(result),
    }
    print(json.dumps(trace))
