"""Logs of chat APIs, whichever provider answered: files, batches, and the fields around the messages.

A record that holds a request and its response is one model call; the calls of a run are joined
(`chat.model_calls`). A record that holds a conversation is a trace by itself.

A trace's id is the record's `id`, else its `custom_id`, else the response's, else the hash of the record, so
that importing a file twice changes nothing. Its time is `created`, `created_at`, `started_at` or
`timestamp`, else the response's, else the file's modification time. `release`, `session_id`, `user_id`,
`environment`, `name` and `tags` are read from the record, else from its `metadata`, else from the request's.

Batch APIs write a file of requests and a file of results, which are joined by `custom_id`:

| | request | result |
|---|---|---|
| OpenAI | `{custom_id, body}` | `{custom_id, response: {status_code, body}, error}` |
| Anthropic | `{custom_id, params}` | `{custom_id, result: {type, message or error}}` |

Either file may come first. Both are spooled, so memory does not depend on their size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, Note, RecordError, Skipped
from replaydiff.importers.call_notes import (
    CALLS_IN_TEXT,
    ORPHANS,
    UNKNOWN_CALLS,
    calls_in_text,
    has_orphan,
    has_unread_calls,
    orphan_results,
)
from replaydiff.importers.chat.model_calls import CallSpool, LoggedCall, run_of
from replaydiff.importers.chat.streams import events_of_text, is_stream, put_together
from replaydiff.importers.convert import Convert, guarded, reject, temporary_database
from replaydiff.importers.reading import Broken, Record, records
from replaydiff.replay.messages import (
    Conversation,
    conversation,
    count_requests,
    decode,
    definitions,
    parse,
    read_messages,
)
from replaydiff.replay.model import Json, JsonObject, Message, Trace, as_object, objects_in

REQUESTS = ("body", "params")
_RESULTS = ("response", "result", "error")


class _Batches:
    """Requests and results of batches, which wait for each other."""

    def __init__(self) -> None:
        self._con = temporary_database()
        self._con.executescript(
            "CREATE TABLE batch (custom_id TEXT, is_result INTEGER, file INTEGER, line INTEGER, record BLOB);"
            "BEGIN;"
        )

    def close(self) -> None:
        """Let go of the records."""
        self._con.close()

    def take(self, record: Record, file: int) -> bool:
        """Keep a record of a batch for later, and return whether it is one; the number is its file's."""
        value = record.value
        if not isinstance(value, dict) or not isinstance(custom_id := value.get("custom_id"), str):
            return False
        is_result = any(key in value for key in _RESULTS)
        if not is_result and not any(isinstance(value.get(key), dict) for key in REQUESTS):
            return False
        row = (custom_id, is_result, file, record.line, msgspec.json.encode(value))
        self._con.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?)", row)
        return True

    def results(self, source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[Imported]:
        """Yield every result with its request, in the order of the results; requests without result are
        skipped.
        """
        self._con.execute("CREATE INDEX by_id ON batch (custom_id, is_result)")
        request = "SELECT record FROM batch WHERE custom_id = ? AND NOT is_result ORDER BY rowid DESC LIMIT 1"
        for custom_id, file, line, text in self._con.execute(
            "SELECT custom_id, file, line, record FROM batch WHERE is_result ORDER BY rowid"
        ):
            result: Any = parse(text)
            requested: Any = self._con.execute(request, (custom_id,)).fetchone()
            before: Any = parse(requested[0]) if requested else {}
            whole: Json = {**{key: before[key] for key in REQUESTS if key in before}, **result}
            yield from guarded(source, files[file], Record(line, whole), convert)
        unanswered = self._con.execute(
            "SELECT count(*) FROM batch WHERE NOT is_result"
            " AND custom_id NOT IN (SELECT custom_id FROM batch WHERE is_result)"
        ).fetchone()[0]
        for _ in range(unanswered):
            yield Skipped("batch requests without a result; import the batch's output file with them")


_REQUESTS = ("request", "request_body", *REQUESTS)
_ANSWERS = ("response", "response_body", "completion", "output")
_TIMES = ("created", "created_at", "started_at", "timestamp", "time")
_SESSIONS = ("session_id", "conversation_id", "thread_id", "conversation")
_USERS = ("user_id", "user", "safety_identifier")
_LABELS = frozenset({"name", "environment", "release", "model", *_SESSIONS, *_USERS})
_ANSWER_KEYS = {"choices", "output", "object", "role", "content", "error", "body"}
"""Keys by which an answer that was logged as JSON text is distinguished from an answer that is JSON."""

_READ = frozenset(
    {
        *_REQUESTS, *_ANSWERS, *_TIMES, *_LABELS, "id", "trace_id", "custom_id", "messages", "metadata",
        "scores", "tags", "usage", "cost_usd", "latency_ms", "ended_at", "completed_at", "error", "reward",
        "choices", "content", "role", "type", "system", "tools", "stop_reason", "stop_sequence", "input",
        "text", "instructions", "previous_response_id", "max_tokens", "temperature", "top_p", "stream",
        "parallel_tool_calls", "tool_choice", "prompt", "n", "service_tier", "system_fingerprint",
    }
)  # fmt: skip
"""Fields of a record with a meaning of their own; any other text or number is metadata."""
_AGENTDOJO = ("utility", "security")
ConvertLog = Callable[[Json, InputFile], Iterable[Imported | LoggedCall]]


def read_logs(source: str, files: Sequence[InputFile], convert: ConvertLog) -> Iterator[Imported]:
    """Yield the traces of chat logs: conversations in the order of the file, then runs, then batches.

    Args:
        source: name of the importer.
        files: what to read, in this order.
        convert: yields what is in a record.
    """
    with closing(_Batches()) as batches, closing(CallSpool(source, files, convert)) as calls:
        for number, file in enumerate(files):
            for record in records(file):
                if isinstance(record, Broken):
                    yield reject(source, file, record, alone=True)
                elif not batches.take(record, number):
                    for item in guarded(source, file, record, convert, alone=True):
                        if isinstance(item, LoggedCall):
                            calls.add(item, record, number)
                        else:
                            yield item
        yield from calls.traces()
        yield from batches.results(source, files, partial(_alone, convert))


def _alone(convert: ConvertLog, value: Json, file: InputFile) -> Iterator[Imported]:
    """Yield each call as a run of its own: the requests of a batch do not build on each other."""
    for item in convert(value, file):
        if isinstance(item, LoggedCall):
            yield from map(Note, item.notes)
            trace = run_of(item)
            if has_orphan(trace):
                yield Note(ORPHANS)
            yield trace
        else:
            yield item


def request_and_answer(record: JsonObject) -> tuple[JsonObject, Json]:
    """Return request and response of a model call; each may be JSON text, the response a list of stream
    chunks."""
    request = next((inner for key in _REQUESTS if (inner := as_object(decode(record.get(key))))), record)
    if request is not record:
        request = next((inner for key in REQUESTS if (inner := as_object(decode(request.get(key))))), request)
    answer: Json = next((record[key] for key in _ANSWERS if record.get(key) is not None), None)
    if answer is None and "choices" in record:
        answer = {"choices": record["choices"]}
    if isinstance(answer, str):
        decoded = events_of_text(answer) or decode(answer)
        plausible = isinstance(decoded, dict) and _ANSWER_KEYS & decoded.keys()
        answer = decoded if plausible or is_stream(decoded) else {"role": "assistant", "content": answer}
    if isinstance(answer, list) and is_stream(answer):
        answer = put_together(answer)
    if isinstance(answer, dict) and isinstance(answer.get("body"), dict | str):
        body = decode(answer["body"])
        answer = body if isinstance(body, dict) else answer
    return request, answer


def replied(answer: Json) -> tuple[Message, ...]:
    """Return the messages that a model answered with."""
    return tuple(message for message in read_messages(answer) or () if message.role in ("assistant", "tool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedExchange:
    """Return the content of one record."""

    record: JsonObject
    request: JsonObject
    answer: JsonObject
    requested: tuple[Message, ...]
    replied: tuple[Message, ...]
    """Empty where the answer is the last of the messages, or there is none."""
    error: str | None = None
    raw: Json = None
    """Request and answer as they were recorded, where `request` and `answer` do not hold them."""


def read_exchange(source: str, exchange: LoggedExchange, file: InputFile) -> Iterator[Imported | LoggedCall]:
    """Yield the trace of a conversation, or the call of a model, with what a person should know of it.

    Raises:
        RecordError: there are no messages, or a field cannot be read.
    """
    notes = []
    if not exchange.requested and not exchange.replied and exchange.error is None:
        raise RecordError("there are no messages in it: looked for messages, request, input and response")
    previous_id = exchange.answer.get("previous_response_id", exchange.request.get("previous_response_id"))
    previous_id = previous_id if isinstance(previous_id, str) and previous_id else None
    if not exchange.requested:
        notes.append("no request beside the completion: its input is not known")
    started_at = fields.time(exchange.record, *_TIMES) or fields.time(
        exchange.answer, "created", "created_at"
    )
    if started_at is None:
        notes.append("no time in the record: the file's modification time was taken")
        started_at = file.modified_at
    repeated = exchange.replied and exchange.requested and exchange.requested[-1] == exchange.replied[-1]
    run = conversation(exchange.requested) if repeated or not (exchange.replied or exchange.error) else None
    trace = _trace(source, exchange, started_at, run)
    if _has_unread(exchange, trace):
        notes.insert(0, UNKNOWN_CALLS)
    if calls_in_text(trace.messages):
        notes.append(CALLS_IN_TEXT)
    if run is not None:
        if orphan_results(exchange.requested, run.tool_calls):
            notes.append(ORPHANS)
        yield from map(Note, notes)
        yield trace
        return
    response_id = exchange.answer.get("id")
    yield LoggedCall(
        trace=trace,
        request_length=len(exchange.requested),
        response_id=response_id if isinstance(response_id, str) else None,
        previous_id=previous_id,
        notes=tuple(notes),
    )


def _has_unread(exchange: LoggedExchange, trace: Trace) -> bool:
    """Return whether the record has requested tool calls that are not in its messages as they were read."""
    requested, answered = (
        sum(len(message.tool_calls) for message in messages)
        for messages in (exchange.requested, exchange.replied)
    )
    recorded_count = max(count_requests(exchange.request), count_requests(exchange.record.get("messages")))
    whole = max(count_requests(exchange.raw), recorded_count + count_requests(exchange.answer))
    recorded = [exchange.request, exchange.answer] if exchange.raw is None else [exchange.raw]
    return recorded_count > requested or whole > requested + answered or has_unread_calls(recorded, trace)


def _trace(source: str, exchange: LoggedExchange, started_at: datetime, run: Conversation | None) -> Trace:
    """Return the trace of a conversation that was read as a run; without it what is known of a single
    call.
    """
    record, request, answer = exchange.record, exchange.request, exchange.answer
    call_metadata = fields.mapping(record, "metadata")
    metadata: JsonObject = {}
    for holder in (answer, request):
        metadata.update(as_object(holder.get("metadata")))
    metadata.update(call_metadata)
    ended_at = fields.time(record, "ended_at", "completed_at") or fields.time(answer, "completed_at")
    latency = fields.number(record, "latency_ms")

    labels = _labels(record, metadata, request, answer)
    scores = fields.scores(record)
    if "reward" in record and "reward" not in scores:
        scores = {**scores, **fields.scores({"scores": {"reward": record["reward"]}})}
    if {"suite_name", "user_task_id", "utility", "security"} <= record.keys():
        # A run of AgentDojo: whether the task was solved, and whether no injection was followed.
        scores = {**fields.scores({"scores": {key: record[key] for key in _AGENTDOJO}}), **scores}
        duration = fields.number(record, "duration")
        latency = duration * 1000 if latency is None and duration is not None else latency
    if "object" not in record and record.get("type") != "message":
        # It is a record of somebody's own around the messages, and no object of the API.
        for key, value in record.items():
            if (
                key not in _READ
                and key not in metadata
                and key not in scores
                and isinstance(value, str | int | float)
                and value != ""
            ):
                metadata[key] = value
    if definitions.KEY not in metadata and (tools := definitions.definitions(request, record)):
        metadata[definitions.KEY] = tools
    return Trace(
        trace_id=_trace_id(record, answer),
        source=source,
        started_at=started_at,
        ended_at=ended_at,
        name=labels.get("name"),
        session_id=next((labels[key] for key in _SESSIONS if key in labels), None),
        user_id=next((labels[key] for key in _USERS if key in labels), None),
        environment=labels.get("environment"),
        release=labels.get("release"),
        model=fields.text(answer, "model") or labels.get("model"),
        tags=fields.tags(record)
        or (fields.tags(call_metadata) if isinstance(call_metadata.get("tags"), list) else ()),
        input=run.input if run else "",
        messages=(*exchange.requested, *(() if run else exchange.replied)),
        final_response=run.final_response if run else None,
        tool_calls=run.tool_calls if run else (),
        usage=fields.usage(record.get("usage"))
        or fields.usage(answer.get("usage", answer.get("usageMetadata"))),
        cost_usd=fields.number(record, "cost_usd"),
        latency_ms=latency if latency is not None else fields.elapsed_ms(started_at, ended_at),
        error=exchange.error,
        scores=scores,
        metadata=metadata,
    )


def _labels(*holders: JsonObject) -> dict[str, str]:
    """Return the trace's own fields, each from the first object that has it."""
    labels: dict[str, str] = {}
    for holder in holders:
        for key in _LABELS & holder.keys():
            value = holder[key]
            # A conversation of the Responses API is an object with an id.
            value = value.get("id") if isinstance(value, dict) else value
            if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
                labels.setdefault(key, str(value))
    return labels


def _trace_id(record: Mapping[str, Any], answer: JsonObject) -> str:
    recorded_id = (
        fields.text(record, "trace_id") or fields.text(record, "id") or fields.text(record, "custom_id")
    )
    if recorded_id is None and isinstance(answer.get("id"), str):
        recorded_id = fields.text(answer, "id")
    if recorded_id is not None:
        return recorded_id
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()[:16]


def error_of(record: JsonObject, answer: JsonObject) -> str | None:
    """Return why a request failed, where it did."""
    response = as_object(record.get("response"))
    result = record.get("result")
    result = result if isinstance(result, dict) and "custom_id" in record else {}
    for holder in (record, answer, response, result):
        error = holder.get("error")
        # Anthropic wraps an error in an object that says that it is one.
        error = error.get("error", error) if isinstance(error, dict) else error
        if error:
            message = error.get("message", error.get("code")) if isinstance(error, dict) else error
            return str(message or "the request failed")
    status = response.get("status_code")
    if isinstance(status, int) and status >= 400:
        return f"HTTP {status}"
    # A batch request that was canceled, or waited longer than a day.
    return f"the request was {result['type']}" if result.get("type") in ("canceled", "expired") else None


def is_anthropic(record: Json) -> bool:
    """Return whether a chat log is of Anthropic's API, by what only its messages, answers and batches
    have.
    """
    if isinstance(record, list):
        return _has_blocks(record)
    if not isinstance(record, dict):
        return False
    if "custom_id" in record:
        params, result = record.get("params"), record.get("result")
        return isinstance(params, dict) or (isinstance(result, dict) and "type" in result)
    if record.get("type") == "message" and _is_answer(record):
        return True
    request, answer = request_and_answer(record)
    if isinstance(answer, dict):
        if answer.get("type") == "message" and _is_answer(answer):
            return True
        if "choices" in answer or "object" in answer:
            return False
    messages, tools = request.get("messages"), request.get("tools")
    if not isinstance(messages, list):
        return False
    if isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools):
        return True
    return "system" in request or _has_blocks(messages)


def _is_answer(message: JsonObject) -> bool:
    return message.get("role") == "assistant" and isinstance(message.get("content"), list)


def _has_blocks(messages: Sequence[Json]) -> bool:
    """Return whether the content of a message with a role contains a tool call or result."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) and "role" in message else None
        if any(block.get("type") in ("tool_use", "tool_result") for block in objects_in(content)):
            return True
    return False
