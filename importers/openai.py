"""Chat logs in OpenAI's shapes: own logs, fine-tuning files, request and response pairs, batch output.

| record | input | answer |
|---|---|---|
| `{messages, …}` | the messages | their last assistant message, or `response` / `completion` beside them |
| `[message, …]` | the same, bare | |
| `{request: {messages}, response}` | the request | the response |
| `{input, response}` of the Responses API | its items | the response's output |
| chat completion or response object alone | not known | its first choice |
| batch request `{custom_id, body}`, result `{custom_id, response}` | the request | the result of its id |
| `{traj, reward}` of tau-bench | the messages | their last assistant message |

A record is one trace, a conversation of several turns included. Its id is `id`, else `custom_id`, else the
hash of the record, so that importing a file twice changes nothing. Its time is `created`, `created_at`,
`started_at` or `timestamp`, else the response's, else the file's own (fine-tuning files have none).
`release`, `session_id`, `user_id`, `environment`, `name` and `tags` are read from the record, else from its
`metadata`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from importers import fields
from importers.base import InputFile, Item, Note, RecordError
from importers.batches import joined
from replay.messages import conversation, read_messages
from replay.model import Json, JsonObject, Message, Trace

NAME = "openai"
SUMMARY = "OpenAI chat JSONL: own logs, fine-tuning files, request/response pairs, batch output"
TELL = "records have messages with roles"

_ANSWERS = ("response", "completion", "output")
_TIMES = ("created", "created_at", "started_at", "timestamp", "time")


def recognises(record: Json) -> float:
    """By messages with roles, by completion objects, by the envelope of the Batch API."""
    if isinstance(record, list):
        return 0.9 if record and _is_message(record[0]) else 0.0
    if not isinstance(record, dict):
        return 0.0
    if str(record.get("object", "")).startswith(("chat.completion", "response")):
        return 0.95
    if "custom_id" in record and ("response" in record or "body" in record):
        return 0.95
    if "traj" in record and "reward" in record:
        return 0.9
    inner = record.get("request")
    source = inner if isinstance(inner, dict) else record
    messages = source.get("messages", source.get("input"))
    if not (isinstance(messages, list) and messages and _is_message(messages[0])):
        return 0.0
    # The trace format may carry messages too, and says so by its ids.
    return 0.3 if {"trace_id", "started_at"} <= record.keys() else 0.9


def _is_message(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def read_files(files: Sequence[InputFile]) -> Iterator[Item]:
    """One trace for each record; batch requests and their results are joined over all files."""
    return joined(NAME, files, read)


def read(record: Json, file: InputFile) -> Iterator[Item]:
    """The trace of one record."""
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, dict):
        raise RecordError(f"a record must be an object or a list of messages, not {fields.kind(record)}")
    request, answer = _parts(record)
    asked = read_messages(_asked(request))
    said = read_messages(answer)
    if not asked and not said:
        error = _error(record)
        if error is None:
            raise RecordError("there are no messages in it: looked for messages, request, input and response")
    if not asked:
        yield Note("no request beside the completion: its input is not known")
    started_at = fields.time(record, *_TIMES) or _answer_time(answer)
    if started_at is None:
        yield Note("no time in the record: the file's modification time was taken")
        started_at = datetime.fromtimestamp(int(file.modified), UTC).replace(tzinfo=None)
    yield _trace(record, request, answer, (*(asked or ()), *_assistant(said)), started_at)


def _parts(record: dict[str, Json]) -> tuple[JsonObject, Json]:
    """What was asked and what came back."""
    if str(record.get("object", "")).startswith(("chat.completion", "response")):
        return {}, record
    request = _inner(_inner(record, "request"), "body")
    answer: Json = next((record[key] for key in _ANSWERS if record.get(key) is not None), None)
    if answer is None and "choices" in record:
        answer = {"choices": record["choices"]}
    if isinstance(answer, str):
        return request, {"role": "assistant", "content": answer}
    return request, _inner(answer, "body") if isinstance(answer, dict) else answer


def _inner(record: JsonObject, key: str) -> JsonObject:
    """The object under `key`, or the record itself where there is none."""
    inner = record.get(key)
    return inner if isinstance(inner, dict) else record


def _asked(request: JsonObject) -> Json:
    messages = request.get("messages", request.get("traj"))
    if messages is not None:
        return {"messages": messages, "system": request.get("system")}
    value = request.get("input", request.get("prompt"))
    return [{"role": "user", "content": value}] if isinstance(value, str) else {"input": value}


def _assistant(messages: Sequence[Message] | None) -> tuple[Message, ...]:
    return tuple(message for message in messages or () if message.role in ("assistant", "tool"))


def _answer_time(answer: Json) -> datetime | None:
    return fields.time(answer, "created", "created_at") if isinstance(answer, dict) else None


def _error(record: Mapping[str, Any]) -> str | None:
    """Why a request failed, where it did."""
    response = record.get("response")
    status = response.get("status_code") if isinstance(response, dict) else None
    body = response.get("body") if isinstance(response, dict) else None
    for holder in (record, body, response):
        error = holder.get("error") if isinstance(holder, dict) else None
        if error:
            message = error.get("message", error.get("code")) if isinstance(error, dict) else error
            return str(message or "the request failed")
    return f"HTTP {status}" if isinstance(status, int) and status >= 400 else None


def _trace(
    record: dict[str, Json],
    request: JsonObject,
    answer: Json,
    messages: tuple[Message, ...],
    started_at: datetime,
) -> Trace:
    metadata = fields.mapping(record, "metadata")
    response = answer if isinstance(answer, dict) else {}
    ended_at = fields.time(record, "ended_at", "completed_at")
    latency = fields.number(record, "latency_ms")
    error = _error(record)
    run = conversation(messages, asked_only=error is not None)

    def known(key: str, *others: str) -> str | None:
        for holder in (record, metadata, request):
            for name in (key, *others):
                if not isinstance(holder.get(name), dict | list):
                    found = fields.text(holder, name)
                    if found is not None:
                        return found
        return None

    scores = fields.scores(record)
    if "reward" in record and "reward" not in scores:
        scores = {**scores, **fields.scores({"scores": {"reward": record["reward"]}})}
    for key in ("task_id", "trial"):
        if key in record and key not in metadata:
            metadata = {**metadata, key: record[key]}
    return Trace(
        trace_id=_trace_id(record),
        source=NAME,
        started_at=started_at,
        ended_at=ended_at,
        name=known("name"),
        session_id=known("session_id", "conversation_id", "thread_id"),
        user_id=known("user_id", "user", "safety_identifier"),
        environment=known("environment"),
        release=known("release"),
        model=fields.text(response, "model") or known("model"),
        tags=fields.tags(record) or fields.tags(metadata),
        input=run.input,
        messages=messages,
        final_response=run.final_response,
        tool_calls=run.tool_calls,
        usage=fields.usage(record.get("usage")) or fields.usage(response.get("usage")),
        cost_usd=fields.number(record, "cost_usd"),
        latency_ms=latency if latency is not None else fields.elapsed_ms(started_at, ended_at),
        error=error,
        scores=scores,
        metadata=metadata,
    )


def _trace_id(record: Mapping[str, Any]) -> str:
    given = fields.text(record, "trace_id") or fields.text(record, "id") or fields.text(record, "custom_id")
    response = record.get("response")
    if given is None and isinstance(response, dict):
        given = fields.text(response, "id")
    if given is not None:
        return given
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()[:16]
