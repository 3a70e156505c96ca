"""A server on this machine that answers as it is told, and stumbles where a test wants it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

CUT = "cut"
"""A stumble: the connection breaks in the middle of an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    path: str
    params: dict[str, list[str]]
    body: Any
    headers: dict[str, str]

    def param(self, name: str) -> str | None:
        """The first value of a parameter."""
        return self.params.get(name, [None])[0]

    @property
    def question(self) -> str:
        """All of it but the headers, to tell whether something was asked twice."""
        return json.dumps([self.method, self.path, self.params, self.body], sort_keys=True)


Answer = Callable[[Request], tuple[int, Any]]
"""Status and JSON for a request; bytes are sent as they are."""


@dataclass
class Loopback:
    """A running server. `stumbles` are taken one by one, in place of answers: statuses, or `CUT`."""

    url: str
    stumbles: Iterator[int | str | None]
    answered: list[Request] = field(default_factory=list)
    """What was answered whole, with a status below 400."""


@contextmanager
def serving(answer: Answer) -> Iterator[Loopback]:
    """Serve on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(None)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._serve(json.loads(content) if content else None)

        def do_PATCH(self) -> None:
            self.do_POST()

        def do_DELETE(self) -> None:
            self.do_POST()

        def _serve(self, body: Any) -> None:
            parts = urlsplit(self.path)
            headers = {key.lower(): value for key, value in self.headers.items()}
            request = Request(self.command, parts.path, parse_qs(parts.query), body, headers)
            stumble = next(state.stumbles, None)
            if isinstance(stumble, int):
                self._send(stumble, b'{"detail": "stumbled"}')
                return
            status, value = answer(request)
            payload = value if isinstance(value, bytes) else json.dumps(value).encode()
            if stumble == CUT:
                self._send(status, payload, len(payload) // 2)
                self.close_connection = True
                return
            if status < 400:
                state.answered.append(request)
            self._send(status, payload)

        def _send(self, status: int, payload: bytes, until: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(payload[:until])

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that was killed is no error."""

    server = Server(("127.0.0.1", 0), Handler)
    state = Loopback(f"http://127.0.0.1:{server.server_port}", iter(()))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
