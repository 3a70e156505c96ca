"""The tape over HTTP, on loopback: where agents that are no Python entrypoint have their tool calls answered.

Each trial has an address of its own, with a secret in it that nobody else knows and that ends with the trial.

    POST tools_url   {"name": "get_order_status", "args": {"order_id": "1"}}
    200  {"result": …}        what the tool answered
    200  {"error": "text"}    the tool failed: raise it as the tool would have
    200  {"live": 3}          run the tool; {"ran": 3, "result": …} to the same address tells what it gave
    409  {"stop": "why"}      the trial is over: nothing can answer this call. End.
    404  {"stop": "why"}      no such trial (any more)

`name` and `args` are also understood as OpenAI (`function.name`, `arguments` as text) and Anthropic (`input`)
write them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from replay.agents.attempt import Attempt
from replay.agents.exchange import LARGEST, decode, read_call
from replay.model import Json, JsonObject

HOST = "127.0.0.1"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict"}


class Endpoint:
    """The server of one agent."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._serve, HOST, 0)

    @contextmanager
    def address(self, attempt: Attempt) -> Iterator[str]:
        """The URL at which the tool calls of this attempt are answered, for as long as the context lasts."""
        if self._server is None:
            raise RuntimeError("the endpoint was not started")
        secret = secrets.token_urlsafe(24)
        self._attempts[secret] = attempt
        try:
            yield f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/{secret}"
        finally:
            del self._attempts[secret]

    async def close(self) -> None:
        """Stop listening, and end what is still connected."""
        if self._server is not None:
            self._server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            while (head := await _head(reader)) is not None:
                method, path, fields = head
                if fields.get("expect", "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                status, answer = await self._answer(method, path, await _body(reader, fields))
                body = json.dumps(answer).encode()
                writer.write(
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
                if fields.get("connection", "").lower() == "close":
                    break
        except (ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Not HTTP as we speak it, or cut off: there is nobody left to tell.
            pass
        except asyncio.CancelledError:
            # The server is being closed, and a handler that ends cancelled would be complained of.
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, method: str, path: str, body: bytes) -> tuple[int, JsonObject]:
        attempt = self._attempts.get(path.partition("?")[0].removeprefix("/"))
        if attempt is None:
            return 404, {"stop": "there is no such trial, or it is over"}
        if method != "POST":
            return 405, {"error": "a tool call is a POST of {name, args}"}
        try:
            asked = decode(body)
        except ValueError as error:
            return 400, {"error": f"the tool call is no JSON: {error}"}
        if isinstance(asked, dict) and "ran" in asked:
            return self._told(attempt, asked)
        call = read_call(asked) if isinstance(asked, dict) else None
        if call is None:
            return 400, {"error": 'a tool call is an object: {"name": "…", "args": {…}}'}
        answer = attempt.answer(call)
        settled = answer if isinstance(answer, dict) else await answer
        return (409 if "stop" in settled else 200), settled

    def _told(self, attempt: Attempt, told: JsonObject) -> tuple[int, JsonObject]:
        try:
            error: Json = told.get("error")
            attempt.ran({**told, "error": error if error is None else str(error)})
        except (IndexError, TypeError):
            return 400, {"error": "`ran` is the number that `live` gave"}
        return 200, {}


async def _head(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]] | None:
    """Method, path and fields of the next request; None where the other side has closed."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        if not cut.partial:
            return None
        raise
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    fields = (line.partition(":") for line in lines)
    return method, path, {name.strip().lower(): value.strip() for name, _, value in fields}


async def _body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    if "chunked" in fields.get("transfer-encoding", "").lower():
        parts, total = [], 0
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            total += size
            if total > LARGEST:
                raise ValueError("too long")
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return b"".join(parts)
    length = int(fields.get("content-length", 0))
    if not 0 <= length <= LARGEST:
        raise ValueError("too long")
    return await reader.readexactly(length)
