"""LiteLLM's standard logging payloads, one JSON object a line: what its SDK gives to callbacks, and its proxy
writes to S3, GCS, generic APIs and log files.

Each payload is one model call; the calls of a run are joined, see `importers.chat.model_calls`. Rows of the
proxy's spend logs, which have `request_id` and the same contents as JSON text, are read as well. LiteLLM's
own OpenTelemetry spans are read by `otlp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, RecordError, Skipped
from replaydiff.importers.chat.logs import LoggedExchange, read_exchange, read_logs, replied
from replaydiff.importers.chat.model_calls import LoggedCall
from replaydiff.importers.chat.streams import is_stream, put_together
from replaydiff.replay.messages import decode, definitions, read_messages
from replaydiff.replay.model import Json, JsonObject, Message, as_list, as_object

NAME = "litellm"
RECOGNISED_BY = "records have call_type, startTime and messages"

_KEYS = {"call_type", "startTime", "messages"}
_CHATS = ("completion", "responses", "anthropic_messages", "generate_content", "message")
"""Parts of the names of calls that answer a conversation; the others embed, transcribe, moderate …"""
NO_CHAT = "calls of LiteLLM that answer no conversation (embeddings, images, …)"


def recognises(record: Json) -> float:
    """Recognise a record by the names of LiteLLM's fields."""
    return 0.97 if isinstance(record, dict) and record.keys() >= _KEYS else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Return a trace for each run of logged calls, over all files."""
    return read_logs(NAME, files, read)


def read(record: Json, file: InputFile) -> Iterator[Imported | LoggedCall]:
    """Return the content of one record."""
    record = fields.object_of(record, "a payload")
    if not record.keys() >= _KEYS:
        raise RecordError(f"no payload of LiteLLM: looked for {', '.join(sorted(_KEYS))}")
    kind = fields.text(record, "call_type") or ""
    if kind and not any(word in kind for word in _CHATS):
        yield Skipped(NO_CHAT)
        return
    answer = _answer(record)
    settings = as_object(decode(record.get("model_parameters")))
    messages = decode(record["messages"])
    requested: Json = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    exchange = LoggedExchange(
        record=_call_details(record, settings, answer),
        request={},
        answer={},
        requested=read_messages({"messages": requested, "system": settings.get("instructions")}) or (),
        replied=_replied(answer),
        error=_error(record),
        raw=[messages, answer],
    )
    yield from read_exchange(NAME, exchange, file)


def _answer(record: JsonObject) -> Json:
    answer = decode(record.get("response"))
    return put_together(answer) if isinstance(answer, list) and is_stream(answer) else answer


def _replied(answer: Json) -> tuple[Message, ...]:
    if isinstance(answer, str):
        return (Message(role="assistant", text=answer),) if answer else ()
    if isinstance(answer, dict) and isinstance(answer.get("output"), list):
        answer = answer["output"]
    return replied(answer)


def _error(record: JsonObject) -> str | None:
    if record.get("status") not in ("failure", "error"):
        return None
    details = as_object(decode(record.get("error_information")))
    return fields.text(record, "error_str") or fields.text(details, "error_message") or "the request failed"


def _call_details(record: JsonObject, settings: JsonObject, answer: Json) -> JsonObject:
    """Return the fields that a chat log has, so that it is read as one."""
    metadata = as_object(decode(record.get("metadata")))
    counted = as_object(answer).get("usage")
    tags = decode(record.get("request_tags"))
    call_metadata: JsonObject = {
        "id": next(
            (call_id for key in ("litellm_call_id", "request_id", "id") if (call_id := record.get(key))), None
        ),
        "timestamp": record.get("startTime"),
        "ended_at": record.get("endTime"),
        "model": record.get("model"),
        "session_id": record.get("session_id") or record.get("trace_id"),
        "user_id": record.get("end_user") or settings.get("user") or metadata.get("user_api_key_end_user_id"),
        "tags": as_list(tags),
        "usage": counted or {key: record.get(key) or 0 for key in ("prompt_tokens", "completion_tokens")},
        "cost_usd": record.get("response_cost", record.get("spend")),
    }
    extra: JsonObject = {}
    for holder in ("requester_metadata", "spend_logs_metadata"):
        extra |= as_object(decode(metadata.get(holder)))
    definitions.put(extra, settings.get("tools"), settings.get("functions"))
    details = {key: value for key, value in call_metadata.items() if value not in (None, "", [])}
    return {**details, "metadata": extra}
