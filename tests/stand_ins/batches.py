"""Message Batches on loopback, as the API answers them: strict about what it takes, in no hurry, in any order.

A batch is `in_progress` for as many looks as `patience` says, then `ended`; only then are there counts and
results. Where a request stops is up to the test: `at` names a moment (`created`, `looked`, `half`), and what it
gives is done there.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

CUT, REFUSE = "cut", "refuse"
"""What happens at a moment: the connection breaks; the request is answered with 500."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PATH = "/v1/messages/batches"


def good(_: dict[str, Any]) -> str:
    """The best score for everything."""
    return json.dumps({"reasoning": "It says what is needed.", "score": 3})


@dataclass
class Batch:
    """What was sent, and how often it was looked at."""

    id: str
    requests: list[dict[str, Any]]
    created_at: datetime
    looks: int = 0


@dataclass
class BatchServer:
    """A running stand-in."""

    url: str = ""
    say: Callable[[dict[str, Any]], str | dict[str, Any]] = good
    """The text of an answer to the params of a request; or the result itself."""
    patience: int = 1
    """Looks at a batch before it has ended."""
    at: Callable[[str], str | None] = lambda _: None
    """Called at each moment."""
    archived: bool = False
    """Whether the results of batches are there no longer."""
    batches: dict[str, Batch] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Method and path of every request, in order."""

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Every question that was ever taken."""
        return [request for batch in self.batches.values() for request in batch.requests]

    def create(self, body: Any) -> tuple[int, Any]:
        requests = body["requests"]
        names = [request["custom_id"] for request in requests]
        if not names or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
            return _error(400, "invalid_request_error", "requests: custom_id must be unique and match")
        if any(params.get("stream") or "max_tokens" not in params for params in _params(requests)):
            return _error(400, "invalid_request_error", "requests: params are those of a message")
        name = f"msgbatch_{len(self.batches):04d}"
        self.batches[name] = Batch(name, requests, datetime.now(UTC))
        return 200, self.shown(self.batches[name])

    def shown(self, batch: Batch) -> dict[str, Any]:
        ended = batch.looks > self.patience
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for request in batch.requests:
            counts[self.result(request)["type"] if ended else "processing"] += 1
        times = {"created_at": batch.created_at, "expires_at": batch.created_at + timedelta(days=1)}
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            **{key: value.isoformat() for key, value in times.items()},
            "ended_at": datetime.now(UTC).isoformat() if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.url}{_PATH}/{batch.id}/results" if ended and not self.archived else None,
        }

    def result(self, request: dict[str, Any]) -> dict[str, Any]:
        said = self.say(request["params"])
        return said if isinstance(said, dict) else {"type": "succeeded", "message": _message(request, said)}

    def lines(self, batch: Batch) -> list[bytes]:
        """The results, in another order than the questions."""
        return [
            json.dumps({"custom_id": request["custom_id"], "result": self.result(request)}).encode() + b"\n"
            for request in reversed(batch.requests)
        ]


def errored(kind: str = "invalid_request_error", message: str = "no") -> dict[str, Any]:
    """The result of a request that failed."""
    return {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": message}}}


def message(text: str, stop: str = "end_turn") -> dict[str, Any]:
    """The result of a request that was answered."""
    return {
        "type": "succeeded",
        "message": {**_message({"params": {"model": "m"}}, text), "stop_reason": stop},
    }


@contextmanager
def serving(server: BatchServer) -> Iterator[BatchServer]:
    """Serve on a free port."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                server.asked.append(f"POST {self.path}")
                status, answer = server.create(body) if self.path == _PATH else _not_found()
            self._then("created", status, answer)

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            name = parts.path.removeprefix(_PATH).strip("/").removesuffix("/results")
            with lock:
                server.asked.append(f"GET {self.path}")
                if not name:
                    self._send(200, _json(_page(server, parse_qs(parts.query))))
                    return
                if name not in server.batches:
                    self._send(*_flat(_not_found()))
                    return
                batch = server.batches[name]
                if not parts.path.endswith("/results"):
                    batch.looks += 1
            if parts.path.endswith("/results"):
                self._results(batch)
            else:
                self._then("looked", 200, server.shown(batch))

        def _results(self, batch: Batch) -> None:
            lines = server.lines(batch)
            half = len(lines) // 2
            self.send_response(200)
            self.send_header("content-type", "application/binary")
            self.send_header("content-length", str(sum(map(len, lines))))
            self.end_headers()
            self.wfile.write(b"".join(lines[:half]))
            self.wfile.flush()
            if server.at("half") is not None:
                self.close_connection = True
                return
            self.wfile.write(b"".join(lines[half:]))

        def _then(self, moment: str, status: int, answer: Any) -> None:
            happens = server.at(moment)
            if happens == CUT:
                self.close_connection = True
            elif happens == REFUSE:
                self._send(*_flat(_error(500, "api_error", "it broke")))
            else:
                self._send(status, _json(answer))

        def _send(self, status: int, payload: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that was killed is no error."""

    http = Server(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _params(requests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from (request["params"] for request in requests)


def _message(request: dict[str, Any], text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["params"]["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch"},
    }


def _page(server: BatchServer, query: dict[str, list[str]]) -> dict[str, Any]:
    newest = list(reversed(server.batches.values()))
    names = [batch.id for batch in newest]
    start = names.index(query["after_id"][0]) + 1 if "after_id" in query else 0
    limit = int(query.get("limit", ["20"])[0])
    for batch in newest:
        batch.looks += 1
    shown = [server.shown(batch) for batch in newest[start : start + limit]]
    return {
        "data": shown,
        "has_more": start + limit < len(names),
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _error(status: int, kind: str, said: str) -> tuple[int, Any]:
    return status, {"type": "error", "error": {"type": kind, "message": said}}


def _not_found() -> tuple[int, Any]:
    return _error(404, "not_found_error", "not found")


def _flat(answer: tuple[int, Any]) -> tuple[int, bytes]:
    return answer[0], _json(answer[1])


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
