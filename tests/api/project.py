"""An agent's repository with two versions and recorded traces, for tests of the Python API."""

from __future__ import annotations

import json
from pathlib import Path

AGENT = """
def look_up(order_id):
    raise RuntimeError("the real tool")


def run_agent(text):
    order = text.split()[-1]
    {lines}
    return f"order {{order}}: {{status}}"
"""
V1 = AGENT.format(lines="status = look_up(order_id=order)")
V2 = AGENT.format(lines='status = look_up(order_id=order) if order != "3" else "lost"')
SETTINGS = """
[agent]
entrypoint = "agent:run_agent"
tools = ["agent:look_up"]

[versions.v1]
path = "v1"

[versions.v2]
path = "v2"
"""


def make(folder: Path, traces: int = 30) -> None:
    """Write replay.toml, both versions and a file of October's traces."""
    for name, code in (("v1", V1), ("v2", V2)):
        (folder / name).mkdir(parents=True)
        (folder / name / "agent.py").write_text(code)
    (folder / "replay.toml").write_text(SETTINGS)
    (folder / "traces.jsonl").write_text("".join(f"{json.dumps(_trace(n))}\n" for n in range(traces)))


def _trace(number: int) -> dict[str, object]:
    return {
        "trace_id": f"t{number}",
        "started_at": f"2026-10-{1 + number % 28:02}T10:00:00Z",
        "release": "v1",
        "input": f"where is order {number}",
        "tool_calls": [{"name": "look_up", "args": {"order_id": str(number)}, "result": "shipped"}],
        "final_response": f"order {number}: shipped",
    }
