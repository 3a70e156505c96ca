"""Logs in the shape of Anthropic's Messages API: request and response pairs, conversations, batches, streams.

| record | what was asked | the answer |
|---|---|---|
| `{request: {system, messages}, response}` | the request | the message, or the list of its stream's events |
| `{system, messages, response}` | the messages | the response |
| `{system, messages}`, `[message, …]` | the messages | their last assistant message |
| a message alone: `{type: "message", role: "assistant", content}` | not known | its text |
| batch request `{custom_id, params}`, result `{custom_id, result}` | the request | the result of its id |

A message of a user that holds tool results is no turn of the user. Cached input is counted in: the API counts
it apart. A conversation is one trace, of several turns too; records of single calls are joined to runs, see
`importers.chat.model_calls`. What is around the messages: `importers.chat.logs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, RecordError
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
from replaydiff.replay.messages import read_messages
from replaydiff.replay.model import Json, JsonObject, Message, as_object

NAME = "anthropic"
RECOGNISED_BY = "records have Anthropic's messages: content blocks, a system prompt beside them, or answers"


def recognises(record: Json) -> float:
    """Recognise content blocks, `system` beside the messages, the shape of answers and batches."""
    return 0.95 if is_anthropic(record) else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Return a trace for each conversation, and for each run of logged calls, over all files."""
    return read_logs(NAME, files, read)


def read(record: Json, file: InputFile) -> Iterator[Imported | LoggedCall]:
    """Return the content of one record."""
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, dict):
        raise RecordError(f"a record must be an object or a list of messages, not {fields.kind(record)}")
    request, answer = _parts(record)
    answered = as_object(answer)
    messages = request.get("messages", request.get("prompt"))
    requested = read_messages({"messages": messages, "system": request.get("system")}) if messages else None
    exchange = LoggedExchange(
        record=record,
        request=request,
        answer=answered,
        requested=requested or (),
        replied=_replied(answer),
        error=error_of(record, answered),
    )
    return read_exchange(NAME, exchange, file)


def _parts(record: JsonObject) -> tuple[JsonObject, Json]:
    if record.get("type") == "message" and "messages" not in record:
        return {}, record
    result: Any = record.get("result")
    if isinstance(result, dict) and "custom_id" in record:
        request, _ = request_and_answer(record)
        return ({} if request is record else request), result.get("message")
    return request_and_answer(record)


def _replied(answer: Json) -> tuple[Message, ...]:
    if isinstance(answer, dict) and answer.get("type") == "error":
        return ()
    return replied(answer)
