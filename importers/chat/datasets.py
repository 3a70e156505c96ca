"""Rows of public data sets of tool calls as chat logs: ToolBench's conversations, xLAM's questions.

ToolBench writes what the model requests as text, `Thought: … Action: NAME Action Input: {…}`, and each result
as a turn of `function`; the call of `Finish` has the answer. xLAM (APIGen) has a question and the calls that
answer it, without results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaydiff.importers import fields
from replaydiff.importers.base import RecordError
from replaydiff.importers.chat.rewriting import answer, objects, requested, within
from replaydiff.replay.messages import decode
from replaydiff.replay.model import Json, JsonObject, objects_in

_REQUEST = re.compile(
    r"\s*(?:Thought:(?P<thought>.*?))?\s*Action:[ \t]*(?P<name>\S+)\s+Action Input:\s*(?P<args>.*)", re.DOTALL
)
_ROLES = {"system": "system", "user": "user"}
_FINISH = "Finish"


def is_toolbench(record: JsonObject) -> bool:
    """Return whether a record is a conversation of ToolBench: its calls are text, its results are turns."""
    listed = objects_in(record.get("conversations"))
    return any(turn.get("from") == "function" for turn in listed) and any(
        turn.get("from") == "assistant" and _REQUEST.fullmatch(str(turn.get("value"))) for turn in listed
    )


def toolbench(record: JsonObject) -> JsonObject:
    """Rewrite a conversation of ToolBench as a chat log.

    Raises:
        RecordError: a turn is of a speaker that is not known, or has a call that cannot be read.
    """
    turns = objects(record["conversations"], "conversations")
    messages = [_turn(turn, f"conversations[{number}]") for number, turn in enumerate(turns)]
    return {"id": record.get("id"), "messages": [*messages, *_finished(messages)]}


def _turn(turn: JsonObject, where: str) -> JsonObject:
    speaker, value = turn.get("from"), turn.get("value")
    if not isinstance(value, str):
        raise RecordError(f"{where}.value must be text, not {fields.kind(value)}")
    if speaker == "function":
        return {"role": "tool", "content": value}
    if speaker == "assistant":
        return _answer(value, where)
    if not isinstance(speaker, str) or speaker not in _ROLES:
        raise RecordError(f"{where}.from is not known: {str(speaker)[:40]!r}")
    return {"role": _ROLES[speaker], "content": value}


def _answer(text: str, where: str) -> JsonObject:
    match = _REQUEST.fullmatch(text)
    if match is None:
        if "Action:" in text:
            raise RecordError(f"{where}.value has an Action without a name and an Action Input")
        return answer(text)
    call = {"name": match["name"], "arguments": match["args"]}
    return answer((match["thought"] or "").strip() or None, [requested(call, None, where)])


def _finished(messages: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield the answer that the call of `Finish` has as an argument."""
    calls = [call for message in messages for call in fields.sequence(message, "tool_calls")]
    last = calls[-1] if calls else None
    final_answer = within(decode(within(last, "args")), "final_answer")
    if within(last, "name") == _FINISH and isinstance(final_answer, str):
        yield answer(final_answer)


def is_xlam(record: JsonObject) -> bool:
    """Return whether a record is a question of xLAM with the calls that answer it."""
    return isinstance(record.get("query"), str) and {"answers", "tools"} <= record.keys()


def xlam(record: JsonObject) -> JsonObject:
    """Rewrite a question of xLAM and its calls as a chat log.

    Raises:
        RecordError: `answers` is no list of calls with a name and arguments.
    """
    calls = objects(decode(record["answers"]), "answers")
    listed = [requested(call, None, f"answers[{number}]") for number, call in enumerate(calls)]
    messages: list[Json] = [{"role": "user", "content": record["query"]}]
    if listed:
        messages.append(answer(None, listed))
    return {"id": record.get("id"), "messages": messages, "tools": decode(record["tools"])}
