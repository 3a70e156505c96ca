"""Write traces.jsonl with the large model. In production your tracing does this.

.venv/bin/python record.py > traces.jsonl
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from agent import converse
from langchain_core.messages import ToolMessage

QUESTIONS = [
    *["When was order {} delivered?"] * 2,
    *["Please refund order {}."] * 2,
    "I want a refund for order {} now!",
    "Refund {} now, I leave for the airport in an hour.",
    "What can you do?",
    "Refund {} now, please.",
]


def answer(message: ToolMessage) -> object:
    """What the tool returned; LangGraph gives the model an object as JSON."""
    return message.content if message.name == "refund" else json.loads(message.content)


for number in range(24):
    text = QUESTIONS[number % 8].format(7000 + number * 37)
    started = datetime(2026, 10, 1, 9, tzinfo=UTC) + timedelta(hours=30 * number)
    messages = converse(text)
    results = {message.tool_call_id: message for message in messages if message.type == "tool"}
    calls = [
        {"name": call["name"], "args": call["args"], "id": call["id"], "result": answer(results[call["id"]])}
        for message in messages
        if message.type == "ai"
        for call in message.tool_calls
    ]
    trace = {
        "trace_id": f"refunds-{number:02}",
        "started_at": started.isoformat(),
        "model": "large",
        "input": text,
        "final_response": messages[-1].content,
        "tool_calls": calls,
        "scores": {"thumbs_up": 1},
    }
    print(json.dumps(trace))
