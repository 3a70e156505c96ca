"""A logged stream of a model's answer, put together to the answer that the same call gives without streaming.

OpenAI chat chunks carry pieces of text and of each tool call's arguments (keyed by `index`, id and name only
in the first); Responses events end with the whole response; Anthropic events carry pieces for each content
block, arguments as pieces of JSON; so do events of Bedrock's Converse, each under the name of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from replaydiff.replay.model import Json

_WHOLE = ("response.completed", "response.incomplete", "response.failed")


def is_stream(value: Json) -> bool:
    """Whether this is a list of a stream's events."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return False
    kind = value[0].get("type")
    return (
        value[0].get("object") == "chat.completion.chunk"
        or (isinstance(kind, str) and kind in ("message_start", "response.created", "ping"))
        or _is_converse(value[0])
    )


def put_together(events: Sequence[Json]) -> Json:
    """The answer that these events make."""
    found: list[dict[str, Any]] = [event for event in events if isinstance(event, dict)]
    if any(event.get("object") == "chat.completion.chunk" for event in found):
        return _chat(found)
    if found and _is_converse(found[0]):
        return _converse(found)
    for event in reversed(found):
        whole = event.get("response")
        if event.get("type") in _WHOLE and isinstance(whole, dict):
            return whole
    return _anthropic(found)


def _chat(chunks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    text: list[str] = []
    calls: dict[str, dict[str, Any]] = {}
    finish: Json = None
    for chunk in chunks:
        whole.update({key: value for key, value in chunk.items() if value is not None and key != "choices"})
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict) or first.get("index", 0) != 0:
            continue
        finish = first.get("finish_reason") or finish
        delta = first.get("delta")
        if not isinstance(delta, dict):
            continue
        text.append(_text(delta.get("content")) or _text(delta.get("refusal")))
        for piece in _objects(delta.get("tool_calls")):
            call = calls.setdefault(str(piece.get("index")), {"name": "", "arguments": ""})
            function = piece.get("function")
            if piece.get("id"):
                call["id"] = piece["id"]
            if isinstance(function, dict):
                call["name"] += _text(function.get("name"))
                call["arguments"] += _text(function.get("arguments"))
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(text),
        "tool_calls": list(calls.values()),
    }
    choice: dict[str, Any] = {"message": message, "finish_reason": finish}
    return {**whole, "object": "chat.completion", "choices": [choice]}


def _anthropic(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "message", "role": "assistant"}
    blocks: dict[str, dict[str, Any]] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            message.update(event["message"])
        elif kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            blocks[str(event.get("index"))] = dict(event["content_block"])
        elif kind == "content_block_delta" and isinstance(event.get("delta"), dict):
            _grow(blocks.setdefault(str(event.get("index")), {}), event["delta"])
        elif kind == "message_delta":
            for key in ("delta", "usage"):
                if isinstance(event.get(key), dict):
                    _update(message, key, event[key])
        elif kind == "error":
            message["error"] = event.get("error")
    for block in blocks.values():
        pieces = block.pop("_pieces", "")
        if pieces:
            block["input"] = pieces
    return {**message, "content": list(blocks.values())}


def _is_converse(event: dict[str, Any]) -> bool:
    return isinstance(event.get("messageStart"), dict) or isinstance(event.get("contentBlockDelta"), dict)


def _converse(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    blocks: dict[str, dict[str, Any]] = {}
    for event in events:
        for kind, body in event.items():
            if not isinstance(body, dict):
                continue
            block = blocks.setdefault(str(body.get("contentBlockIndex")), {"text": "", "input": ""})
            if kind == "contentBlockStart" and isinstance(start := body.get("start"), dict):
                block["tool"] = start.get("toolUse")
            elif kind == "contentBlockDelta" and isinstance(delta := body.get("delta"), dict):
                tool = delta.get("toolUse")
                block["text"] += _text(delta.get("text"))
                block["input"] += _text(tool.get("input")) if isinstance(tool, dict) else ""
            elif kind == "metadata":
                whole["usage"] = body.get("usage")
    content = [
        {"toolUse": {**block["tool"], "input": block["input"]}}
        if isinstance(block.get("tool"), dict)
        else {"text": block["text"]}
        for block in blocks.values()
        if block.get("tool") or block["text"]
    ]
    return {**whole, "output": {"message": {"role": "assistant", "content": content}}}


def _update(message: dict[str, Any], key: str, changes: dict[str, Any]) -> None:
    """Read the end of a message: the stop reason, and the cumulative usage."""
    place = message
    if key == "usage":
        usage = message.get("usage")
        place = message["usage"] = dict(usage) if isinstance(usage, dict) else {}
    place.update({name: value for name, value in changes.items() if value is not None})


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if delta.get("type") == "text_delta":
        block["type"] = "text"
        block["text"] = _text(block.get("text")) + _text(delta.get("text"))
    elif delta.get("type") == "input_json_delta":
        block["_pieces"] = _text(block.get("_pieces")) + _text(delta.get("partial_json"))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: Json) -> Iterable[dict[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()
