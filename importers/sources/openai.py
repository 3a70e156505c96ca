"""Logs in OpenAI's shapes: chat completions and Responses, own logs, fine-tuning files, batches, streams.

| record | what was asked | the answer |
|---|---|---|
| `{messages, …}` | the messages | their last assistant message, or `response` / `completion` beside them |
| `[message, …]` | the same, bare | |
| `{request: {messages}, response}` | the request | the response, or the list of its stream's chunks |
| `{input, response}` of the Responses API | its items | the response's output |
| chat completion or response object alone | not known | its first choice, its output |
| batch request `{custom_id, body}`, result `{custom_id, response}` | the request | the result of its id |
| `{request: {contents}, response: {candidates}}` of Gemini | the request | the first candidate |
| `{traj, reward}` of tau-bench | the messages | their last assistant message |

Messages may also be those of LangChain, Pydantic AI, Gemini and others that `replay.messages` reads, and
records those of agent frameworks that `importers.chat.frameworks` rewrites.
A conversation is one trace, of several turns too. Records of single calls are joined to runs, also by
`previous_response_id`; see `importers.chat.model_calls`. What is around the messages: `importers.chat.logs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, RecordError
from replaydiff.importers.chat import frameworks
from replaydiff.importers.chat.logs import (
    LoggedExchange,
    error_of,
    is_anthropic,
    read_exchange,
    read_logs,
    replied,
    request_and_answer,
)
from replaydiff.importers.chat.model_calls import LoggedCall
from replaydiff.replay.messages import is_message, read_messages
from replaydiff.replay.model import Json, JsonObject, Message, as_object

NAME = "openai"
RECOGNISED_BY = "records have messages with roles"


def recognises(record: Json) -> float:
    """Recognise a record by messages with roles, by completion objects, by the envelope of the Batch API."""
    if is_anthropic(record):
        return 0.2
    if isinstance(record, list):
        is_conversation = bool(record) and (
            _is_message(record[0]) or frameworks.is_framework({"messages": record})
        )
        return 0.9 if is_conversation else 0.0
    if not isinstance(record, dict):
        return 0.0
    if frameworks.is_framework(record):
        return 0.9
    if {"call_type", "startTime"} <= record.keys() or {"traceId", "startTime"} <= record.keys():
        # A payload of LiteLLM, or an observation of Langfuse, around the same request and response.
        return 0.3
    if str(record.get("object", "")).startswith(("chat.completion", "response")):
        return 0.95
    if "custom_id" in record and ("response" in record or "body" in record):
        return 0.95
    if "traj" in record and "reward" in record:
        return 0.9
    request, answer = request_and_answer(record)
    if isinstance(answer, dict) and str(answer.get("object", "")).startswith(("chat.completion", "response")):
        return 0.95
    messages = request.get("messages", request.get("input", request.get("contents")))
    if not (isinstance(messages, list) and messages and _is_message(messages[0])):
        return 0.0
    # The trace format may carry messages too, and says so by its ids.
    return 0.3 if {"trace_id", "started_at"} <= record.keys() else 0.9


def _is_message(value: Json) -> bool:
    """Return whether a conversation may begin with it; one of the Responses API begins with any item."""
    items = ("function_call", "function_call_output", "function_call_result")
    return is_message(value) or (isinstance(value, dict) and value.get("type") in items)


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Return a trace for each conversation, and for each run of logged calls, over all files."""
    return read_logs(NAME, files, read)


def read(record: Json, file: InputFile) -> Iterator[Imported | LoggedCall]:
    """Return the content of one record."""
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, dict):
        raise RecordError(f"a record must be an object or a list of messages, not {fields.kind(record)}")
    rewritten = frameworks.rewritten(record)
    record = rewritten.log if rewritten else record
    request, answer = _parts(record)
    answered = as_object(answer)
    exchange = LoggedExchange(
        record=record,
        request=request,
        answer=answered,
        requested=read_messages(_requested(request, answered)) or (),
        replied=_replied(answer),
        error=error_of(record, answered),
        raw=rewritten.searched if rewritten else None,
    )
    return read_exchange(NAME, exchange, file)


def _parts(record: JsonObject) -> tuple[JsonObject, Json]:
    """Return request and response."""
    if str(record.get("object", "")).startswith(("chat.completion", "response")):
        return {}, record
    return request_and_answer(record)


def _requested(request: JsonObject, answer: JsonObject) -> Json:
    messages = request.get("messages", request.get("contents", request.get("traj")))
    if messages is not None:
        beside = ("system", "systemInstruction", "config")
        return {"messages": messages, **{key: request[key] for key in beside if key in request}}
    value = request.get("input", request.get("input_items", request.get("prompt")))
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        # A page of `responses.input_items.list`.
        value = value["data"]
    if value is None:
        return None
    items: Json = [{"role": "user", "content": value}] if isinstance(value, str) else value
    return {"input": items, "instructions": request.get("instructions", answer.get("instructions"))}


def _replied(answer: Json) -> tuple[Message, ...]:
    items, candidates = (as_object(answer).get(key) for key in ("output", "candidates"))
    if isinstance(items, list):
        answer = items
    elif isinstance(candidates, list):
        # They are alternatives.
        answer = candidates[:1]
    return replied(answer)
