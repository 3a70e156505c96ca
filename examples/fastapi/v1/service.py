"""A support agent behind FastAPI: POST /chat. Rules take the place of a model, so that it needs no key."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

app = FastAPI()


class Chat(BaseModel):
    """What the caller sends; a replay adds the address that answers tool calls."""

    message: str
    tools_url: str | None = None


def get_order(order_id: str) -> str:
    """The tool as it runs in production."""
    return ("packed", "shipped", "delivered")[int(order_id) % 3]


def call_tool(name: str, args: dict[str, Any], tools_url: str | None) -> Any:
    """Run a tool, or in a replay ask for its recorded result."""
    if tools_url is None:
        return get_order(**args)
    request = urllib.request.Request(tools_url, json.dumps({"name": name, "args": args}).encode())
    try:
        with urllib.request.urlopen(request) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as stopped:
        with stopped:
            raise HTTPException(500, json.load(stopped)["stop"]) from None
    if "error" in answer:
        raise HTTPException(500, answer["error"])
    return answer["result"]


@app.post("/chat")
def chat(body: Chat) -> dict[str, Any]:
    """Answer a customer who asks for one or more orders."""
    calls = [
        {"name": "get_order", "args": {"order_id": number}} for number in re.findall(r"\d{4}", body.message)
    ]
    for call in calls:
        call["result"] = call_tool(call["name"], call["args"], body.tools_url)
    states = [f"Order {call['args']['order_id']} is {call['result']}." for call in calls]
    return {"reply": " ".join(states) or "Which order is it about?", "tool_calls": calls}
