"""Makes trace JSONL of the agent's event logs: `python log_to_traces.py logs > traces.jsonl`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def trace(run_id: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    """One run as a line of trace JSONL."""
    first, last = events[0], events[-1]
    calls: list[dict[str, Any]] = []
    for event in events:
        if event["event_type"] == "tool_execution":
            calls.append({"name": event["data"]["name"], "args": event["data"]["args"]})
        elif event["event_type"] == "tool_result":
            calls[-1]["result"] = event["data"]["result"]
    return {
        "trace_id": run_id,
        "started_at": datetime.fromtimestamp(first["at"], UTC).isoformat(),
        "ended_at": datetime.fromtimestamp(last["at"], UTC).isoformat(),
        "model": first["data"]["model"],
        "input": first["data"]["messages"][-1]["content"],
        "final_response": str(last["data"]["result"]),
        "tool_calls": calls,
    }


if __name__ == "__main__":
    for file in sorted(Path(sys.argv[1]).glob("*.json")):
        print(json.dumps(trace(file.stem, json.loads(file.read_text()))))
