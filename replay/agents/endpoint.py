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

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from replaydiff.replay.agents.attempt import Attempt
from replaydiff.replay.agents.exchange import LARGEST, decode, read_call
from replaydiff.replay.model import Json, JsonObject
from replaydiff.replay.serving import Reply, Request, Server


class Endpoint:
    """The server of one agent."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}
        self._server = Server(self._serve, largest=LARGEST)

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        await self._server.start()

    @contextmanager
    def address(self, attempt: Attempt) -> Iterator[str]:
        """The URL at which the tool calls of this attempt are answered, for as long as the context lasts."""
        url = self._server.url
        secret = secrets.token_urlsafe(24)
        self._attempts[secret] = attempt
        try:
            yield f"{url}/{secret}"
        finally:
            del self._attempts[secret]

    async def close(self) -> None:
        """Stop listening, and end what is still connected."""
        await self._server.close()

    async def _serve(self, request: Request, reply: Reply) -> None:
        status, answer = await self._answer(request.method, request.path, request.body)
        await reply.whole(status, "application/json", json.dumps(answer).encode())

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
