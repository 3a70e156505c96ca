"""A stand-in for the APIs of two vendors: Messages and chat completions, streaming too. No two answers are alike."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.stand_ins.loopback import Reply, Request, reply, serving


@dataclass
class Models:
    """A running stand-in."""

    url: str = ""
    asked: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    """Path, body and headers of every request."""
    statuses: list[int] = field(default_factory=list)
    """Error statuses for the next requests, one by one."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> tuple[int, Any] | Reply:
        """Status and body."""
        with self.lock:
            self.asked.append((request.path, request.body, request.headers))
            number = len(self.asked)
            status = self.statuses.pop(0) if self.statuses else 200
        if status != 200:
            error = {"type": "overloaded_error", "message": "too busy"}
            return status, {"type": "error", "error": error}
        name = request.path.rpartition("/")[2]
        if request.body.get("stream"):
            kind = {"Content-Type": "text/event-stream; charset=utf-8"}
            return reply(200, _STREAMS[name](request.body, number).encode(), kind)
        return 200, _ANSWERS[name](request.body, number)


@contextmanager
def models() -> Iterator[Models]:
    """Serve on a free port."""
    state = Models()
    with serving(state.answer) as server:
        state.url = server.url
        yield state


def _message(body: dict[str, Any], number: int) -> dict[str, Any]:
    """The tool first, then an answer."""
    done = any(isinstance(turn["content"], list) for turn in body["messages"])
    tool = {"type": "tool_use", "id": f"toolu_{number}", "name": "look_up", "input": {"order_id": "7"}}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": f"answer {number}"}] if done else [tool],
        "stop_reason": "end_turn" if done else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 10},
    }


def _messages_stream(body: dict[str, Any], number: int) -> str:
    message = {**_message({"messages": [{"content": []}]}, number), "content": [], "stop_reason": None}
    message["usage"] = {"input_tokens": 100, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": f"said {number}"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": f"toolu_{number}", "name": "look_up", "input": {}},
        },
        *(
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": part},
            }
            for part in ('{"order', '_id": "7"}')
        ),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 10},
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _chat(body: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "model": "gpt-known",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": f"said {number}"}}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 20},
    }


def _chat_stream(body: dict[str, Any], number: int) -> str:
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "model": "gpt-known"}
    call = {"index": 0, "id": f"call_{number}", "type": "function"}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "said "},
        {"content": str(number)},
        {"tool_calls": [{**call, "function": {"name": "look_up", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"order_id": "7"}'}}]},
    ]
    chunks: list[dict[str, Any]] = [{**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 200, "completion_tokens": 20}
        chunks.append({**head, "choices": [], "usage": usage})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _response(body: dict[str, Any], number: int) -> dict[str, Any]:
    """OpenAI's Responses: the tool first, then an answer."""
    done = any(item.get("type") == "function_call_output" for item in body["input"])
    call = {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "look_up",
        "arguments": '{"order_id": "7"}',
    }
    text = {"type": "output_text", "text": f"said {number}", "annotations": []}
    message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "status": "completed",
        "model": "gpt-known",
        "output": [message if done else call],
        "usage": {"input_tokens": 300, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 30},
    }


def _response_stream(body: dict[str, Any], number: int) -> str:
    whole = _response(body, number)
    events = [
        {
            "type": "response.created",
            "response": {**whole, "status": "in_progress", "output": [], "usage": None},
        },
        {"type": "response.output_item.added", "output_index": 0, "item": whole["output"][0]},
        {"type": "response.completed", "response": whole},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


_ANSWERS = {"messages": _message, "completions": _chat, "responses": _response}
_STREAMS = {"messages": _messages_stream, "completions": _chat_stream, "responses": _response_stream}
