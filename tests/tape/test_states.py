"""A recorded call answers in the state in which it was recorded, and a miss says which state that was."""

from typing import Any

import pytest

from replaydiff.replay.model import MissReason, Rule, ToolCall, Witness
from replaydiff.replay.objects import Objects
from replaydiff.replay.tape import Tape, TapeRules
from tests.tape.test_tape import call, result_of


def missed(tape: Tape, name: str, **args: Any) -> tuple[MissReason | None, str]:
    answer = tape.answer(name, args)
    assert answer.rule is Rule.MISS
    return answer.reason, answer.note or ""


CANCELLED = [
    call("get_order", "active", order_id="7"),
    call("cancel", "ok", order_id="7"),
    call("get_order", "cancelled", order_id="7"),
]


def test_a_read_after_a_write_gets_the_state_after_it() -> None:
    tape = Tape(CANCELLED)
    assert result_of(tape, "cancel", order_id="7") == "ok"
    assert result_of(tape, "get_order", order_id="7") == "cancelled"
    assert result_of(tape, "get_order", order_id="7") == "cancelled"


def test_a_read_without_the_write_gets_the_state_before_it() -> None:
    tape = Tape(CANCELLED)
    assert [result_of(tape, "get_order", order_id="7") for _ in range(3)] == ["active"] * 3


def test_a_read_that_was_recorded_only_before_a_write_is_stale_after_it() -> None:
    tape = Tape(CANCELLED[:2])
    assert result_of(tape, "cancel", order_id="7") == "ok"
    assert missed(tape, "get_order", order_id="7") == (
        MissReason.STALE,
        'get_order(order_id="7"): stale; the trial has made cancel(order_id="7"), and it was recorded before '
        "that",
    )


def test_a_read_that_was_recorded_only_after_a_write_is_stale_without_it() -> None:
    assert missed(Tape(CANCELLED[1:]), "get_order", order_id="7") == (
        MissReason.STALE,
        'get_order(order_id="7"): stale; it was recorded after cancel(order_id="7"), which the trial has not '
        "made",
    )


def test_a_write_answers_once() -> None:
    tape = Tape(CANCELLED)
    assert result_of(tape, "cancel", order_id="7") == "ok"
    assert missed(tape, "cancel", order_id="7") == (
        MissReason.USED_UP,
        'cancel(order_id="7"): already used; it was recorded once and answered as often',
    )


def test_writes_to_another_object_do_not_count() -> None:
    recording = [*CANCELLED, call("get_order", "active", order_id="8"), call("cancel", "ok", order_id="8")]
    tape = Tape(recording)
    assert result_of(tape, "cancel", order_id="8") == "ok"
    assert result_of(tape, "get_order", order_id="7") == "active"
    tape = Tape(recording)
    assert result_of(tape, "get_order", order_id="8") == "active"


def test_a_call_that_names_nothing_concerns_everything() -> None:
    cart = [call("get_cart", []), call("add", "ok", item_id="A-100"), call("get_cart", ["A-100"])]
    tape = Tape(cart)
    assert result_of(tape, "add", item_id="A-100") == "ok"
    assert result_of(tape, "get_cart") == ["A-100"]
    reset = Tape([call("get_order", "active", order_id="7"), call("reset", "ok")])
    assert result_of(reset, "reset") == "ok"
    assert missed(reset, "get_order", order_id="7")[0] is MissReason.STALE


def test_a_tool_of_unknown_effect_counts_as_a_write() -> None:
    recording = [call("get_order", "active", order_id="7"), call("process", "ok", order_id="7")]
    tape = Tape(recording)
    assert result_of(tape, "process", order_id="7") == "ok"
    assert missed(tape, "get_order", order_id="7")[0] is MissReason.STALE
    tape = Tape(recording, TapeRules(effects={"process": "read"}))
    assert [result_of(tape, "process", order_id="7") for _ in range(2)] == ["ok", "ok"]
    assert result_of(tape, "get_order", order_id="7") == "active"


def test_writes_in_another_order_are_another_state() -> None:
    recording = [
        call("set_status", "ok", order_id="7", to="x"),
        call("set_status", "ok", order_id="7", to="y"),
        call("get_order", "y", order_id="7"),
    ]
    tape = Tape(recording)
    assert missed(tape, "set_status", order_id="7", to="y")[0] is MissReason.STALE


def test_a_failed_write_is_a_write() -> None:
    recording = [
        call("get_order", "shipped", order_id="7"),
        call("cancel", error="already shipped", order_id="7"),
    ]
    tape = Tape(recording)
    assert tape.answer("cancel", {"order_id": "7"}).recorded is recording[1]
    assert missed(tape, "get_order", order_id="7")[0] is MissReason.STALE


def test_a_write_that_no_recording_answers_leads_to_a_state_that_none_has() -> None:
    tape = Tape(CANCELLED[1:])
    tape.write("cancel", {"order_id": "7"})
    assert missed(tape, "get_order", order_id="7")[0] is MissReason.STALE
    tape = Tape(CANCELLED)
    tape.write("get_order", {"order_id": "9"})
    assert result_of(tape, "get_order", order_id="7") == "active"


SHOP = [
    call("get_user", {"user_id": "U-100", "open": 2}, user_id="U-100"),
    call("cancel", "ok", order_id="O-700"),
]


def test_objects_of_different_kinds_are_apart_only_where_the_recording_shows_it() -> None:
    tape = Tape(SHOP)
    assert result_of(tape, "cancel", order_id="O-700") == "ok"
    assert missed(tape, "get_user", user_id="U-100")[0] is MissReason.STALE, "`ok` does not say whose order"
    for record, whose in ({"order_id": "O-700", "user_id": "U-100"}, True), ({"order_id": "O-700"}, False):
        tape = Tape([SHOP[0], call("cancel", record, order_id="O-700")])
        assert result_of(tape, "cancel", order_id="O-700") == record
        assert (tape.answer("get_user", {"user_id": "U-100"}).reason is MissReason.STALE) == whose
    listing = call("get_user", {"user_id": "U-100", "orders": [{"id": "O-700"}]}, user_id="U-100")
    tape = Tape([listing, call("cancel", {"order_id": "O-700"}, order_id="O-700")])
    tape.answer("cancel", {"order_id": "O-700"})
    assert missed(tape, "get_user", user_id="U-100")[0] is MissReason.STALE


def test_a_read_that_changed_without_a_write_to_its_objects_depends_on_the_writes_between() -> None:
    points = {"order_id": "O-700", "of": "nobody"}
    recording = [
        call("get_points", 1, user_id="U-100"),
        call("cancel", points, order_id="O-700"),
        call("get_points", 2, user_id="U-100"),
    ]
    tape = Tape(recording)
    assert result_of(tape, "cancel", order_id="O-700") == points
    assert result_of(tape, "get_points", user_id="U-100") == 2
    once = Tape(recording[:2], TapeRules(dependent={("cancel", "get_points")}))
    assert result_of(once, "cancel", order_id="O-700") == points
    assert missed(once, "get_points", user_id="U-100")[0] is MissReason.STALE


def test_a_clock_answers_in_its_order_and_each_time_once() -> None:
    tape = Tape([call("get_time", 1), call("get_order", "x", order_id="7"), call("get_time", 2)])
    assert result_of(tape, "get_order", order_id="7") == "x"
    assert [result_of(tape, "get_time"), result_of(tape, "get_time")] == [1, 2]
    reason, note = missed(tape, "get_time")
    assert reason is MissReason.USED_UP
    assert note == (
        "get_time(): recorded 2 times, and get_time returns something else at each call, of which this is number 3"
    )


def test_a_tool_that_is_known_to_be_unsteady_is_not_repeated() -> None:
    tape = Tape([call("get_time", 1)], TapeRules(unsteady={"get_time"}))
    assert result_of(tape, "get_time") == 1
    assert missed(tape, "get_time")[0] is MissReason.USED_UP


def test_a_counter_is_answered_only_for_the_same_call_of_all() -> None:
    recording = [call("get_tick", 1), call("put", "ok", order_id="7"), call("get_tick", 2)]
    tape = Tape(recording, TapeRules(unsteady={"get_tick"}))
    assert result_of(tape, "put", order_id="7") == "ok"
    assert missed(tape, "get_tick")[0] is not None, (
        "the first tick after the write was recorded as the second"
    )


def test_a_trial_that_follows_the_recording_is_in_its_state() -> None:
    recording = [call("f", n, id=n % 2) for n in range(6)] + [call("get_f", "x"), call("get_f", "y")]
    tape = Tape(recording)
    assert [result_of(tape, one.name, **one.args) for one in recording] == [one.result for one in recording]


def test_a_result_that_a_person_wrote_answers_in_any_state() -> None:
    written = ToolCall(name="refund", args={"order_id": "7"}, result="done", witness=Witness.PERSON)
    tape = Tape([*CANCELLED, written])
    assert result_of(tape, "refund", order_id="7") == "done"
    assert missed(tape, "refund", order_id="7")[0] is MissReason.USED_UP


def test_set_objects_decide_what_a_call_is_about() -> None:
    recording = [call("get_price", 5, product="tea"), call("reset", "ok"), call("add", "ok", product="tea")]
    nothing = TapeRules(objects=Objects(by_tool={"get_price": ()}))
    tape = Tape(recording, nothing)
    tape.answer("reset", {})
    assert result_of(tape, "get_price", product="tea") == 5
    product = TapeRules(objects=Objects(by_tool={"get_price": ("product",), "add": ("product",)}))
    tape = Tape([recording[0], call("add", "ok", product="milk")], product)
    assert result_of(tape, "add", product="milk") == "ok"
    assert result_of(tape, "get_price", product="tea") == 5


@pytest.mark.parametrize("number", [1, 3])
def test_a_stale_miss_names_some_of_many_writes(number: int) -> None:
    writes = [call("add", "ok", item=n) for n in range(number)]
    tape = Tape([*writes, call("get_cart", [])])
    note = missed(tape, "get_cart")[1]
    assert note.startswith("get_cart(): stale; it was recorded after add(item=0)")
    assert ("and 1 more" in note) == (number == 3)
