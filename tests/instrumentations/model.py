"""A model on loopback whose answers the prompt plans: chat completions, Responses and Messages, streamed too.

The last user message holds `PLAN [[["get_weather", {"city": "Oslo"}], …], …]`: the calls of each round. After
the last round the model answers. `PLAN null` is refused with HTTP 400.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

from tests.stand_ins.loopback import Reply, Request, reply, serving

INPUT_TOKENS, OUTPUT_TOKENS = 100, 20
"""Of every model call."""
FINAL = "final_answer"
"""The tool by which the agents of some frameworks answer."""


_FAILED = "Error executing tool"
_numbers = itertools.count()


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(_text(part.get("text", "")) for part in content or () if isinstance(part, dict))


def _plan(messages: list[dict[str, Any]]) -> tuple[Any, int, str]:
    """The plan of the newest prompt, how many of its rounds are done, and the name of its scenario."""
    done = 0
    for message in reversed(messages):
        content = message.get("content")
        text = _text(content)
        # smolagents puts its words about a call that failed behind the task.
        done += text.count(_FAILED) if message.get("role") != "tool" else 0
        if message.get("role") == "user" and "PLAN " in text:
            name = text.partition(": please help")[0].split()[-1]
            plan, _ = json.JSONDecoder().raw_decode(text.partition("PLAN ")[2].lstrip())
            return plan, done, name
        blocks = content if isinstance(content, list) else []
        told = text.startswith("Calling tools:")
        if message.get("tool_calls") or told or any(block.get("type") == "tool_use" for block in blocks):
            done += 1
    return [], 0, "none"


def _responses_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The input of the Responses API with calls in a row as one round."""
    found: list[dict[str, Any]] = []
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    for item in items:
        if item.get("type") == "function_call":
            if not (found and found[-1].get("tool_calls")):
                found.append({"role": "assistant", "tool_calls": [item]})
        else:
            found.append({"role": item.get("role", "tool"), "content": item.get("content", "")})
    return found


def answer(request: Request) -> tuple[int, Any] | Reply:
    """Answer a request of any of the three APIs as its prompt plans."""
    body, kind = request.body, request.path.rpartition("/")[2]
    messages = _responses_messages(body) if kind == "responses" else body["messages"]
    plan, done, name = _plan(messages)
    if plan is None:
        return 400, {"error": {"message": "refused", "type": "invalid_request_error"}}
    calls = plan[done] if done < len(plan) else []
    final = f"Answer to {name}."
    if not calls and FINAL in json.dumps(body.get("tools", [])):
        calls = [[FINAL, {"answer": final}]]
    text = None if calls else final
    named = [(f"call_{name}_{done}_{place}", *call) for place, call in enumerate(calls)]
    make = {"completions": _chat, "responses": _responses, "messages": _messages}[kind]
    whole, events = make(body, text, named)
    if body.get("stream"):
        return reply(200, "".join(events).encode(), {"Content-Type": "text/event-stream"})
    return 200, whole


Made = tuple[dict[str, Any], Iterator[str]]
Calls = list[tuple[str, str, dict[str, Any]]]


def _chat(body: dict[str, Any], text: str | None, calls: Calls) -> Made:
    listed = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for key, name, args in calls
    ]
    reason = "tool_calls" if calls else "stop"
    usage = {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if listed:
        message["tool_calls"] = listed
    head = {"id": f"chatcmpl-{next(_numbers)}", "created": 1793527200, "model": body.get("model", "stand-in")}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def events() -> Iterator[str]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in (text or "").partition(" ") if word]
        for place, call in enumerate(listed):
            function = call["function"]
            half = len(function["arguments"]) // 2
            first = {**function, "arguments": function["arguments"][:half]}
            deltas.append({"tool_calls": [{**call, "index": place, "function": first}]})
            rest = {"arguments": function["arguments"][half:]}
            deltas.append({"tool_calls": [{"index": place, "function": rest}]})
        chunk = {**head, "object": "chat.completion.chunk"}
        for delta in deltas:
            yield _data({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield _data({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        yield _data({**chunk, "choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    return whole, events()


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _named(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\n{_data(event)}"


def _messages(body: dict[str, Any], text: str | None, calls: Calls) -> Made:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": key, "name": name, "input": args} for key, name, args in calls]
    reason = "tool_use" if calls else "end_turn"
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    head = {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "stand-in"),
    }
    whole = {**head, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}

    def events() -> Iterator[str]:
        start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield _named({"type": "message_start", "message": start})
        for place, block in enumerate(content):
            empty = {**block, "text": ""} if "text" in block else {**block, "input": {}}
            yield _named({"type": "content_block_start", "index": place, "content_block": empty})
            written = block.get("text") or json.dumps(block.get("input"))
            half = len(written) // 2
            for part in (written[:half], written[half:]):
                delta = (
                    {"type": "text_delta", "text": part}
                    if "text" in block
                    else {"type": "input_json_delta", "partial_json": part}
                )
                yield _named({"type": "content_block_delta", "index": place, "delta": delta})
            yield _named({"type": "content_block_stop", "index": place})
        delta = {"stop_reason": reason, "stop_sequence": None}
        yield _named({"type": "message_delta", "delta": delta, "usage": usage})
        yield _named({"type": "message_stop"})

    return whole, events()


def _responses(body: dict[str, Any], text: str | None, calls: Calls) -> Made:
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{key}",
            "call_id": key,
            "name": name,
            "arguments": json.dumps(args),
            "status": "completed",
        }
        for key, name, args in calls
    ]
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        output.append(
            {
                "type": "message",
                "id": f"msg_{next(_numbers)}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    whole = {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "created_at": 1793527200,
        "model": body.get("model", "stand-in"),
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }

    def events() -> Iterator[str]:
        listed: list[dict[str, Any]] = [{"type": "response.created", "response": {**whole, "output": []}}]
        for place, item in enumerate(output):
            at = {"output_index": place, "item_id": item["id"]}
            listed.append({"type": "response.output_item.added", "output_index": place, "item": item})
            if "arguments" in item:
                done = {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
                listed.append({**done, **at, "name": item["name"]})
            else:
                within = {**at, "content_index": 0, "logprobs": []}
                part = item["content"][0]
                listed.append({"type": "response.content_part.added", **within, "part": {**part, "text": ""}})
                listed.append({"type": "response.output_text.delta", **within, "delta": part["text"]})
                listed.append({"type": "response.output_text.done", **within, "text": part["text"]})
            listed.append({"type": "response.output_item.done", "output_index": place, "item": item})
        listed.append({"type": "response.completed", "response": whole})
        for number, event in enumerate(listed):
            yield _named({**event, "sequence_number": number})

    return whole, events()


def main() -> None:
    """Serve on a free port, which is printed, until the standard input ends."""
    with serving(answer) as server:
        print(server.url.rpartition(":")[2], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
