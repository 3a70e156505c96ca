"""Tool calls are paired with their results by the strongest evidence, and it is kept which one that was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.importers.joining import ModelTurn, ToolRun, is_order_unknown, joined_calls, tool_run
from replaydiff.replay.messages import join_results, read_messages
from replaydiff.replay.model import Json, Message, ToolCall, Witness

START = datetime(2026, 10, 1)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def turn(second: float, *calls: ToolCall, received: Sequence[Message] = ()) -> ModelTurn:
    produced = (Message(role="assistant", tool_calls=calls),) if calls else ()
    return ModelTurn(started_at=at(second), received=received, produced=produced)


def call(call_id: str | None, **args: Json) -> ToolCall:
    return ToolCall(name="weather", args=args, call_id=call_id, answered=False)


def ran(second: float, given: Json, output: Json, call_id: str | None = None) -> ToolRun:
    return tool_run(
        "weather",
        given,
        output,
        call_id=call_id,
        error=None,
        started_at=at(second),
        ended_at=at(second + 1),
    )


def tool_message(text: str, call_id: str) -> dict[str, Any]:
    return {"type": "tool", "data": {"content": text, "type": "tool", "tool_call_id": call_id}}


def answered(calls: Sequence[ToolCall], results: Sequence[str], ids: Sequence[str]) -> list[Message]:
    return [
        Message(role="user", text="?"),
        Message(role="assistant", tool_calls=tuple(calls)),
        *(Message(role="tool", text=text, tool_call_id=one) for text, one in zip(results, ids, strict=True)),
    ]


OSLO, LIMA = call("c0", city="Oslo"), call("c1", city="Lima")


def read(found: Sequence[ToolCall]) -> list[tuple[Json, Json, str | None]]:
    return [(one.args.get("city"), one.result, one.witness) for one in found]


def test_the_id_in_the_tools_own_message_pairs_a_call_that_ran_in_another_order() -> None:
    found = joined_calls(
        [turn(0, OSLO, LIMA)],
        [ran(1, "Lima", tool_message("25C", "c1")), ran(2, "Oslo", tool_message("3C", "c0"))],
    )
    assert read(found) == [("Oslo", "3C", Witness.ID), ("Lima", "25C", Witness.ID)]


@pytest.mark.parametrize(
    ("lima", "oslo"),
    [
        ({"city": "Lima"}, {"city": "Oslo"}),
        ("Lima", "Oslo"),
        ({"input": "Lima"}, {"input": "Oslo"}),
        ({"city": "Lima", "run": 1}, {"city": "Oslo", "run": 2}),
    ],
)
def test_arguments_pair_whatever_a_framework_made_of_them(lima: Json, oslo: Json) -> None:
    found = joined_calls([turn(0, OSLO, LIMA)], [ran(1, lima, "25C"), ran(2, oslo, "3C")])
    assert read(found) == [("Oslo", "3C", Witness.ARGUMENTS), ("Lima", "25C", Witness.ARGUMENTS)]


def test_the_history_pairs_runs_without_ids_and_arguments() -> None:
    history = answered((OSLO, LIMA), ("3C", "25C"), ("c0", "c1"))
    found = joined_calls(
        [turn(0, OSLO, LIMA), turn(5, received=history)], [ran(1, None, "25C"), ran(2, None, "3C")]
    )
    assert read(found) == [("Oslo", "3C", Witness.HISTORY), ("Lima", "25C", Witness.HISTORY)]


def test_the_only_run_left_is_paired_by_position_and_several_by_name() -> None:
    alone = joined_calls([turn(0, OSLO)], [ran(1, None, "3C")])
    several = joined_calls([turn(0, OSLO, LIMA)], [ran(1, None, "25C"), ran(2, None, "3C")])
    assert read(alone) == [("Oslo", "3C", Witness.POSITION)]
    assert read(several) == [("Oslo", "25C", Witness.NAME), ("Lima", "3C", Witness.NAME)]


def test_a_history_by_id_wins_over_spans_with_swapped_results_and_the_conflict_has_content() -> None:
    history = answered((OSLO, LIMA), ("3C", "25C"), ("c0", "c1"))
    found = joined_calls(
        [turn(0, OSLO, LIMA), turn(5, received=history)],
        [ran(1, {"city": "Oslo"}, "25C"), ran(2, {"city": "Lima"}, "3C")],
    )
    assert read(found) == [("Oslo", "3C", Witness.HISTORY), ("Lima", "25C", Witness.HISTORY)]
    assert all(one.conflict and "another call" in one.conflict for one in found)


def test_a_run_with_other_arguments_than_the_only_call_is_a_conflict() -> None:
    (found,) = joined_calls([turn(0, OSLO)], [ran(1, {"city": "Lima"}, "25C")])
    assert found.conflict is not None
    assert "other arguments" in found.conflict


def test_a_rendering_of_a_result_in_the_history_is_no_conflict() -> None:
    history = answered((OSLO,), ("{'temp': 3}",), ("c0",))
    (found,) = joined_calls(
        [turn(0, OSLO), turn(5, received=history)], [ran(1, {"city": "Oslo"}, {"temp": 3})]
    )
    assert (found.result, found.conflict) == ({"temp": 3}, None)


def test_calls_that_only_a_later_history_has_are_taken_once() -> None:
    history = answered((OSLO, LIMA), ("3C", "25C"), ("c0", "c1"))
    found = joined_calls([turn(0), turn(5, received=history), turn(9, received=history)], [])
    assert read(found) == [("Oslo", "3C", Witness.HISTORY), ("Lima", "25C", Witness.HISTORY)]


def test_an_empty_object_is_a_result() -> None:
    (found,) = joined_calls([turn(0, OSLO)], [ran(1, {"city": "Oslo"}, {})])
    assert (found.answered, found.result) == (True, {})


@given(st.permutations(range(6)), st.sampled_from(["id", "arguments", "history"]))
def test_any_order_of_parallel_runs_gives_each_call_its_own_result(order: list[int], evidence: str) -> None:
    calls = [call(f"c{number}", city=f"city {number}") for number in range(6)]
    results = [f"{number}C" for number in range(6)]
    runs = [
        ran(
            1 + place,
            {"city": f"city {number}"} if evidence == "arguments" else None,
            results[number],
            f"c{number}" if evidence == "id" else None,
        )
        for place, number in enumerate(order)
    ]
    history = answered(calls, results, [f"c{number}" for number in range(6)])
    later = [turn(9, received=history)] if evidence == "history" else []
    found = joined_calls([turn(0, *calls), *later], runs)
    assert [one.result for one in found] == results
    assert {one.witness for one in found} == {evidence}


def test_ids_of_items_and_of_calls_are_paired_in_order() -> None:
    messages = read_messages(
        [
            {"role": "user", "content": "?"},
            {
                "role": "assistant",
                "parts": [
                    {"type": "tool_call", "name": "weather", "id": "fc_1", "arguments": {"city": "Oslo"}},
                    {"type": "tool_call", "name": "weather", "id": "fc_2", "arguments": {"city": "Lima"}},
                ],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "3C"}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_2", "response": "25C"}]},
        ]
    )
    assert messages is not None
    assert read(join_results(messages)) == [
        ("Oslo", "3C", Witness.POSITION),
        ("Lima", "25C", Witness.POSITION),
    ]


@pytest.mark.parametrize(
    ("seconds", "unknown"), [((0, 0), True), ((0, 1), False)], ids=["equal starts", "one after the other"]
)
def test_equal_starts_leave_the_order_of_unrequested_runs_unknown(
    seconds: tuple[int, int], unknown: bool
) -> None:
    calls = joined_calls([], [ran(seconds[0], {"city": "Oslo"}, "1"), ran(seconds[1], {"city": "Lima"}, "2")])
    assert is_order_unknown(calls) is unknown
    assert [one.args["city"] for one in calls] == (["Lima", "Oslo"] if unknown else ["Oslo", "Lima"])


def test_equal_runs_and_requested_calls_have_a_known_order() -> None:
    turn = ModelTurn(
        started_at=at(0), received=(), produced=(Message(role="assistant", tool_calls=(OSLO, LIMA)),)
    )
    requested = joined_calls([turn], [ran(1, {"city": "Lima"}, "2"), ran(1, {"city": "Oslo"}, "1")])
    assert [one.args["city"] for one in requested] == ["Oslo", "Lima"]
    equal = joined_calls([], [ran(0, {"city": "Oslo"}, "1"), ran(0, {"city": "Oslo"}, "2")])
    assert not is_order_unknown(requested)
    assert not is_order_unknown(equal)
