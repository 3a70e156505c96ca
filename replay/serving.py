"""A small HTTP/1.1 server on loopback, which agents in other processes connect to."""

from __future__ import annotations

import asyncio
import contextlib
import http
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

HOST = "127.0.0.1"
LARGEST = 64 * 1024 * 1024
"""Bytes of the longest message that agents exchange with us."""
HEAD_BYTES = 64 * 1024
"""Bytes of a head, and of a body, that are read from who does not know an address."""
PENDING_CONNECTIONS = 256
"""Connections without a request to a known address; one more closes the oldest."""
FIRST_REQUEST_S = 30.0
"""Seconds in which a connection must make its first request."""
BODY_S = 300.0
"""Seconds in which the rest of a request must follow its head."""
_LOOPBACK_HOST = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?", re.IGNORECASE)
_NOWHERE = "/"


@dataclass(frozen=True, slots=True)
class Request:
    """A request of an agent."""

    method: str
    path: str
    """With its query, as it was sent."""
    fields: Mapping[str, str]
    """Headers by their lower-case names."""
    body: bytes = b""


class Reply:
    """An answer, sent at once or piece by piece."""

    def __init__(self, writer: asyncio.StreamWriter, *, last: bool = False) -> None:
        self._writer, self._last = writer, last

    async def whole(
        self, status: int, kind: str, body: bytes, fields: Mapping[str, str] | None = None
    ) -> None:
        """Send a complete answer of a content type."""
        self._head(status, {**(fields or {}), "content-type": kind, "content-length": str(len(body))})
        self._writer.write(body)
        await self._writer.drain()

    async def begin(self, status: int, kind: str, fields: Mapping[str, str] | None = None) -> None:
        """Begin an answer whose pieces follow by `send`, and its end by `end`."""
        self._head(status, {**(fields or {}), "content-type": kind, "transfer-encoding": "chunked"})
        await self._writer.drain()

    async def send(self, piece: bytes) -> None:
        """Send a piece of the answer."""
        if piece:
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await self._writer.drain()

    async def end(self) -> None:
        """Complete the answer. Without this, the other side sees that it was cut off."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _head(self, status: int, fields: Mapping[str, str]) -> None:
        try:
            reason = http.HTTPStatus(status).phrase
        except ValueError:
            reason = ""
        if self._last:
            fields = {**fields, "connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._writer.write(f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n".encode("latin-1", "replace"))


class Server:
    """A server that passes each request to one function.

    Every process of this machine, and every web page in its browsers, can connect. So the head is checked
    before a body is read: a request for an unknown path, or for another host, gets few bytes and one answer.
    """

    def __init__(
        self,
        serve: Callable[[Request, Reply], Awaitable[None]],
        *,
        knows: Callable[[str], bool],
        largest: int,
    ) -> None:
        """Make a server.

        Args:
            serve: answers a request; those for unknown paths come without a body.
            knows: whether a path, with its query, contains the secret of an address that is open.
            largest: the most bytes of a request's body.
        """
        self._serve, self._knows, self._largest = serve, knows, largest
        self._pending: dict[asyncio.StreamWriter, None] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve_connection, HOST, 0, limit=HEAD_BYTES)

    async def accept_from(self, listener: socket.socket) -> asyncio.Server:
        """Serve another listening socket, such as one of another network namespace, until it is closed."""
        return await asyncio.start_server(self._serve_connection, sock=listener, limit=HEAD_BYTES)

    @property
    def port(self) -> int:
        """Return the port of loopback at which it listens."""
        if self._server is None:
            raise RuntimeError("the server was not started")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Return its URL, without a slash at the end."""
        return f"http://{HOST}:{self.port}"

    async def close(self) -> None:
        """Stop listening, and end what is still connected. May be called at any time."""
        if self._server is not None:
            self._server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await self._server.wait_closed()

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        self._register_pending(writer)
        try:
            async with asyncio.timeout(FIRST_REQUEST_S) as first:
                head = await _head(reader)
                if head is not None and self._is_served(head):
                    first.reschedule(None)
                    self._pending.pop(writer, None)
                    await self._exchange(head, reader, writer)
                elif head is not None:
                    await self._reject(head, reader, writer)
        except (ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Not HTTP as we speak it, too slow (`TimeoutError` is an `OSError`), or cut off.
            pass
        except asyncio.CancelledError:
            # The server is being closed, and a handler that ends cancelled would be logged as an error.
            pass
        finally:
            self._pending.pop(writer, None)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    def _register_pending(self, writer: asyncio.StreamWriter) -> None:
        # The oldest is closed: an agent sends its request at once, an idle connection does not.
        if len(self._pending) >= PENDING_CONNECTIONS:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.transport.abort()
        self._pending[writer] = None

    def _is_served(self, head: Request) -> bool:
        # A web page that lets its own name point to 127.0.0.1 sends that name.
        is_loopback_name = _LOOPBACK_HOST.fullmatch(head.fields.get("host", HOST)) is not None
        return is_loopback_name and self._knows(head.path)

    async def _exchange(
        self, head: Request | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer requests until one is for no known address."""
        while head is not None:
            if not self._is_served(head):
                await self._reject(head, reader, writer)
                return
            if head.fields.get("expect", "").lower() == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            async with asyncio.timeout(BODY_S):
                body = await _body(reader, head.fields, self._largest)
            await self._serve(replace(head, body=body), Reply(writer))
            if head.fields.get("connection", "").lower() == "close":
                return
            head = await _head(reader)

    async def _reject(
        self, head: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a request without its body, and read little of that, so that the answer arrives."""
        await self._serve(replace(head, path=_NOWHERE), Reply(writer, last=True))
        async with asyncio.timeout(FIRST_REQUEST_S):
            await _body(reader, head.fields, HEAD_BYTES)


async def _head(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request without its body; None where the other side has closed."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        if not cut.partial:
            return None
        raise
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    fields = (line.partition(":") for line in lines if line)
    return Request(method, path, {name.strip().lower(): value.strip() for name, _, value in fields})


async def _body(reader: asyncio.StreamReader, fields: Mapping[str, str], largest: int) -> bytes:
    if "chunked" in fields.get("transfer-encoding", "").lower():
        parts, total = [], 0
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            total += size
            if total > largest:
                raise ValueError("too long")
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return b"".join(parts)
    length = int(fields.get("content-length", 0))
    if not 0 <= length <= largest:
        raise ValueError("too long")
    return await reader.readexactly(length)
