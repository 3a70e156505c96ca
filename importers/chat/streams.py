"""A logged stream of a model's answer, put together to the answer that the same call gives without streaming.

OpenAI chat chunks carry pieces of text and of each tool call's arguments; Responses events carry each item
when it is done, and end with the whole response; Anthropic events carry pieces for each content block,
arguments as pieces of JSON; so do events of Bedrock's Converse, each under the name of its kind. Events are
objects, server-sent events with `data`, or the text of those. Google's ADK records messages that are pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replaydiff.replay.messages import decode, parse
from replaydiff.replay.model import Json, as_list, as_object, objects_in

_WHOLE = ("response.completed", "response.incomplete", "response.failed")
_ANTHROPIC = {"message_start", "content_block_start", "content_block_delta", "ping"}
_LOOKED_AT = 5
"""So many events are looked at: some servers send one of their own first."""


def is_stream(value: Json) -> bool:
    """Return whether this is a list of a stream's events."""
    return isinstance(value, list) and any(map(_is_event, map(_unwrapped, value[:_LOOKED_AT])))


def _is_event(event: Json) -> bool:
    if not isinstance(event, dict):
        return False
    kind = event.get("type")
    return (
        event.get("object") == "chat.completion.chunk"
        or (isinstance(kind, str) and (kind in _ANTHROPIC or kind.startswith("response.")))
        or _is_converse(event)
    )


def events_of_text(text: str) -> list[Json] | None:
    """Return the events in the text of a response with server-sent events; None where it is none."""
    if not text.lstrip().startswith(("data:", "event:", "id:", ":")):
        return None
    events: list[Json] = []
    for line in text.splitlines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            try:
                events.append(parse(data))
            except ValueError:
                # A response that was cut ends within an event.
                continue
    return events if is_stream(events) else None


def _unwrapped(event: Json) -> Json:
    """Return the event itself, out of the envelope of a server-sent event."""
    if isinstance(event, dict) and "data" in event and "type" not in event and "object" not in event:
        return decode(event["data"])
    return event


def put_together(events: Sequence[Json]) -> Json:
    """Return the answer that these events make."""
    unwrapped_events: list[dict[str, Any]] = [
        event for event_or_text in events if isinstance(event := _unwrapped(event_or_text), dict)
    ]
    if any(event.get("object") == "chat.completion.chunk" for event in unwrapped_events):
        return _chat(unwrapped_events)
    if any(map(_is_converse, unwrapped_events[:_LOOKED_AT])):
        return _converse(unwrapped_events)
    if any(str(event.get("type")).startswith("response.") for event in unwrapped_events[:_LOOKED_AT]):
        return _responses(unwrapped_events)
    return _anthropic(unwrapped_events)


def of_pieces(messages: Json) -> Json:
    """Return the answer whose pieces these are, each a message that says no reason to end; others unchanged.

    Google's ADK records every piece of a stream. Its last message is the whole answer where LiteLLM calls the
    model, and one more piece where Gemini is called, which leaves the text and the calls of the others out.
    """
    listed = as_list(messages)
    answers: list[dict[str, Any]] = [
        message for message in objects_in(listed) if message.get("role") == "assistant" and "parts" in message
    ]
    if len(listed) < 2 or len(answers) < len(listed):
        return messages
    if any(message.get("finish_reason") != "" for message in answers[:-1]):
        return messages
    pieces, last = _joined_parts(answers[:-1]), _joined_parts(answers[-1:])
    is_whole = _text_of(pieces) == _text_of(last) and _call_ids(pieces) <= _call_ids(last)
    parts: list[Json] = [*(last if is_whole else _joined_parts(answers))]
    return [{**answers[-1], "parts": parts}]


def _joined_parts(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts, with each text in one and each call once, with the latest arguments of its id."""
    joined: list[dict[str, Any]] = []
    calls: dict[str, dict[str, Any]] = {}
    for part in (part for message in messages for part in objects_in(message["parts"])):
        previous = joined[-1] if joined else {}
        call = calls.get(_text(part.get("id"))) if part.get("type") == "tool_call" else None
        if call is not None:
            call.update({key: value for key, value in part.items() if value is not None})
        elif part.get("type") in ("text", "reasoning") and part["type"] == previous.get("type"):
            previous["content"] = _text(previous.get("content")) + _text(part.get("content"))
        else:
            joined.append(dict(part))
            if part.get("type") == "tool_call" and part.get("id"):
                calls[_text(part["id"])] = joined[-1]
    return joined


def _text_of(parts: Sequence[dict[str, Any]]) -> str:
    return "".join(_text(part.get("content")) for part in parts if part.get("type") == "text")


def _call_ids(parts: Sequence[dict[str, Any]]) -> set[str]:
    return {_text(part.get("id")) for part in parts if part.get("type") == "tool_call"}


def _chat(chunks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    spoken = ""
    calls: list[dict[str, Any]] = []
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
        message["content"] += _text(delta.get("content")) or _text(delta.get("refusal"))
        audio = delta.get("audio")
        spoken += _text(audio.get("transcript")) if isinstance(audio, dict) else ""
        for piece in objects_in(delta.get("tool_calls")):
            _extend(_call_of(calls, piece), piece)
        if isinstance(alone := delta.get("function_call"), dict):
            _extend(message, {"function_call": alone})
    if spoken:
        message["audio"] = {"transcript": spoken}
    if calls:
        message["tool_calls"] = calls
    choice: dict[str, Any] = {"message": message, "finish_reason": finish}
    return {**whole, "object": "chat.completion", "choices": [choice]}


def _call_of(calls: list[dict[str, Any]], piece: dict[str, Any]) -> dict[str, Any]:
    """Return the call that a piece belongs to, which may be a new one.

    An index distinguishes them; some servers write none, or 0 for every call, and an id of its own for each.
    """
    index, call_id = piece.get("index"), piece.get("id")
    fitting = [call for call in calls if index is None or call.get("index") == index]
    latest = fitting[-1] if fitting else None
    if latest is None or (call_id and latest.get("id") and call_id != latest["id"]):
        latest = {"index": index}
        calls.append(latest)
    return latest


def _extend(call: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add a piece to what is known of a call: a function's arguments, or the input of a custom tool."""
    for key in ("id", "type"):
        if piece.get(key):
            call[key] = piece[key]
    for kind in ("function", "custom", "function_call"):
        added = piece.get(kind)
        if not isinstance(added, dict):
            continue
        function = call.setdefault(kind, {"name": ""})
        # The name comes whole: in the first piece, or in each.
        if _text(added.get("name")) != function["name"]:
            function["name"] += _text(added.get("name"))
        for key in ("arguments", "input"):
            if isinstance(added.get(key), str):
                function[key] = function.get(key, "") + added[key]


def _responses(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the response of the last event; where it has no items, or was not reached, with those of the
    events.
    """
    whole: dict[str, Any] = {"object": "response"}
    items: dict[str, dict[str, Any]] = {}
    for event in events:
        kind = _text(event.get("type"))
        response, item = event.get("response"), event.get("item")
        if isinstance(response, dict):
            whole.update({key: value for key, value in response.items() if value is not None})
        output_index = str(event.get("output_index"))
        if kind in ("response.output_item.added", "response.output_item.done") and isinstance(item, dict):
            items[output_index] = dict(item)
        elif kind.endswith(("_arguments.delta", "_input.delta")) and output_index in items:
            key = "arguments" if kind.endswith("_arguments.delta") else "input"
            items[output_index][key] = _text(items[output_index].get(key)) + _text(event.get("delta"))
        elif kind == "response.output_text.delta":
            message = items.setdefault(output_index, {"type": "message", "role": "assistant"})
            parts = message["content"] = message.get("content") or [{"type": "output_text", "text": ""}]
            parts[0]["text"] += _text(event.get("delta"))
    reached = any(event.get("type") in _WHOLE for event in events)
    return whole if reached and whole.get("output") else {**whole, "output": list(items.values())}


def _anthropic(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "message", "role": "assistant"}
    blocks: dict[str, dict[str, Any]] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            message.update(event["message"])
        elif kind == "content_block_start" and isinstance(block := decode(event.get("content_block")), dict):
            blocks[str(event.get("index"))] = dict(block)
        elif kind == "content_block_delta":
            _grow(blocks.setdefault(str(event.get("index")), {}), decode(event.get("delta")), event)
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
    holder = message
    if key == "usage":
        usage = message.get("usage")
        holder = message["usage"] = dict(usage) if isinstance(usage, dict) else {}
    holder.update({name: value for name, value in changes.items() if value is not None})


def _grow(block: dict[str, Any], delta: Json, event: dict[str, Any]) -> None:
    kind = as_object(delta).get("type")
    if isinstance(delta, dict) and kind == "text_delta":
        block["type"] = "text"
        block["text"] = _text(block.get("text")) + _text(delta.get("text"))
    elif isinstance(delta, dict) and isinstance(piece := delta.get("partial_json"), str):
        block["_pieces"] = _text(block.get("_pieces")) + piece
    elif block.get("input") == {}:
        # A call whose pieces cannot be read has no arguments that are known: it is noted as unread.
        block["input_event"] = event
        del block["input"]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
