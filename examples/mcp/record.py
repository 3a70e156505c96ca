"""Write traces.jsonl with the first version. In production your tracing does this.

cd v1; PYTHONPATH=. ../.venv/bin/python ../record.py > ../traces.jsonl
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from agent import run_agent
from mcp import ClientSession

QUESTIONS = ["How many tickets are open for {}?", "Please count the open tickets of {}"]
TEAMS = ["billing", "search", "login", "export", "mobile", "api"]
calls: list[dict[str, Any]] = []
call_tool = ClientSession.call_tool


async def traced(session: ClientSession, name: str, args: dict[str, Any]) -> Any:
    """Call a tool, and note the call with its result."""
    result = await call_tool(session, name, args)
    calls.append({"name": name, "args": args, "result": result.structured_content})
    return result


ClientSession.call_tool = traced  # type: ignore[method-assign]
for number in range(12):
    text = QUESTIONS[number // 6].format(TEAMS[number % 6])
    calls.clear()
    answer = asyncio.run(run_agent(text))
    started = datetime(2026, 10, 1, 8, tzinfo=UTC) + timedelta(hours=60 * number)
    trace = {
        "trace_id": f"tickets-{number:02}",
        "started_at": started.isoformat(),
        "input": text,
        "final_response": answer,
        "tool_calls": calls,
    }
    print(json.dumps(trace))
