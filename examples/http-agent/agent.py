"""A support agent behind HTTP that replay can run: `python agent.py 8765`, then POST to /agent.

It runs its tools in production and asks the tape for their answers in a replay: that is `call_tool`. Standard
library only.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def real_tool(name: str, args: dict[str, Any]) -> Any:
    """What runs in production."""
    raise RuntimeError(f"{name}({args}): the shop is not reachable from an example")


def call_tool(name: str, args: dict[str, Any], tools_url: str | None) -> Any:
    """The tool's answer: from the tape where there is one."""
    if tools_url is None:
        return real_tool(name, args)
    request = urllib.request.Request(tools_url, json.dumps({"name": name, "args": args}).encode())
    try:
        with urllib.request.urlopen(request) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as over:
        with over:
            raise RuntimeError(json.load(over)["stop"]) from None
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["result"]


def run_agent(text: str, tools_url: str | None) -> str:
    """The agent. A real one would ask a model; this one needs no key."""
    order = re.search(r"\d{3,}", text)
    if order is None:
        return "Which order is it about?"
    status = call_tool("get_order_status", {"order_id": order[0]}, tools_url)
    return f"Order {order[0]} is {status}."


class Handler(BaseHTTPRequestHandler):
    """One POST a request."""

    def do_POST(self) -> None:
        """Answer a request; an exception becomes a 500 that says what it was."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            self._stream(run_agent(request["input"], request.get("tools_url")))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told
            body = json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
            self.send_response(500)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(body)

    def _stream(self, text: str) -> None:
        """The answer word by word, as an agent with a chat window sends it."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for word in re.findall(r"\S+\s*", text):
            self.wfile.write(f"data: {json.dumps({'delta': word})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"listening on port {server.server_address[1]}", flush=True)
    server.serve_forever()
