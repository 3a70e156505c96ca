"""The Messages API over real HTTP: what is asked, what is tried again, and what stops everything."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time

import pytest
from anthropic.resources.messages.messages import DEPRECATED_MODELS

from replaydiff.replay.errors import CredentialsError, ReplayError, SettingsError, UnavailableError
from replaydiff.replay.llm import anthropic, openai_compatible
from replaydiff.replay.llm.base import ModelFailure, ModelReply, ModelRequest, Stop
from replaydiff.replay.model import Message
from tests.stand_ins.loopback import serving
from tests.stand_ins.messages_api import Fault, StandIn

SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "additionalProperties": False}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*anthropic.KEYS, "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)


def _request(**changes: object) -> ModelRequest:
    fields = {
        "model": "claude-opus-5-5",
        "system": "Help.",
        "messages": (Message(role="user", text="Where is order 12345?"),),
        "max_tokens": 100,
    }
    return ModelRequest(**{**fields, **changes})  # type: ignore[arg-type]


def _ask(url: str, request: ModelRequest | None = None, **options: object) -> ModelReply:
    async def ask() -> ModelReply:
        async with anthropic.connect(base_url=url, **options) as model:  # type: ignore[arg-type]
            return await model.complete(request or _request())

    return asyncio.run(ask())


def test_what_is_sent_and_what_comes_back() -> None:
    with StandIn(remember=True) as stand_in:
        reply = _ask(stand_in.url, _request(schema=SCHEMA))
        sent = stand_in.received[0].body
    assert sent["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert sent["messages"] == [{"role": "user", "content": "Where is order 12345?"}]
    assert not {"temperature", "top_p", "top_k", "tools"} & sent.keys()
    assert reply.stop is Stop.END
    assert reply.text
    assert reply.usage.input_tokens > 0 < reply.usage.output_tokens


def test_loopback_costs_nothing_and_gets_no_key_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving(lambda _: (200, MESSAGE)) as server:
        reply = _ask(server.url, retries=0)
    assert (reply.cost_usd, reply.attempts) == (0, 1)
    assert "sk-secret" not in str(server.answered[0].headers)


def test_the_environment_names_another_place_and_then_it_has_its_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with StandIn() as stand_in:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", stand_in.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")

        async def ask() -> ModelReply:
            async with anthropic.connect() as model:
                return await model.complete(_request())

        reply = asyncio.run(ask())
    usage = reply.usage
    assert reply.cost_usd == pytest.approx((usage.input_tokens * 4 + usage.output_tokens * 20) / 1e6)


def test_without_a_key_nothing_is_sent() -> None:
    with pytest.raises(CredentialsError, match="ANTHROPIC_API_KEY is not set"):
        _ask("https://api.anthropic.invalid")


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, retry_after=0.01),
        Fault(status=529, retry_after=0.01),
        Fault(status=500, retry_after=0),
        Fault(cut=True),
    ],
)
def test_passing_faults_are_tried_again(fault: Fault) -> None:
    with StandIn(faults=[fault, fault]) as stand_in:
        assert _ask(stand_in.url).attempts == 3


def test_a_time_out_is_tried_again() -> None:
    with StandIn(faults=[Fault(delay_s=0.6)]) as stand_in:
        assert _ask(stand_in.url, timeout_s=0.3).attempts == 2


def test_retry_after_is_obeyed_by_every_call() -> None:
    """While the provider wants to be left alone, calls that have not failed wait as well."""

    async def ask(url: str) -> list[float]:
        async with anthropic.connect(base_url=url) as model:
            began = time.monotonic()
            first = asyncio.create_task(model.complete(_request()))
            while not stand_in.received:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.15)
            await asyncio.gather(first, *(model.complete(_request()) for _ in range(3)))
            return [received.at - began for received in stand_in.received]

    with StandIn(faults=[Fault(status=429, retry_after=0.5)], remember=True) as stand_in:
        times = asyncio.run(ask(stand_in.url))
    assert len(times) == 5
    assert all(at >= 0.5 for at in times[1:])


def test_a_wait_of_an_hour_stops_everything() -> None:
    """It would be a silent wait; what is finished is kept, and the command says when to come back."""
    with (
        StandIn(faults=[Fault(status=429, retry_after=3600)]) as stand_in,
        pytest.raises(UnavailableError, match="asks to wait 60 minutes"),
    ):
        _ask(stand_in.url)


MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": "42"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 1},
}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"foo": 1}, "JSON that is no message, with status 200"),
        ([1], "JSON that is no message, with status 200"),
        ({**MESSAGE, "content": ["42"]}, "JSON that is no message, with status 200"),
        ({**MESSAGE, "content": [{"type": "text"}]}, "JSON that is no message, with status 200"),
        (b"<html>sign in</html>", "HTML with status 200 in place of JSON"),
        (b"", "nothing with status 200 in place of JSON"),
        (b"busy", "text with status 200 in place of JSON"),
        (json.dumps(MESSAGE).encode()[:60], "JSON that breaks off, with status 200"),
        (b'{"a": "\xff"}', "that cannot be read"),
    ],
)
def test_an_answer_that_is_no_message_is_tried_again_and_called_so(answer: object, words: str) -> None:
    answers = [answer, answer, MESSAGE]
    with serving(lambda _: (200, answers.pop(0))) as server:
        assert _ask(server.url).attempts == 3
    with (
        serving(lambda _: (200, answer)) as server,
        pytest.raises(ModelFailure, match=rf"http://127.*{words} \(1 tries\)") as failed,
    ):
        _ask(server.url, retries=0)
    assert failed.value.passing


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 5}])
def test_a_reply_whose_tokens_were_not_counted_is_an_answer(usage: object) -> None:
    """Gateways leave the usage out: what it cost is not known then."""
    with serving(lambda _: (200, {**MESSAGE, "usage": usage})) as server:
        assert _ask(server.url).text == "42"


def test_an_answer_that_never_ends_is_given_up() -> None:
    """Each byte comes in time; all of them never do."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        ended.release()

    async def ask() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for connect in (anthropic.connect, openai_compatible.connect):
            async with connect(base_url=url, retries=0, timeout_s=0.3) as model:
                with pytest.raises(ModelFailure, match="did not answer in time"):
                    await model.complete(_request())
                await ended.acquire()
        server.close()

    ended = asyncio.Semaphore(0)
    asyncio.run(ask())


def test_what_never_passes_is_that_calls_failure() -> None:
    faults = itertools.repeat(Fault(status=529, retry_after=0))
    with (
        StandIn(faults=faults) as stand_in,
        pytest.raises(ModelFailure, match=r"529 overloaded_error: .* \(3 tries\)"),
    ):
        _ask(stand_in.url, retries=2)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_request_is_sent_once_and_fails_alone(status: int) -> None:
    with StandIn(faults=[Fault(status=status)], remember=True) as stand_in:
        with pytest.raises(ModelFailure, match=f"refused: {status}"):
            _ask(stand_in.url)
        assert len(stand_in.received) == 1


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, CredentialsError, "does not accept the key"),
        (402, ReplayError, "wants to be paid"),
        (403, CredentialsError, "may not use claude-opus-5-5"),
        (404, SettingsError, "does not know claude-opus-5-5"),
    ],
)
def test_what_concerns_every_call_stops_everything(status: int, kind: type[Exception], words: str) -> None:
    with StandIn(faults=[Fault(status=status)], remember=True) as stand_in:
        with pytest.raises(kind, match=words):
            _ask(stand_in.url)
        assert len(stand_in.received) == 1


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("refusal", Stop.REFUSED),
        ("max_tokens", Stop.TRUNCATED),
        ("model_context_window_exceeded", Stop.TRUNCATED),
        ("pause_turn", Stop.UNKNOWN),
    ],
)
def test_refusal_and_truncation_are_states(reason: str, stop: Stop) -> None:
    with StandIn(faults=[Fault(stop_reason=reason)]) as stand_in:
        assert _ask(stand_in.url).stop is stop


def test_an_unreachable_place_is_named() -> None:
    with pytest.raises(ModelFailure, match=r"http://127\.0\.0\.1:9/? cannot be reached"):
        _ask("http://127.0.0.1:9", retries=0)


def test_a_model_near_its_end_of_life_is_told_once_and_not_by_python() -> None:
    [retired, *_] = DEPRECATED_MODELS
    assert "end of life" in (anthropic.retirement(retired) or "")
    assert anthropic.retirement("claude-opus-5-5") is None
    with StandIn() as stand_in:
        _ask(stand_in.url, _request(model="claude-sonnet-4-5"))
