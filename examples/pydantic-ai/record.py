"""Write traces.jsonl with the first prompt. In production your tracing does this.

.venv/bin/python record.py > traces.jsonl
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

from agent import Reply, converse
from pydantic_ai import AgentRunResult

QUESTIONS = [
    "How do I descale my {}?",
    "How much water does the {} take?",
    "The coffee of my {} is too coarse.",
    "The tank of my {} is broken.",
    "Thank you, my {} works again!",
    "Which water is best for the {}?",
]
MACHINES = ["Uno", "Duo", "Trio", "Quattro", "Cinque", "Sei", "Sette", "Otto"]


def tool_calls(result: AgentRunResult[Reply]) -> list[dict[str, object]]:
    """The calls of tools with their results; the call that carries the answer is none of them."""
    parts = [part for message in result.all_messages() for part in message.parts]
    results = {part.tool_call_id: part.content for part in parts if part.part_kind == "tool-return"}
    return [
        {
            "id": part.tool_call_id,
            "name": part.tool_name,
            "args": part.args_as_dict(),
            "result": results[part.tool_call_id],
        }
        for part in parts
        if part.part_kind == "tool-call" and part.tool_name != "final_result"
    ]


for number in range(48):
    text = QUESTIONS[number % 6].format(MACHINES[number // 6])
    result = asyncio.run(converse(text, "prompts/first.md"))
    started = datetime(2026, 10, 1, 8, tzinfo=UTC) + timedelta(hours=15 * number)
    trace = {
        "trace_id": f"coffee-{number:02}",
        "started_at": started.isoformat(),
        "input": text,
        "final_response": result.output.text,
        "tool_calls": tool_calls(result),
    }
    print(json.dumps(trace))
