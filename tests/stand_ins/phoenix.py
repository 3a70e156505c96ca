"""A Phoenix server on loopback: pages of spans, annotations, projects, as the real one answers.

`calls` lists what was asked. `faults` are answers to give first, in turn: an HTTP status, or `cut` for a
connection that breaks off in the middle of the answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class PhoenixServer(ThreadingHTTPServer):
    """The server, and what is in it: `spans` oldest first, as they arrived."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[dict[str, Any]] = []
        self.annotations: dict[str, list[dict[str, Any]]] = {"span": [], "trace": []}
        self.project = "default"
        self.key: str | None = None
        self.old = False
        """It knows no annotations of traces and does not look at `trace_id`."""
        self.largest_page = 1000
        """More spans at once are more than it can take."""
        self.down_after: int | None = None
        """From this many requests on it answers none."""
        self.calls: list[tuple[str, dict[str, list[str]]]] = []
        self.faults: list[int | str] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def phoenix() -> Iterator[PhoenixServer]:
    """A running server."""
    server = PhoenixServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: PhoenixServer

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        server = self.server
        server.calls.append((parts.path, asked))
        if server.key is not None and self.headers.get("authorization") != f"Bearer {server.key}":
            self._answer({"detail": "Invalid token"}, 401)
        elif server.down_after is not None and len(server.calls) > server.down_after:
            self._answer({"detail": "down for maintenance"}, 400)
        elif server.faults:
            self._fail(server.faults.pop(0))
        else:
            self._route([unquote(part) for part in parts.path.split("/")[2:]], asked)

    def _route(self, path: list[str], asked: dict[str, list[str]]) -> None:
        server = self.server
        if path[0] == "elsewhere":
            # What any path gets that is none of the API's.
            self._send(b"<!DOCTYPE html><title>Phoenix</title>", "text/html")
        elif path == ["projects"]:
            self._answer({"data": [{"id": "UHJvamVjdDox", "name": server.project}], "next_cursor": None})
        elif path[:2] != ["projects", server.project]:
            self._send(b"Project not found", "text/plain", 404)
        elif path[2:] == ["spans"]:
            self._spans(asked)
        elif path[2:] == ["span_annotations"] or (path[2:] == ["trace_annotations"] and not server.old):
            self._annotations(path[2].removesuffix("_annotations"), asked)
        else:
            self._send(b"<!DOCTYPE html><title>Phoenix</title>", "text/html")

    def _spans(self, asked: dict[str, list[str]]) -> None:
        """Newest arrival first; the cursor names the first span of the next page."""
        limit = int(asked.get("limit", ["100"])[0])
        if limit > self.server.largest_page:
            self._answer({"detail": "out of memory"}, 500)
            return
        found = [
            (number, span) for number, span in enumerate(self.server.spans) if self._is_asked_for(span, asked)
        ][::-1]
        if "cursor" in asked:
            found = [(number, span) for number, span in found if number <= int(asked["cursor"][0])]
        following = str(found[limit][0]) if len(found) > limit else None
        self._answer({"data": [span for _, span in found[:limit]], "next_cursor": following})

    def _is_asked_for(self, span: dict[str, Any], asked: dict[str, list[str]]) -> bool:
        start = datetime.fromisoformat(span["start_time"])
        if "start_time" in asked and start < datetime.fromisoformat(asked["start_time"][0]):
            return False
        if "end_time" in asked and start >= datetime.fromisoformat(asked["end_time"][0]):
            return False
        return self.server.old or span["context"]["trace_id"] in asked.get(
            "trace_id", [span["context"]["trace_id"]]
        )

    def _annotations(self, what: str, asked: dict[str, list[str]]) -> None:
        ids = asked.get(f"{what}_ids", [])
        if not {span["context"][f"{what}_id"] for span in self.server.spans} & set(ids):
            self._answer({"detail": f"None of the supplied {what}_ids exist in this project"}, 404)
            return
        start, limit = int(asked.get("cursor", ["0"])[0]), int(asked.get("limit", ["10"])[0])
        found = [one for one in self.server.annotations[what] if one[f"{what}_id"] in ids]
        following = str(start + limit) if len(found) > start + limit else None
        self._answer({"data": found[start : start + limit], "next_cursor": following})

    def _fail(self, fault: int | str) -> None:
        if isinstance(fault, int):
            self._answer({"detail": "fault"}, fault)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"data": [')
        self.close_connection = True

    def _answer(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)
