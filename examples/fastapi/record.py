"""Write traces.jsonl with the first version on port 8101. In production your tracing does this.

python3 record.py > traces.jsonl
"""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime, timedelta

QUESTIONS = [
    "Where is order {}?",
    "Where are my orders {} and {}?",
    "Hello!",
    "I wait for {} and {}, when will they come?",
]

for number in range(24):
    text = QUESTIONS[number % 4].format(2000 + number * 7, 3000 + number * 11)
    request = urllib.request.Request(
        "http://127.0.0.1:8101/chat",
        json.dumps({"message": text}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    started = datetime(2026, 10, 1, 8, tzinfo=UTC) + timedelta(hours=30 * number)
    trace = {
        "trace_id": f"orders-{number:02}",
        "started_at": started.isoformat(),
        "input": text,
        "final_response": answer["reply"],
        "tool_calls": answer["tool_calls"],
    }
    print(json.dumps(trace))
