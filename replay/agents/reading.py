"""What an agent is given of an item, and what is taken from its answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from replaydiff.replay.messages import canonical_args
from replaydiff.replay.model import Item, Json, JsonObject, Message, Rule, ServedCall, ToolCall, Usage

_NONE_USED = Usage()
NOT_SEEN = "the agent reports this call, but it passed no patch point: it ran for real, or not at all"


def as_text(item: Item) -> str:
    """The user's text: the item's input, or the last user turn of its conversation."""
    if item.input:
        return item.input
    return next((message.text for message in reversed(item.messages) if message.role == "user"), "")


def as_chat(item: Item) -> list[Json]:
    """The item's conversation as OpenAI-shaped messages, up to and with the last user turn.

    System messages are left out: the prompt is the version's own, and may be what is being compared.
    """
    messages: list[Json] = [
        _as_chat_message(message) for message in item.messages if message.role != "system"
    ]
    return messages or [{"role": "user", "content": item.input}]


def _as_chat_message(message: Message) -> JsonObject:
    chat: JsonObject = {"role": message.role, "content": message.text}
    if message.tool_calls:
        chat["tool_calls"] = [
            {
                "id": call.call_id or f"call_{call.index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args, ensure_ascii=False)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        chat["tool_call_id"] = message.tool_call_id or ""
        if message.name:
            chat["name"] = message.name
    return chat


def merge_reported(
    seen: Sequence[ServedCall], reported: Sequence[JsonObject] | None, *, patched: bool
) -> tuple[ServedCall, ...]:
    """The calls seen at the patch points, together with those that only the agent's answer reports.

    What was seen stays as it was seen and in its order. A reported call that was not seen is put after the
    last seen one reported before it, with rule `live`; where there are patch points it carries a note,
    since they seem to miss that tool. Both lists are held together by name and, where they can be, by
    arguments (an agent may report them in another form).
    """
    waiting: dict[str, list[int]] = {}
    for index, served in enumerate(seen):
        waiting.setdefault(served.call.name, []).append(index)
    after: list[list[ServedCall]] = [[] for _ in range(len(seen) + 1)]
    last = -1
    for fields in reported or ():
        call = _reported_call(fields)
        place = _take(waiting.get(call.name, []), call, seen)
        if place is None:
            after[last + 1].append(ServedCall(call=call, rule=Rule.LIVE, note=NOT_SEEN if patched else None))
        else:
            last = max(last, place)
    merged = list(after[0])
    for served, more in zip(seen, after[1:], strict=True):
        merged += [served, *more]
    return tuple(
        replace(served, call=replace(served.call, index=index)) if served.call.index != index else served
        for index, served in enumerate(merged)
    )


def _take(waiting: list[int], call: ToolCall, seen: Sequence[ServedCall]) -> int | None:
    """Which of the seen calls of that name this is: the first with equal arguments, else the first."""
    if not waiting:
        return None
    if len(waiting) > 1:
        args = canonical_args(call.args)
        for index in waiting:
            if canonical_args(seen[index].call.args) == args:
                waiting.remove(index)
                return index
    return waiting.pop(0)


def _reported_call(fields: JsonObject) -> ToolCall:
    call: Any = fields
    error = call.get("error")
    return ToolCall(
        name=call["name"],
        args=call["args"],
        call_id=call["id"] if isinstance(call.get("id"), str) else None,
        result=call.get("result"),
        error=error if error is None or isinstance(error, str) else json.dumps(error),
        answered="result" in call or error is not None,
    )


def read_usage(value: Json) -> Usage | None:
    """Tokens in the words of OpenAI or Anthropic (or ours); None where the agent reports none.

    Anthropic counts cached input apart; here `input_tokens` holds everything the model read.
    """
    if not isinstance(value, dict):
        return None
    details = value.get("prompt_tokens_details") or value.get("input_tokens_details")
    cached = details if isinstance(details, dict) else {}
    apart = "cache_read_input_tokens" in value or "cache_creation_input_tokens" in value
    read = _count(value, "cache_read_tokens", "cache_read_input_tokens") or _count(cached, "cached_tokens")
    write = _count(value, "cache_write_tokens", "cache_creation_input_tokens")
    usage = Usage(
        input_tokens=_count(value, "input_tokens", "prompt_tokens") + (read + write if apart else 0),
        output_tokens=_count(value, "output_tokens", "completion_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
    )
    return usage if usage != _NONE_USED else None


def _count(values: JsonObject, *names: str) -> int:
    for name in names:
        value = values.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return int(value)
    return 0


def read_cost(value: Json) -> float | None:
    """US dollars, where the agent says what it cost."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    return None
