"""A server on this machine that answers as it is told, and stumbles where a test wants it to."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
    """JSON, parsed; of PUT the bytes."""
    headers: dict[str, str]

    def param(self, name: str) -> str | None:
        """The first value of a parameter."""
        return self.params.get(name, [None])[0]

    @property
    def question(self) -> str:
        """All of it but the headers, to tell whether something was asked twice."""
        return json.dumps([self.method, self.path, self.params, self.body], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer in bytes, for what a status and JSON cannot say."""

    status: int
    chunks: Iterable[bytes] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    """Bytes that are announced; where others come, the connection breaks."""


DROPPED = Reply(status=0)
"""The connection ends without an answer."""
Answer = Callable[[Request], tuple[int, Any] | Reply]
"""Status and JSON for a request; bytes are sent as they are."""


def reply(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """The answer with this JSON, or these bytes."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    kind = {"Content-Type": "application/json"}
    return Reply(status=status, chunks=(content,), headers=kind | dict(headers or {}), length=len(content))


def cut(whole: Reply) -> Reply:
    """An answer of which the second half never comes."""
    content = b"".join(whole.chunks)
    return replace(whole, chunks=(content[: len(content) // 2],))


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
        wbufsize = -1

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            params = parse_qs(parts.query, keep_blank_values=True)
            headers = {key.lower(): value for key, value in self.headers.items()}
            content = self.rfile.read(int(headers.get("content-length", 0)))
            body = content if self.command == "PUT" else json.loads(content) if content else None
            request = Request(self.command, parts.path, params, body, headers)
            stumble = next(state.stumbles, None)
            if isinstance(stumble, int):
                self._send(reply(stumble, {"detail": "stumbled"}))
                return
            answered = answer(request)
            whole = answered if isinstance(answered, Reply) else reply(*answered)
            if stumble == CUT:
                whole = cut(whole)
            elif whole.status < 400:
                state.answered.append(request)
            self._send(whole)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of the base class

        def _send(self, whole: Reply) -> None:
            if whole is DROPPED:
                self.close_connection = True
                return
            self.send_response(whole.status)
            for name, value in whole.headers.items():
                self.send_header(name, value)
            if whole.status == 429 and "retry-after" not in map(str.lower, whole.headers):
                self.send_header("Retry-After", "0")
            if whole.length is not None:
                self.send_header("Content-Length", str(whole.length))
            self.end_headers()
            sent = 0
            for chunk in whole.chunks:
                sent += self.wfile.write(chunk)
                self.wfile.flush()
            if sent != whole.length:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

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
