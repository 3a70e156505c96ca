"""What several formats say in much the same way: the input, the calls, the user's own metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable

from replaydiff.replay.model import Json, JsonObject

_INPUTS = ("input", "question", "query", "prompt", "message", "user_input")


def input_of(value: Json) -> JsonObject:
    """`input` or `messages` of a case, from a text, a list of messages, or an object that holds either.

    Of other objects the only text counts, else all of it as JSON text.
    """
    if isinstance(value, str):
        return {"input": value}
    if _is_messages(value):
        return {"messages": value}
    if isinstance(value, dict):
        if _is_messages(value.get("messages")):
            text = value.get("input")
            return {"messages": value["messages"]} | ({"input": text} if isinstance(text, str) else {})
        named = next((value[name] for name in _INPUTS if isinstance(value.get(name), str)), None)
        if named is not None:
            return {"input": named}
        texts = [one for one in value.values() if isinstance(one, str)]
        if len(texts) == 1:
            return {"input": texts[0]}
    if value is None or value in ("", [], {}):
        return {}
    return {"input": json.dumps(value, ensure_ascii=False)}


def _is_messages(value: Json) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in value)
    )


def metadata_from(case: JsonObject) -> JsonObject:
    """The user's own metadata of a foreign record: a case's, with tags, category and difficulty."""
    found: JsonObject = {}
    for name in ("category", "difficulty", "tags"):
        if case.get(name):
            found[name] = case[name]
    own = case.get("metadata")
    return found | (own if isinstance(own, dict) else {})


def metadata_to(metadata: Json) -> JsonObject:
    """Tags, category, difficulty and metadata of a case."""
    if not isinstance(metadata, dict):
        return {}
    found: JsonObject = {}
    rest = dict(metadata)
    for name in ("category", "difficulty"):
        if isinstance(rest.get(name), str):
            found[name] = rest.pop(name)
    tags = rest.get("tags")
    if isinstance(tags, list) and tags and all(isinstance(tag, str) for tag in tags):
        found["tags"] = rest.pop("tags")
    return found | ({"metadata": rest} if rest else {})


def calls_of(case: JsonObject) -> list[JsonObject]:
    """The expected calls; empty where none are expected, or none are named."""
    calls = case.get("expected_tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def mode_of(case: JsonObject) -> tuple[str, str]:
    """How the calls are compared, and their arguments."""
    match = case.get("match")
    spec = match if isinstance(match, dict) else {"mode": match} if isinstance(match, str) else {}
    return str(spec.get("mode", "strict")), str(spec.get("args", "subset"))


def texts_of(value: Json) -> list[str]:
    """The texts of a list of texts; empty for everything else."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def put(record: JsonObject, pairs: Iterable[tuple[str, Json]]) -> JsonObject:
    """The record with those of the pairs that say something."""
    return record | {name: value for name, value in pairs if value not in (None, "", [], {})}
