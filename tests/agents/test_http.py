"""What a service may answer, and what it is sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from replaydiff.replay.agents import Outcome, Rules, build, exchange, http
from replaydiff.replay.errors import VersionError
from replaydiff.replay.model import Item, Message, Status, Version, VersionKind
from tests.stand_ins.loopback import Reply, Request, serving

JSON = "application/json"
SSE = "text/event-stream"


@dataclass
class Service:
    """A running service, and the requests that it got."""

    url: str
    received: list[Request]


@contextmanager
def service(kind: str, *parts: str | bytes, status: int = 200, **fields: str) -> Iterator[Service]:
    chunks = [part.encode() if isinstance(part, str) else part for part in parts]
    length = fields.pop("length", None)
    received: list[Request] = []

    def answer(request: Request) -> Reply:
        received.append(request)
        announced = None if length is None else int(length)
        return Reply(status=status, chunks=chunks, headers={"Content-Type": kind, **fields}, length=announced)

    with serving(answer) as server:
        yield Service(server.url, received)


def ask(server: Service, item: Item | None = None, **fields: Any) -> Outcome:
    version = Version(name="there", kind=VersionKind.HTTP, url=f"{server.url}/agent?v=2", **fields)

    async def once() -> Outcome:
        running = build(version, Rules(timeout_s=10.0))
        try:
            await running.start()
            return await running.run(item or Item(id="x", input="hello"), 3)
        finally:
            await running.close()

    return asyncio.run(once())


@pytest.mark.parametrize(
    ("kind", "parts", "said"),
    [
        (JSON, ('"plain"',), "plain"),
        (JSON + "; charset=utf-8", ('{"text": "a \\u00e9"}',), "a é"),
        ("text/plain", ("Zürich — ", "done"), "Zürich — done"),
        (SSE, ('data: {"delta": "a ', 'b"}\n\nda', 'ta: {"delta": "c"}\r\n\r\ndata: [DONE]\n\n'), "a bc"),
        (SSE, (': hello\nevent: x\nid: 3\ndata: {"delta":\ndata: "two lines"}\n\n',), "two lines"),
        (SSE, ('data: {"delta": "x"}\n\ndata: {"final_response": "whole"}',), "whole"),
        (SSE, ('data: {"delta": "a \u2028 b"}\n\n',), "a \u2028 b"),
        (
            "application/x-ndjson",
            ('{"delta": "a"}\n\n{"delta": "b"}\n', '{"usage": {}, "messages": []}'),
            "ab",
        ),
    ],
)
def test_answers(kind: str, parts: tuple[str, ...], said: str) -> None:
    with service(kind, *parts) as server:
        outcome = ask(server)
    assert (outcome.status, outcome.final_response) == (Status.OK, said), outcome.reason


@pytest.mark.parametrize(
    ("kind", "parts", "reason"),
    [
        (JSON, ("<html>",), "the agent answered application/json that is not JSON: "),
        ("text/html", ("<p>Not here",), "the agent answered text/html that is not JSON: "),
        (JSON, ("42",), "the agent returned an int (42); allowed is"),
        (JSON, ('{"status": "done"}',), "the agent returned a dict with status; allowed is"),
        (SSE, ("data: {\n\n",), "an event of the agent's stream is not JSON: "),
        (SSE, ("",), "the agent returned None; allowed is"),
        (JSON, ('{"error": "out of stock"}',), "out of stock"),
        (SSE, ('data: {"delta": "x"}\n\ndata: {"error": {"message": "cut"}}\n\n',), "cut"),
        (JSON, ("[" * 100_000,), "the agent answered application/json that is not JSON"),
    ],
)
def test_what_is_no_answer_is_the_agents_error(kind: str, parts: tuple[str, ...], reason: str) -> None:
    with service(kind, *parts) as server:
        outcome = ask(server)
    assert outcome.status is Status.AGENT_ERROR
    assert (outcome.reason or "").startswith(reason)


@pytest.mark.parametrize("kind", [JSON, SSE])
def test_an_answer_without_end_is_the_agents_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST", 1000)
    with service(kind, *["x" * 600] * 3) as server:
        outcome = ask(server)
    assert (outcome.status, outcome.reason) == (Status.AGENT_ERROR, exchange.TOO_LONG)


@pytest.mark.parametrize(
    ("status", "body", "fields", "expected"),
    [
        (429, '{"detail": "slow down"}', {"retry-after": "7"}, ("infra_error", "429 slow down", 7.0)),
        (503, "busy", {}, ("infra_error", "503 busy", None)),
        (500, '{"error": {"message": "KeyError: x"}}', {}, ("agent_error", "500 KeyError: x", None)),
        (
            422,
            '{"detail": "Field required"}',
            {},
            (
                "agent_error",
                "422 Field required (the body has the form of replay; set `request` of the version to send "
                "the service's own)",
                None,
            ),
        ),
        (404, "", {}, ("agent_error", "404 Not Found", None)),
        (302, "", {"location": "http://127.0.0.1:9/"}, ("agent_error", "302 Found", None)),
    ],
)
def test_error_statuses(
    status: int, body: str, fields: dict[str, str], expected: tuple[str, str, float | None]
) -> None:
    with service(JSON, body, status=status, **fields) as server:
        outcome = ask(server)
    assert (outcome.status.value, outcome.reason, outcome.retry_after_s) == expected


def test_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_AUTH", "Bearer secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    history = (
        Message(role="system", text="the prompt of another version"),
        Message(role="user", text="hello"),
        Message(role="assistant", text="hello!"),
        Message(role="user", text="order 1?"),
    )
    with service(JSON, '"x"') as server:
        item = Item(id="trace-7", input="order 1?", messages=history, conversation="9f2c")
        ask(server, item, args={"model": "m"}, header_env={"Authorization": "AGENT_AUTH"})
        [request] = server.received
    assert (request.path, request.params) == ("/agent", {"v": ["2"]})
    assert request.headers["authorization"] == "Bearer secret"
    assert request.body == {
        "replaydiff": 1,
        "trial": 0,
        "item": "trace-7",
        "thread": "9f2c",
        "index": 3,
        "input": "order 1?",
        "messages": [{"role": m.role, "content": m.text} for m in history[1:]],
        "args": {"model": "m"},
        "tools_url": None,
    }


def test_a_service_of_another_shape_is_sent_its_own_body_and_read_by_paths() -> None:
    reply = {
        "data": {"reply": "shipped"},
        "steps": [{"call": {"name": "look_up", "args": {"id": "1"}}}],
        "n": {"input_tokens": 3},
    }
    item = Item(id="t-1", input='say "hi"\n\\ ü <b>')
    with service(JSON, json.dumps(reply)) as server:
        outcome = ask(
            server,
            item,
            args={"model": "m"},
            request='{"message": {{ input | tojson }}, "thread": {{ item_id | tojson }}, "model": {{ args.model | tojson }}}',
            response={"text": "$.data.reply", "tool_calls": "$.steps[*].call", "usage": "$.n"},
        )
        [request] = server.received
    assert request.body == {"message": item.input, "thread": "t-1", "model": "m"}
    assert (outcome.status, outcome.final_response) == (Status.OK, "shipped")
    assert [(served.call.name, served.call.args) for served in outcome.served] == [("look_up", {"id": "1"})]
    assert outcome.usage is not None
    assert outcome.usage.input_tokens == 3


def test_texts_of_a_foreign_stream_are_joined() -> None:
    events = [{"choices": [{"delta": {"content": text}}]} for text in ("a", "b", None)] + [{"choices": []}]
    with service(SSE, *(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n") as server:
        outcome = ask(server, response={"text": "$.choices[0].delta.content"})
    assert (outcome.status, outcome.final_response) == (Status.OK, "ab")


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (JSON, '{"answer": "x"}', 'the response has nothing at $.reply: {"answer": "x"}'),
        (JSON, '{"reply": null}', 'the response has nothing at $.reply: {"reply": null}'),
        (JSON, '{"reply": ["x"]}', 'the response has ["x"] at $.reply, which is no text'),
        ("text/plain", "hello", "the agent answered text/plain that is not JSON"),
    ],
)
def test_a_response_without_text_at_its_path_is_the_agents_error(kind: str, body: str, reason: str) -> None:
    with service(kind, body) as server:
        outcome = ask(server, response={"text": "$.reply"})
    assert outcome.status is Status.AGENT_ERROR
    assert reason in str(outcome.reason)


def test_a_service_that_is_not_there_is_refused_at_once() -> None:
    version = Version(name="there", kind=VersionKind.HTTP, url="http://127.0.0.1:9/agent")

    async def start() -> None:
        running = build(version, Rules(timeout_s=1.0))
        try:
            await running.start()
        finally:
            await running.close()

    began = time.monotonic()
    with pytest.raises(VersionError, match=r"nothing answers at 127\.0\.0\.1:9 .*start the agent first"):
        asyncio.run(start())
    assert time.monotonic() - began < 5


def test_a_service_that_drops_a_connection_and_lives_has_not_crashed() -> None:
    with service(JSON, '{"text": "cut', length="100") as server:
        outcome = ask(server)
    assert outcome.status is Status.INFRA_ERROR
    assert (outcome.reason or "").startswith("the connection ended before the answer was there")
