"""A support model that looks orders up and cancels them, behind three APIs, and logs what it was asked.

    python model.py FOLDER      # prints its address; the log is FOLDER/calls.jsonl

Asked to cancel, it looks the order up first, unless the system prompt has the words "at once".
"""

from __future__ import annotations

import json
import re
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

Json = dict[str, Any]
START = datetime(2026, 10, 1, tzinfo=UTC)
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
"""What Claude Code adds to a user's message."""
USAGE = {"input_tokens": 40, "output_tokens": 8}


def text_of(content: Any) -> str:
    """Return the text of a message's content in any form."""
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("content") or content.get("output") or "")
    return str(content or "")


def decide(
    system: str, user: str, tools: list[str], called: list[str], results: list[str]
) -> tuple[str, Json] | str:
    """Return the next tool call, or the answer."""
    orders = re.findall(r"\b[A-Z]?\d{3}\b", user)
    if "ToolSearch" in tools:
        # Claude Code lists tools of servers elsewhere.
        tools = ["mcp__shop__get_order", "mcp__shop__cancel_order"]
    names = {name.rpartition("__")[2].lower().replace("_", ""): name for name in tools}
    called_names = {name.rpartition("__")[2].lower().replace("_", "") for name in called}
    if "task" in user and "addtask" in names:
        next_names = ["addtask", "listtasks"] if "add" in user else ["listtasks"]
        if "at once" in system and "addtask" in next_names:
            next_names.remove("listtasks")
        title = user.partition("task ")[2].rstrip(".")
        arguments = {"addtask": {"title": title}}
    elif not orders:
        return "Which order is it?"
    else:
        next_names = ["getorder", *(["cancelorder"] if "cancel" in user.lower() else [])]
        if "at once" in system and "cancelorder" in next_names:
            next_names.remove("getorder")
        key = "orderId" if any(name in tools for name in ("getOrder", "cancelOrder")) else "order_id"
        arguments = {name: {key: orders[0]} for name in next_names}
    for name in next_names:
        if name in names and name not in called_names:
            return names[name], arguments.get(name, {})
    return " ".join(["Here is what I did:", *results]) if results else f"About {user[:40]}"


def answer(path: str, body: Json) -> Json:
    """Return the response to a request, as if it were not a stream."""
    if path.endswith("/messages"):
        return messages(body)
    return responses(body) if path.endswith("/responses") else completions(body)


def messages(body: Json) -> Json:
    """Answer Anthropic's Messages API."""
    called, results, user = [], [], ""
    for message in body["messages"]:
        blocks = (
            message["content"]
            if isinstance(message["content"], list)
            else [{"type": "text", "text": message["content"]}]
        )
        texts = [REMINDER.sub("", block["text"]).strip() for block in blocks if block.get("type") == "text"]
        texts = [text for text in texts if text]
        if message["role"] == "user" and texts:
            called, results, user = [], [], texts[-1]
        called += [block["name"] for block in blocks if block.get("type") == "tool_use"]
        results += [text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
    tools = [tool["name"] for tool in body.get("tools") or ()]
    decision = decide(text_of(body.get("system")), user, tools, called, results)
    block: Json = {"type": "text", "text": decision}
    if not isinstance(decision, str):
        block = {"type": "tool_use", "id": f"toolu_{len(called)}", "name": decision[0], "input": decision[1]}
    reason = "end_turn" if isinstance(decision, str) else "tool_use"
    return {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "model": body["model"], "content": [block],
            "stop_reason": reason, "stop_sequence": None, "usage": USAGE}  # fmt: skip


def completions(body: Json) -> Json:
    """Answer OpenAI's chat completions."""
    system = " ".join(
        text_of(each["content"]) for each in body["messages"] if each["role"] in ("system", "developer")
    )
    users = [index for index, message in enumerate(body["messages"]) if message["role"] == "user"]
    after = body["messages"][users[-1] :]
    called = [call["function"]["name"] for message in after for call in message.get("tool_calls") or ()]
    results = [text_of(message["content"]) for message in after if message["role"] == "tool"]
    tools = [tool["function"]["name"] for tool in body.get("tools") or ()]
    decision = decide(system, text_of(after[0]["content"]), tools, called, results)
    message: Json = {"role": "assistant", "content": decision}
    if not isinstance(decision, str):
        function = {"name": decision[0], "arguments": json.dumps(decision[1])}
        call = {"id": f"call_{len(called)}", "index": 0, "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "stop" if isinstance(decision, str) else "tool_calls"
    usage = {"prompt_tokens": 40, "completion_tokens": 8, "total_tokens": 48}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": f"chat-{uuid4().hex}", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice],
            "usage": usage}  # fmt: skip


def responses(body: Json) -> Json:
    """Answer OpenAI's Responses API."""
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    users = [index for index, item in enumerate(items) if item.get("role") == "user"]
    after = items[users[-1] :]
    called = [item["name"] for item in after if item.get("type") == "function_call"]
    results = [text_of(item["output"]) for item in after if item.get("type") == "function_call_output"]
    tools = [tool["name"] for tool in body.get("tools") or () if tool.get("name")]
    decision = decide(str(body.get("instructions")), text_of(after[0]["content"]), tools, called, results)
    output: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": decision, "annotations": []}]}  # fmt: skip
    if not isinstance(decision, str):
        output = {"type": "function_call", "id": f"fc_{len(called)}", "call_id": f"call_{len(called)}", "name": decision[0],
                  "arguments": json.dumps(decision[1]), "status": "completed"}  # fmt: skip
    usage = {
        **USAGE,
        "total_tokens": 48,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {"id": f"resp_{uuid4().hex}", "object": "response", "created_at": 1, "model": body["model"], "status": "completed",
            "output": [output], "usage": usage, "tool_choice": "auto", "tools": [], "parallel_tool_calls": True}  # fmt: skip


def events(path: str, whole: Json) -> list[str]:
    """Return the events of a stream that carries a response."""
    if path.endswith("/chat/completions"):
        base = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        [choice] = whole["choices"]
        first = {"choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
        last = {
            "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}],
            "usage": whole["usage"],
        }
        return [
            *(f"data: {json.dumps({**base, **chunk})}\n\n" for chunk in (first, last)),
            "data: [DONE]\n\n",
        ]
    if path.endswith("/responses"):
        return [
            f"event: response.completed\ndata: {json.dumps({'type': 'response.completed', 'sequence_number': 0, 'response': whole})}\n\n"
        ]
    [block] = whole["content"]
    is_text = block["type"] == "text"
    delta = {"type": "text_delta", "text": block["text"]} if is_text else {
        "type": "input_json_delta", "partial_json": json.dumps(block["input"])}  # fmt: skip
    sent: list[Json] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {**block, **({"text": ""} if is_text else {"input": {}})},
        },
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": USAGE,
        },
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in sent]


def serve(log: Path) -> ThreadingHTTPServer:
    """Return a server that listens on loopback, and logs requests that offer tools."""
    lock, count = threading.Lock(), iter(range(10**9))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = self.path.partition("?")[0]
            if not path.endswith(("/messages", "/responses", "/chat/completions")):
                self.reply("application/json", json.dumps({"input_tokens": 1}))
                return
            whole = answer(path, body)
            if body.get("tools"):
                with lock, log.open("a") as file:
                    at = START + timedelta(minutes=37 * next(count))
                    file.write(
                        json.dumps({"created_at": at.isoformat(), "request": body, "response": whole}) + "\n"
                    )
            if body.get("stream"):
                self.reply("text/event-stream", "".join(events(path, whole)))
            else:
                self.reply("application/json", json.dumps(whole))

        def reply(self, kind: str, text: str, status: int = 200) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.reply("application/json", "{}", 404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


if __name__ == "__main__":
    server = serve(Path(sys.argv[1], "calls.jsonl"))
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
