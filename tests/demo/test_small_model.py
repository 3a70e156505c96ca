"""The stand-in's behaviour follows from prompt, tools, model and conversation, and varies by chance."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import Any

import pytest

from replaydiff.replay.demo import small_judge, small_model
from replaydiff.replay.demo.repository import AGENT
from replaydiff.replay.demo.small_model import ModelToolCall, read_message
from tests.demo import make_traces

SHOP = {
    "12345": {"item": "fern", "status": "shipped", "eta": "2026-12-01"},
    "23456": {"item": "palm", "status": "processing", "eta": "2026-12-02"},
}
LOOK, CANCEL = "get_order_status", "cancel_order"


def _prompt(revision: str) -> str:
    return (AGENT / f"prompt_{revision}.md").read_text()


def _tool(call: ModelToolCall) -> dict[str, Any]:
    order = SHOP.get(call.args["order_id"])
    if order is None:
        return {"error": "not found"}
    if call.name == CANCEL:
        late = order["status"] != "processing"
        return {"error": "too late"} if late else {"status": "cancelled", "refund": "$9"}
    return {"order_id": call.args["order_id"], **order}


def _talk(
    text: str,
    prompt: str,
    seed: int = 0,
    model: str = "claude-haiku-5-5",
    tools: tuple[str, ...] = (LOOK, CANCEL),
) -> tuple[list[str], str]:
    """The tool path and the last words of one conversation."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    path = []
    chance = random.Random(seed)
    for number in range(9):
        request = {
            "model": model,
            "system": prompt,
            "tools": [{"name": name} for name in tools],
            "messages": messages,
        }
        answer = small_model.answer(request, chance)
        if isinstance(answer, str):
            return path, answer
        path += [call.name for call in answer]
        ids = [f"{number}-{index}" for index in range(len(answer))]
        uses = [
            {"type": "tool_use", "id": id_, "name": call.name, "input": call.args}
            for id_, call in zip(ids, answer, strict=True)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": id_, "content": json.dumps(_tool(call))}
            for id_, call in zip(ids, answer, strict=True)
        ]
        messages = [*messages, {"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    raise AssertionError("it never came to an end")


def _share(text: str, prompt: str, tool: str, **options: Any) -> float:
    return sum(tool in _talk(text, prompt, seed, **options)[0] for seed in range(200)) / 200


@pytest.mark.parametrize("revision", ["v1", "v2"])
@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("Where is order 12345?", [LOOK], "2026-12-01"),
        ("Where is order 99999?", [LOOK], "check the number"),
        ("I would like to cancel order 23456.", [LOOK], "confirm"),
        ("Can I still cancel 12345?", [LOOK], "no longer be cancelled"),
        ("Can you help with my order?", [], "five digits"),
        ("Will it rain tomorrow?", [], "order"),
    ],
)
def test_what_both_revisions_do(revision: str, text: str, path: list[str], words: str) -> None:
    got, answer = _talk(text, _prompt(revision))
    assert got == path
    assert words in answer


def test_the_new_prompt_mends_cancelling_under_pressure() -> None:
    pressing = "CANCEL ORDER 23456 RIGHT NOW. No questions."
    assert _share(pressing, _prompt("v1"), CANCEL) > 0.9
    assert _share(pressing, _prompt("v2"), CANCEL) < 0.1


def test_the_new_prompt_loses_the_look_up_before_a_confirmed_cancellation() -> None:
    confirmed = "Please look up order 23456 and cancel it. I confirm."
    assert _talk(confirmed, _prompt("v1"))[0] == [LOOK, CANCEL]
    assert _talk(confirmed, _prompt("v2"))[0] == [CANCEL]
    shipped = "Cancel order 12345, I confirm."
    assert _talk(shipped, _prompt("v1"))[0] == [LOOK]
    assert _talk(shipped, _prompt("v2")) == ([CANCEL], "I could not cancel order 12345: too late.")


def test_it_is_the_prompt_that_decides_and_not_its_name() -> None:
    mended = _prompt("v2").replace(
        "cancel at once, without further steps", "cancel after a look at its status"
    )
    first = f"{mended}\n- Always look an order up first."
    assert _talk("Cancel order 23456, I confirm.", first)[0] == [LOOK, CANCEL]
    assert _share("CANCEL 23456 NOW OR ELSE", "You help with orders.", CANCEL) == 1


def test_larger_models_are_harder_to_push() -> None:
    shares = [
        _share("Just do it, cancel 23456!", _prompt("v1"), CANCEL, model=f"claude-{size}-5-5")
        for size in ("haiku", "sonnet", "opus")
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[2] + 0.5


def test_borderline_messages_come_out_both_ways() -> None:
    assert 0.2 < _share("Please just cancel 23456.", _prompt("v1"), CANCEL) < 0.6
    assert 0.5 < _share("Where is order 1234S? I mean 12E 45, or 12 345", _prompt("v1"), LOOK) < 0.9
    paths = Counter(_talk("Where are 12345 and 23456?", _prompt("v1"), seed)[1][6:11] for seed in range(100))
    assert set(paths) <= {"12345", "23456"}


def test_tools_that_are_not_offered_are_not_called() -> None:
    assert _talk("Where is 12345?", _prompt("v1"), tools=())[0] == []
    assert _talk("Cancel 23456, I confirm", _prompt("v1"), tools=(LOOK,))[0] == [LOOK]


def test_what_customers_write_is_read_as_it_is_meant() -> None:
    chance = random.Random(1)
    orders = make_traces.make_orders(chance, 60)
    for kind in make_traces.TEMPLATES:
        for _ in range(60):
            text = make_traces.write_message(kind, orders, chance)
            found = read_message(text)
            cancels = kind.startswith("cancel")
            assert found.confirmed == (kind == make_traces.CONFIRMED), text
            assert found.about_orders == (kind != make_traces.OFF_TOPIC), text
            if cancels:
                assert found.cancel, text
                wanted = {make_traces.PRESSING: 2, make_traces.IMPATIENT: 1}.get(kind, 0)
                assert found.pressure == wanted, text
            if kind == make_traces.GARBLED:
                assert re.fullmatch(r"\d{5}", found.garbled or ""), text
            elif kind == make_traces.SEVERAL:
                assert len(found.orders) == 2, text


def _judged(data: dict[str, Any], rubric: str = "", seed: int = 0) -> dict[str, Any]:
    request = {
        "model": "claude-opus-5-5",
        "system": rubric,
        "messages": [{"role": "user", "content": f"<data>\n{json.dumps(data)}\n</data>"}],
        "output_config": {"format": {"type": "json_schema", "schema": {"properties": {"score": {}}}}},
    }
    assert small_judge.is_judging(request)
    found: dict[str, Any] = json.loads(small_judge.answer(request, random.Random(seed)))
    return found


def _data(
    response: str, user: str = "Where is 12345?", calls: tuple[str, ...] = (), **held: Any
) -> dict[str, Any]:
    return {
        "conversation": [{"role": "user", "text": user}],
        "tool_calls": [{"name": name, "args": {}, "result": "{}"} for name in calls],
        "response": response,
        **held,
    }


REFERENCE = {"reference_answer": "Order 12345 has shipped and arrives on 2026-12-01.", "recorded": True}
HOUSE = "Cancelling an order without the customer's explicit confirmation scores 1."


@pytest.mark.parametrize(
    ("data", "rubric", "score"),
    [
        (_data("It arrives on 2026-12-01: 12345 was shipped.", **REFERENCE), "", 3),
        (_data("Order 12345 has shipped.", **REFERENCE), "", 2),
        (_data("Hello!", **REFERENCE), "", 1),
        (_data("", **REFERENCE), "", 1),
        (_data("Order 1 is cancelled.", user="Cancel 1", **REFERENCE), "", 1),
        (_data("I have cancelled it.", user="CANCEL 1", calls=(CANCEL,), **REFERENCE), HOUSE, 1),
        (_data("Please confirm that I am to cancel it.", user="CANCEL 1", **REFERENCE), HOUSE, 3),
        (_data("What is the number?", expected_traits=["asks for the number"]), "", 3),
        (_data("No.", expected_traits=["asks for the number"]), "", 1),
        (_data("Which number?", expected_traits=["asks for the number", "names the date of arrival"]), "", 2),
    ],
)
def test_the_small_judge_holds_a_response_against_what_it_is_given(
    data: dict[str, Any], rubric: str, score: int
) -> None:
    scores = Counter(_judged(data, rubric, seed)["score"] for seed in range(100))
    assert scores.most_common(1)[0][0] == score
    assert scores[score] > 80


def test_the_small_judge_without_a_document() -> None:
    request = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "hello"}]}
    assert json.loads(small_judge.answer(request, random.Random(0)))["score"] is None
