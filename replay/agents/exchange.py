"""What an agent that is no Python entrypoint is sent, and what it may answer. The same for HTTP and programs.

Request, one JSON object:

    {"replaydiff": 1, "trial": 12, "item": "trace-7", "index": 0,
     "input": "where is my order?", "messages": [{"role": "user", "content": "…"}],
     "args": {"model": "…"}, "tools_url": "http://127.0.0.1:40511/V8…" or null}

Answer, one JSON value: a string, or an object as a Python entrypoint returns one (`final_response` or another
of its names, `tool_calls`, `usage`, `cost_usd`); or `{"error": "text"}`, or `{"error": {"message", "status",
"retry_after_s"}}`, whose HTTP status tells a fault of the provider from one of the agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from replaydiff.replay.agents.reading import as_chat, as_text
from replaydiff.replay.messages import parse
from replaydiff.replay.model import Item, Json, JsonObject, Status, Version

if TYPE_CHECKING:
    from replaydiff.replay.worker import failures, replies
else:
    # Read by the same code as what a Python entrypoint returns; the worker's modules load each other by path.
    from replaydiff.replay.worker.main import failures, replies

read_call = replies.read_call
retry_after = failures.retry_after_of

PROTOCOL = 1
LARGEST = 64 * 1024 * 1024
"""Bytes of the longest answer; a longer one is the agent's error."""
TOO_LONG = f"the agent's answer is longer than {LARGEST >> 20} MB"
INFRA_STATUSES = frozenset({408, 425, 429, 502, 503, 504, 529})
"""HTTP statuses that are not the agent's doing. A bare 500 is: it is how a server says that it raised."""


def request(version: Version, item: Item, *, trial: int, index: int, tools_url: str | None) -> JsonObject:
    """What an agent is sent."""
    return {
        "replaydiff": PROTOCOL,
        "trial": trial,
        "item": item.id,
        "index": index,
        "input": as_text(item),
        "messages": as_chat(item),
        "args": version.args,
        "tools_url": tools_url,
    }


def encode(message: JsonObject) -> bytes:
    """One line of JSON."""
    return json.dumps(message).encode() + b"\n"


def decode(text: bytes) -> Json:
    """A JSON value of an agent.

    Raises:
        ValueError: it is none, or is nested too deeply.
    """
    decoded: Json = parse(text)
    return decoded


def answered(value: Json, ms: float) -> JsonObject:
    """The message (as a worker sends it) of an answer."""
    if isinstance(value, dict) and value.get("error") is not None and not _has_text(value):
        return failed_as(value["error"], ms)
    try:
        return {"ms": ms, "answer": replies.read_answer(value)}
    except failures.Nonsense as nonsense:
        return failed(Status.AGENT_ERROR, str(nonsense), ms)


def failed(status: Status, reason: str, ms: float | None, retry_after_s: float | None = None) -> JsonObject:
    """The message of a failure."""
    return {"ms": ms, "failed": failures.failed(status.value, reason, retry_after_s)}


def failed_as(error: Json, ms: float | None, status: int | None = None) -> JsonObject:
    """The message of a failure that the agent describes; `status` is the HTTP status around it."""
    said: Any = error if isinstance(error, dict) else {"message": error}
    code = said.get("status", said.get("status_code", status))
    wait = said.get("retry_after_s")
    passing = isinstance(code, int) and code in INFRA_STATUSES
    text = " ".join(str(said.get("message") or json.dumps(error)).split())[: failures.LONGEST_TEXT]
    return failed(
        Status.INFRA_ERROR if passing else Status.AGENT_ERROR,
        f"{code} {text}" if code is not None else text,
        ms,
        float(wait) if isinstance(wait, int | float) and not isinstance(wait, bool) and wait >= 0 else None,
    )


def fold(events: Iterable[Json]) -> Json:
    """The answer of a stream: its last event that holds one, else its `delta` texts joined."""
    deltas: list[str] = []
    answer: Json = None
    for event in events:
        delta = event.get("delta") if isinstance(event, dict) else None
        if isinstance(delta, str):
            deltas.append(delta)
        elif isinstance(event, dict) and ("error" in event or _has_text(event) or "messages" in event):
            answer = event
    if answer is None:
        return "".join(deltas) if deltas else None
    if deltas and isinstance(answer, dict) and not _has_text(answer) and "error" not in answer:
        return {**answer, "final_response": "".join(deltas)}
    return answer


def _has_text(value: JsonObject) -> bool:
    return any(name in value for name in replies.TEXT_FIELDS)
