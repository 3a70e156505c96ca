"""Gemini CLI sessions: the files under `~/.gemini/tmp/PROJECT/chats`, one or a folder of them.

A session is an object with `messages`, or (newer versions) a file of lines: its header, a message each, and
changes (`$set`, `$rewindTo`); a message that is written again replaces the earlier one. Each turn of the user
is a trace, as with Codex: `SESSION:NUMBER`, which names the one that it continues. Sessions of
sub-agents are left out: their result is that of the call that started them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from replaydiff.importers import fields
from replaydiff.importers.base import Imported, InputFile, RecordError, Skipped
from replaydiff.importers.chat.turns import SessionMessage, turns
from replaydiff.importers.convert import guarded, refused, reject
from replaydiff.importers.reading import Broken, Record, records
from replaydiff.replay.messages import read_content, read_messages
from replaydiff.replay.model import Json, JsonObject, Message, Usage, as_list, as_object, objects_in

NAME = "gemini-cli"
RECOGNISED_BY = "records have sessionId and projectHash"

_TYPES = ("user", "gemini")
_SILENT = ("info", "warning")
_CHANGES = ("$set", "$rewindTo")
_KEYS = {
    *("id", "timestamp", "type", "content", "displayContent"),
    *("toolCalls", "thoughts", "tokens", "model"),
}
"""What a message has, and nothing else."""
_FAILED = ("error", "cancelled")
SUB_AGENT = "sessions of sub-agents: their result is that of the call that started them"


def recognises(record: Json) -> float:
    """Recognise the header of a session, alone or with its messages, and the messages of a file of lines."""
    if not isinstance(record, dict):
        return 0.0
    if record.keys() >= {"sessionId", "projectHash"} or not record.keys().isdisjoint(_CHANGES):
        return 0.97
    is_line = record.keys() >= {"id", "timestamp", "type", "content"} and record.keys() <= _KEYS
    return 0.97 if is_line and record["type"] in (*_TYPES, *_SILENT) else 0.0


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """Yield one trace for each turn; a record with messages is a session, and so is a file of lines."""
    return chain.from_iterable(map(_sessions, files))


def _sessions(file: InputFile) -> Iterator[Imported]:
    lines: list[Record] = []
    for record in records(file):
        if isinstance(record, Broken):
            yield reject(NAME, file, record)
        elif isinstance(record.value, dict) and isinstance(record.value.get("messages"), list):
            yield from guarded(NAME, file, record, _session, alone=True)
        elif isinstance(record.value, dict):
            lines.append(record)
        else:
            yield refused(NAME, file, record, "a line of a session must be an object")
    if lines:
        whole = Record(lines[0].line, [line.value for line in lines])
        yield from guarded(NAME, file, whole, _session_of_lines)


def _session_of_lines(value: Json, file: InputFile) -> Iterator[Imported]:
    """Put a session's lines together, as its program does that resumes it."""
    header: JsonObject = {}
    messages: dict[str, Json] = {}
    for line in as_list(value):
        if not isinstance(line, dict):
            continue
        if "id" in line and "type" in line:
            messages[str(line["id"])] = line
        elif "$set" in line:
            changed = fields.mapping(line, "$set")
            if isinstance(listed := changed.get("messages"), list):
                messages = {str(message.get("id")): message for message in objects_in(listed)}
            header |= {key: value for key, value in changed.items() if key != "messages"}
        elif "$rewindTo" in line:
            if not isinstance(message_id := line["$rewindTo"], str):
                raise RecordError(f"$rewindTo must be text, not {fields.kind(message_id)}")
            messages = _rewound(messages, message_id)
        elif "sessionId" in line:
            header |= line
        else:
            raise RecordError(f"a line is no header, message or change: it has {', '.join(line)[:60]}")
    yield from _session({**header, "messages": list(messages.values())}, file)


def _rewound(messages: dict[str, Json], message_id: str) -> dict[str, Json]:
    """Return the messages before this one; all are withdrawn where it is not there."""
    names = list(messages)
    names_left = names[: names.index(message_id)] if message_id in messages else []
    return {name: messages[name] for name in names_left}


def _session(value: Json, file: InputFile) -> Iterator[Imported]:
    record: JsonObject = as_object(value)
    session = fields.text(record, "sessionId")
    if session is None:
        raise RecordError("the session has no sessionId")
    if record.get("kind") == "subagent":
        yield Skipped(SUB_AGENT)
        return
    listed = fields.sequence(record, "messages")
    entries = [_message(message, number) for number, message in enumerate(listed)]
    yield from turns(NAME, session, [entry for entry in entries if entry is not None], file)


def _message(message: Json, number: int) -> SessionMessage | None:
    where = f"messages[{number}]"
    message = fields.object_of(message, where)
    kind = message.get("type")
    if kind in _SILENT:
        return None
    if kind == "error":
        text = read_content(message.get("content")).text
        return SessionMessage(message, (), error=text or "the turn failed")
    if kind not in _TYPES:
        raise RecordError(f"{where}.type is not known: {str(kind)[:40]!r}")
    if kind == "user":
        text = read_content(message.get("content")).text
        return SessionMessage(message, (Message(role="user", text=text),))
    calls = [_call(call, where) for call in fields.sequence(message, "toolCalls")]
    chat: list[Json] = [
        {
            "role": "assistant",
            "content": message.get("content"),
            "tool_calls": [{"name": call["name"], "args": call["args"], "id": call["id"]} for call in calls],
        },
        *(result for call in calls if (result := _result(call)) is not None),
    ]
    return SessionMessage(
        message,
        tuple(read_messages(chat) or ()),
        model=fields.text(message, "model"),
        usage=_usage(message.get("tokens")),
    )


def _call(call: Json, where: str) -> JsonObject:
    name = fields.text(call, "name") if isinstance(call, dict) else None
    if not isinstance(call, dict) or name is None:
        raise RecordError(f"a tool call in {where} has no name")
    if not isinstance(call.get("args"), dict) or not isinstance(call.get("id"), str):
        raise RecordError(f"the tool call of {name[:40]!r} in {where} has no args or no id")
    return call


def _result(call: JsonObject) -> Json:
    """Return the result of a call: what the model was given, else what was shown; None while it runs."""
    failed = call.get("status") in _FAILED
    result = call.get("result")
    parts: list[Json] = result if isinstance(result, list) else [result]
    # A part that is no response (an image) belongs to the response before it.
    answers = [
        message for message in read_content(parts).results if message.tool_call_id in (None, call["id"])
    ]
    if answers:
        content: Json = answers[0].text if answers[0].data is None else answers[0].data
    elif result not in (None, []) or call.get("resultDisplay") is not None:
        content = result if result not in (None, []) else call["resultDisplay"]
    elif failed:
        content = str(call["status"])
    else:
        return None
    return {"role": "tool", "tool_call_id": call["id"], "content": content, "is_error": failed}


def _usage(tokens: Json) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    return Usage(
        input_tokens=fields.count(tokens, "input"),
        output_tokens=fields.count(tokens, "output") + fields.count(tokens, "thoughts"),
        cache_read_tokens=fields.count(tokens, "cached"),
    )
