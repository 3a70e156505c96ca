"""A model that calls the tools that the user's message names, behind the APIs of OpenAI and Anthropic.

The last user message is JSON: rounds of calls, each `[name, args]`. After the last round the answer is the
text of all results, so a test sees what the model was given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.stand_ins.loopback import Reply, Request, reply, serving


@contextmanager
def model() -> Iterator[str]:
    """Yield the base URL of a model that listens on loopback."""
    with serving(_answer) as server:
        yield server.url


def _answer(request: Request) -> Reply:
    if request.method != "POST":
        return reply(404, b"")
    kind, text = "application/json", json.dumps({"input_tokens": 1})
    if request.path.endswith("/chat/completions"):
        kind, text = _chat(request.body)
    elif request.path.endswith("/messages"):
        kind, text = _messages(request.body)
    return reply(200, text.encode(), {"Content-Type": kind})


def _next(rounds: list[Any], done: int, results: list[str]) -> tuple[list[tuple[str, Any]], str]:
    """Return the calls of the next round, or none and the answer."""
    if done < len(rounds):
        return [(name, args) for name, args in rounds[done]], ""
    return [], " ".join(results)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if isinstance(part, dict))


def _rounds(text: str) -> list[Any]:
    try:
        rounds = json.loads(text)
    except ValueError:
        return []
    return rounds if isinstance(rounds, list) else []


def _chat(body: dict[str, Any]) -> tuple[str, str]:
    messages = body["messages"]
    user = max(index for index, message in enumerate(messages) if message["role"] == "user")
    after = messages[user + 1 :]
    done = sum(bool(message.get("tool_calls")) for message in after)
    results = [_text(message["content"]) for message in after if message["role"] == "tool"]
    calls, text = _next(_rounds(_text(messages[user]["content"])), done, results)
    tool_calls = [
        {
            "id": f"call_{done}_{index}",
            "index": index,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        for index, (name, args) in enumerate(calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if tool_calls:
        message["tool_calls"] = tool_calls
    reason = "tool_calls" if tool_calls else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    base = {"id": f"chat-{done}", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole)
    chunks = [
        {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    lines = [json.dumps({**base, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return "text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])


def _messages(body: dict[str, Any]) -> tuple[str, str]:
    messages = body["messages"]
    done, results, rounds = 0, list[str](), list[Any]()
    for message in messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        if message["role"] == "assistant":
            done += any(block.get("type") == "tool_use" for block in blocks)
            continue
        results += [_text(block["content"]) for block in blocks if block.get("type") == "tool_result"]
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        for text in texts or ([message["content"]] if isinstance(message["content"], str) else []):
            rounds = _rounds(text) or rounds
    calls, text = _next(rounds, done, results)
    blocks = [
        {"type": "tool_use", "id": f"toolu_{done}_{index}", "name": name, "input": args}
        for index, (name, args) in enumerate(calls)
    ] or [{"type": "text", "text": text or "done"}]
    usage = {"input_tokens": 10, "output_tokens": 2}
    base = {
        "id": f"msg_{done}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "stop_sequence": None,
    }
    reason = "tool_use" if calls else "end_turn"
    if not body.get("stream"):
        return "application/json", json.dumps(
            {**base, "content": blocks, "stop_reason": reason, "usage": usage}
        )
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**base, "content": [], "stop_reason": None, "usage": usage}}
    ]
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        empty = {**block, **({"text": ""} if is_text else {"input": {}})}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": reason, "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "text/event-stream", "".join(lines)
