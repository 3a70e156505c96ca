"""Sessions of Google's Agent Development Kit (ADK): `Session` as JSON, or its API's answers.

An event has the content of one message in Gemini's shape, and the id of its invocation. Each invocation that
a user's message began is a trace, with the text of the earlier ones in its messages. Field names may be those
of Python or of the API. Partial events repeat what a later one has whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, RecordError
from replaydiff.importers.chat.turns import SessionMessage, turns
from replaydiff.importers.convert import converted
from replaydiff.importers.spans.contents import adk_result
from replaydiff.replay.messages import read_messages
from replaydiff.replay.model import Json, JsonObject, Usage

NAME = "adk"
RECOGNISED_BY = "records have appName or app_name, and events"


def recognises(record: Json) -> float:
    """Recognise a record by the name of the application and the events."""
    if not isinstance(record, dict) or not isinstance(record.get("events"), list):
        return 0.0
    return 0.97 if _field(record, "app_name") is not None else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Yield one trace for each invocation."""
    return converted(NAME, files, _session)


def _session(record: Json, file: InputFile) -> Iterator[Imported]:
    record = fields.object_of(record, "a session")
    session = fields.text(record, "id")
    if session is None or "events" not in record:
        raise RecordError("no session of ADK: looked for id and events")
    events = fields.sequence(record, "events")
    entries = [entry for number, event in enumerate(events) if (entry := _message(event, number)) is not None]
    app, user = _field(record, "app_name"), _field(record, "user_id")
    yield from turns(
        NAME,
        session,
        entries,
        file,
        name=app if isinstance(app, str) else None,
        user_id=user if isinstance(user, str) else None,
        metadata={"state": state} if (state := fields.mapping(record, "state")) else {},
    )


def _field(holder: JsonObject, name: str) -> Json:
    """Return a field by its name in Python, or as the API writes it."""
    first, *others = name.split("_")
    return holder.get(name, holder.get(first + "".join(map(str.capitalize, others))))


def _message(event: Json, number: int) -> SessionMessage | None:
    where = f"events[{number}]"
    event = fields.object_of(event, where)
    if event.get("partial") is True:
        return None
    failed = _field(event, "error_message") or _field(event, "error_code")
    content = fields.mapping(event, "content")
    if not content:
        return SessionMessage(event, (), error=str(failed)) if failed else None
    role = "user" if event.get("author") == "user" else "model"
    parts = [_part(part, where) for part in fields.sequence(content, "parts")]
    messages = read_messages([{"role": role, "parts": parts}]) if parts else ()
    usage = _field(event, "usage_metadata")
    return SessionMessage(
        event,
        tuple(messages or ()),
        model=str(model) if (model := _field(event, "model_version")) else None,
        usage=_usage(usage) if isinstance(usage, dict) else None,
        error=str(failed) if failed else None,
    )


def _part(part: Json, where: str) -> Json:
    """Return a part without the fields that are null, as Python writes them."""
    part = fields.object_of(part, f"a part of {where}")
    fields_of_part: JsonObject = {key: value for key, value in part.items() if value is not None}
    call = _field(fields_of_part, "function_call")
    if call is not None and not (isinstance(call, dict) and isinstance(call.get("name"), str)):
        raise RecordError(f"a tool call in {where} has no name")
    response = _field(fields_of_part, "function_response")
    if isinstance(response, dict) and "response" in response:
        return {"functionResponse": {**response, "response": adk_result(response["response"])}}
    return fields_of_part


def _usage(usage: JsonObject) -> Usage | None:
    return Usage(
        input_tokens=fields.count(usage, "prompt_token_count", "promptTokenCount"),
        output_tokens=fields.count(usage, "candidates_token_count", "candidatesTokenCount")
        + fields.count(usage, "thoughts_token_count", "thoughtsTokenCount"),
        cache_read_tokens=fields.count(usage, "cached_content_token_count", "cachedContentTokenCount"),
    )
