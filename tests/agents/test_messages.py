"""Agents without code: what the model is told, how its tools are answered, what becomes of its failures."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from replaydiff.replay.agents import Agent, Outcome, Rules, build
from replaydiff.replay.errors import CredentialsError, SettingsError, VersionError
from replaydiff.replay.llm import anthropic
from replaydiff.replay.model import (
    Item,
    Message,
    MissReason,
    Rule,
    ServedCall,
    Status,
    ToolCall,
    Version,
    VersionKind,
)
from replaydiff.replay.settings import Price
from tests.agents.running import calls, recorded
from tests.stand_ins.messages_api import Fault, StandIn

SYSTEM = "You help with orders. Always look up an order first before you answer."
TOOL = {
    "type": "function",
    "function": {
        "name": "get_order_status",
        "description": "The status of an order.",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
    },
}
SHIPPED = recorded("get_order_status", {"order_id": "12345", "status": "shipped"}, order_id="12345")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*anthropic.KEYS, "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn(remember=True) as running:
        yield running


def asked(*tape: ToolCall, **fields: Any) -> Item:
    text = "Where is my order 12345?"
    return Item(
        **{
            "id": "trace-1",
            "input": text,
            "messages": (Message(role="system", text=SYSTEM), Message(role="user", text=text)),
            "tape": tape,
            "model": "claude-haiku-4-5",
            "metadata": {"tools": [TOOL]},
            **fields,
        }
    )


def agent(
    url: str, *, single: bool = False, prices: Any = None, timeout_s: float = 20.0, **fields: Any
) -> Agent:
    version = Version(name="messages", kind=VersionKind.MESSAGES, env={"ANTHROPIC_BASE_URL": url}, **fields)
    return build(version, Rules(timeout_s=timeout_s, concurrency=2, single=single, prices=prices))


def run(url: str, *items: Item, **options: Any) -> list[Outcome]:
    async def all_of_them() -> list[Outcome]:
        running = agent(url, **options)
        try:
            await running.start()
            return [await running.run(item, 0) for item in items]
        finally:
            await running.close()

    return asyncio.run(all_of_them())


def test_the_loop_runs_here_with_tools_from_the_tape(stand_in: StandIn) -> None:
    [outcome] = run(stand_in.url, asked(SHIPPED))
    assert outcome.status is Status.OK, outcome.reason
    assert calls(outcome) == [("get_order_status", {"order_id": "12345"}, "tape")]
    assert "shipped" in (outcome.final_response or "")
    first, second = (received.body for received in stand_in.received)
    assert first["model"] == "claude-haiku-4-5"
    assert first["system"] == SYSTEM
    assert first["messages"] == [{"role": "user", "content": "Where is my order 12345?"}]
    assert first["tools"] == [
        {
            "name": "get_order_status",
            "description": "The status of an order.",
            "input_schema": TOOL["function"]["parameters"],
        }
    ]
    request, answer = second["messages"][1:]
    assert request["content"][0]["name"] == "get_order_status"
    assert answer["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": request["content"][0]["id"],
            "content": '{"order_id": "12345", "status": "shipped"}',
        }
    ]
    assert outcome.usage is not None
    assert outcome.usage.input_tokens > 0
    assert outcome.cost_usd == 0
    assert outcome.latency_ms is not None
    assert outcome.latency_ms > 0


def test_a_setup_goes_before_the_trace_and_a_model_before_both(stand_in: StandIn) -> None:
    setup = {"system": "Be brief.", "model": "claude-opus-5-5", "max_tokens": 77, "tools": []}
    run(stand_in.url, asked(), setup=setup)
    run(stand_in.url, asked(), setup=setup, args={"model": "claude-sonnet-5-5", "top_p": 0.9})
    first, second = (received.body for received in stand_in.received)
    assert (first["system"], first["model"], first["max_tokens"]) == ("Be brief.", "claude-opus-5-5", 77)
    assert "tools" not in first
    assert (second["model"], second["top_p"]) == ("claude-sonnet-5-5", 0.9)


def test_a_recorded_conversation_is_mended_until_the_api_takes_it(stand_in: StandIn) -> None:
    call = ToolCall(name="get_order_status", args={"order_id": "1"}, call_id="call_id", answered=False)
    history = (
        Message(role="assistant", text="Hello!"),
        Message(role="user", text="Order 1?"),
        Message(role="assistant", tool_calls=(call, call)),
        Message(role="tool", text="shipped", name="get_order_status"),
        Message(role="assistant", text="It is shipped."),
        Message(role="user", text="Thanks."),
        Message(role="user", text="And 12345?"),
    )
    run(stand_in.url, asked(SHIPPED, messages=history))
    assert stand_in.received[0].body["messages"] == [
        {"role": "user", "content": "(the conversation begins here)"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Order 1?"},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": f"call_{n}",
                    "name": "get_order_status",
                    "input": {"order_id": "1"},
                }
                for n in (0, 1)
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_0", "content": "shipped"},
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": "(no result was recorded)",
                    "is_error": True,
                },
            ],
        },
        {"role": "assistant", "content": "It is shipped."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Thanks."}, {"type": "text", "text": "And 12345?"}],
        },
    ]


def test_a_miss_stops_the_trial_and_what_it_took_is_counted(stand_in: StandIn) -> None:
    [outcome] = run(stand_in.url, asked(recorded("get_order_status", "x", order_id="9")))
    assert outcome.status is Status.DIVERGED
    assert (outcome.reason or "").startswith(
        'get_order_status(order_id="12345"): never recorded; the nearest'
    )
    assert outcome.usage is not None
    assert len(stand_in.received) == 1


def test_what_the_conversation_wrote_before_makes_a_read_stale(stand_in: StandIn) -> None:
    wrote = ServedCall(call=recorded("cancel_order", "ok", order_id="12345"), rule=Rule.TAPE)
    after = recorded("get_order_status", "cancelled", order_id="12345")
    stale, whole = run(
        stand_in.url,
        replace(asked(SHIPPED, wrote.call), before=(wrote,)),
        replace(asked(SHIPPED, wrote.call, after), before=(wrote,)),
    )
    assert (stale.status, stale.served[-1].miss) == (Status.DIVERGED, MissReason.STALE)
    assert [served.call.result for served in whole.served] == ["cancelled"]


def test_in_step_mode_the_next_action_is_all_that_is_asked_for(stand_in: StandIn) -> None:
    same, other = run(
        stand_in.url, asked(SHIPPED), asked(recorded("get_order_status", "x", order_id="9")), single=True
    )
    assert [(one.status, one.final_response) for one in (same, other)] == [(Status.OK, None)] * 2
    assert calls(same) == [("get_order_status", {"order_id": "12345"}, "tape")]
    assert calls(other) == [("get_order_status", {"order_id": "12345"}, "miss")]
    assert len(stand_in.received) == 2


def test_tokens_have_the_price_of_the_model_that_was_asked(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", stand_in.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    version = Version(name="messages", kind=VersionKind.MESSAGES)

    async def once() -> Outcome:
        running = build(version, Rules(timeout_s=20, prices={"claude-haiku-4-5": Price(input=1e6, output=0)}))
        await running.start()
        try:
            return await running.run(asked(SHIPPED), 0)
        finally:
            await running.close()

    outcome = asyncio.run(once())
    assert outcome.usage is not None
    assert outcome.cost_usd == pytest.approx(outcome.usage.input_tokens)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (Fault(status=400), Status.AGENT_ERROR, "the request was refused: 400"),
        (Fault(status=529, retry_after=0), Status.INFRA_ERROR, "529 overloaded_error"),
        (Fault(status=429, retry_after=0), Status.INFRA_ERROR, "429 rate_limit_error"),
        (Fault(text="no", stop_reason="refusal"), Status.AGENT_ERROR, "declined to answer"),
        (Fault(text="so", stop_reason="max_tokens"), Status.AGENT_ERROR, "cut off at 4096 tokens"),
        (Fault(delay_s=1.5), Status.TIMEOUT, "no answer within 1 seconds"),
    ],
)
def test_failures_are_told_apart(fault: Fault, status: Status, words: str) -> None:
    with StandIn(faults=itertools.repeat(fault)) as stand_in:
        [outcome] = run(stand_in.url, asked(SHIPPED), timeout_s=1.0)
    assert outcome.status is status
    assert words in (outcome.reason or "")


@pytest.mark.parametrize(("status", "error"), [(401, CredentialsError), (404, SettingsError)])
def test_what_no_trial_could_get_past_stops_everything(status: int, error: type[Exception]) -> None:
    with StandIn(faults=[Fault(status=status)]) as stand_in, pytest.raises(error):
        run(stand_in.url, asked(SHIPPED))


def test_without_a_key_nothing_starts() -> None:
    with pytest.raises(CredentialsError, match="a `messages` version needs a key and ANTHROPIC_API_KEY"):
        run("https://api.anthropic.invalid", asked())


def test_tools_that_are_none_are_refused(stand_in: StandIn) -> None:
    with pytest.raises(VersionError, match="are not tool definitions"):
        run(stand_in.url, asked(), setup={"tools": [3]})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"metadata": {}}, "does not hold their definitions"),
        ({"model": None}, "does not name its model"),
    ],
)
def test_what_the_trace_lacks_is_named(stand_in: StandIn, fields: dict[str, Any], words: str) -> None:
    [outcome] = run(stand_in.url, asked(SHIPPED, **fields))
    assert outcome.status is Status.AGENT_ERROR
    assert words in (outcome.reason or "")
    assert stand_in.received == []


def test_a_model_that_asks_without_end_is_ended(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaydiff.replay.agents.messages.MOST_ROUNDS", 1)
    [outcome] = run(stand_in.url, asked(SHIPPED))
    assert outcome.reason == "the model called tools 1 times and gave no answer"


@pytest.mark.parametrize("by", ["cancel", "close"])
def test_what_is_cancelled_ends_at_once(by: str) -> None:
    async def cancelled(url: str) -> None:
        running = agent(url)
        await running.start()
        task = asyncio.ensure_future(running.run(asked(SHIPPED), 0))
        await asyncio.sleep(0.2)
        if by == "close":
            await running.close()
            assert (await task).status is Status.CANCELLED
            return
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await running.close()

    with StandIn(faults=[Fault(delay_s=30.0)]) as stand_in:
        began = time.monotonic()
        asyncio.run(cancelled(stand_in.url))
        assert time.monotonic() - began < 25
