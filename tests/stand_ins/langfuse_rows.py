"""Made-up traces of a coffee bar, as rows of Langfuse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

Row = dict[str, Any]


def moment(time: datetime) -> str:
    """A naive UTC time as Langfuse writes it."""
    return f"{time.isoformat(timespec='milliseconds')}Z"


def observations(
    key: str,
    at: datetime,
    *,
    environment: str = "default",
    user: str = "u1",
    tags: Sequence[str] = (),
    release: str = "1.0",
    name: str = "barista",
    length: timedelta = timedelta(seconds=8),
    metadata: Row | None = None,
) -> list[Row]:
    """An agent that looks an order up and answers: four observations, spread over `length`."""
    question, answer = f"Where is my coffee {key}?", f"Coffee {key} is being brewed."
    asked = {"role": "user", "content": question}
    function = {"name": "find_order", "arguments": json.dumps({"order": key})}
    call = {"id": f"call-{key}", "type": "function", "function": function}
    request = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = json.dumps({"order": key, "state": "brewing"})
    said = {"role": "tool", "tool_call_id": f"call-{key}", "content": result}
    parts: list[Row] = [
        {"type": "AGENT", "name": name, "input": question, "output": answer, "parentObservationId": None},
        {
            "type": "GENERATION",
            "name": "think",
            "input": json.dumps([asked]),
            "output": json.dumps(request),
            "providedModelName": "gpt-test",
            "usageDetails": {"input": 10, "output": 5, "total": 15},
        },
        {
            "type": "TOOL",
            "name": "find_order",
            "input": json.dumps({"order": key}),
            "output": result,
            "metadata": {"tool_call_id": f"call-{key}"},
        },
        {
            "type": "GENERATION",
            "name": "answer",
            "input": json.dumps([asked, request, said]),
            "output": answer,
            "providedModelName": "gpt-test",
            "usageDetails": {"input": 20, "output": 6, "total": 26},
        },
    ]
    shared: Row = {
        "traceId": key,
        "projectId": "cafe",
        "parentObservationId": f"{key}-0",
        "level": "DEFAULT",
        "environment": environment,
        "userId": user,
        "sessionId": None,
        "updatedAt": moment(at + length),
        "metadata": {},
        "traceName": name,
        "release": release,
        "tags": list(tags),
    }
    step = length / 4
    rows = [
        {
            **shared,
            "id": f"{key}-{number}",
            "startTime": moment(at + step * number),
            "endTime": moment(at + step * (number + 0.5)),
            "isRootObservation": number == 0,
            **part,
        }
        for number, part in enumerate(parts)
    ]
    rows[0] |= {"endTime": moment(at + length), "metadata": metadata or {}}
    return rows


def score(
    key: str,
    name: str,
    value: float | bool | str,
    at: datetime,
    *,
    kind: str = "NUMERIC",
    observation: str | None = None,
) -> Row:
    """A score of a trace, or of one of its observations."""
    of_trace = {"kind": "trace", "id": key}
    of_observation = {"kind": "observation", "id": observation, "traceId": key}
    return {
        "id": f"{key}-{name}-{moment(at)}",
        "name": name,
        "value": value,
        "dataType": kind,
        "source": "API",
        "timestamp": moment(at),
        "updatedAt": moment(at),
        "subject": of_observation if observation else of_trace,
    }


def older_observation(row: Row) -> Row:
    """As the older endpoints give it: contents parsed, nothing of its trace."""
    of_trace = ("traceName", "release", "tags", "userId", "sessionId", "isRootObservation")
    found = {key: value for key, value in row.items() if key not in (*of_trace, "providedModelName")}
    for key in ("input", "output"):
        try:
            found[key] = json.loads(row[key])
        except (TypeError, ValueError):
            found[key] = row[key]
    return {**found, "model": row.get("providedModelName")}


def trace_of(row: Row) -> str:
    """The trace that a score belongs to."""
    subject = row["subject"]
    return str(subject.get("traceId") or subject["id"])


def older_score(row: Row) -> Row:
    """As the older endpoints give it."""
    subject, value = row["subject"], row["value"]
    found = {key: kept for key, kept in row.items() if key != "subject"}
    if isinstance(value, str):
        found |= {"value": 0, "stringValue": value}
    elif isinstance(value, bool):
        found |= {"value": int(value), "stringValue": str(value)}
    observation = subject["id"] if subject["kind"] == "observation" else None
    return {**found, "traceId": trace_of(row), "observationId": observation}
