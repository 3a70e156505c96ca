"""Which calls a conversation has, which result belongs to which, what was asked and answered."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.messages import conversation
from replaydiff.replay.model import Message, ToolCall


def call(name: str, call_id: str | None = None) -> ToolCall:
    return ToolCall(name=name, call_id=call_id, answered=False)


def asks(*calls: ToolCall, text: str = "") -> Message:
    return Message(role="assistant", text=text, tool_calls=calls)


def tells(text: str, call_id: str | None = None, name: str | None = None) -> Message:
    return Message(role="tool", text=text, tool_call_id=call_id, name=name)


def user(text: str) -> Message:
    return Message(role="user", text=text)


def says(text: str) -> Message:
    return Message(role="assistant", text=text)


def results(*messages: Message) -> list[tuple[str, object]]:
    return [(one.name, one.result if one.answered else ...) for one in conversation(messages).tool_calls]


def test_an_id_that_every_call_has_joins_by_order() -> None:
    one, other = call("a", "call_id"), call("b", "call_id")
    assert results(asks(one, other), tells("1", "call_id"), tells("2", "call_id")) == [("a", "1"), ("b", "2")]
    assert results(asks(one), tells("1", "call_id"), asks(one), tells("2", "call_id")) == [
        ("a", "1"),
        ("a", "2"),
    ]


def test_results_may_come_in_another_order() -> None:
    assert results(asks(call("a", "1"), call("b", "2")), tells("B", "2"), tells("A", "1")) == [
        ("a", "A"),
        ("b", "B"),
    ]


def test_a_result_without_an_id_goes_to_its_name_then_to_the_first_open_call() -> None:
    asked = asks(call("a"), call("b"), call("c"))
    assert results(asked, tells("B", name="b"), tells("A")) == [("a", "A"), ("b", "B"), ("c", ...)]


def test_a_result_goes_to_the_newest_request_with_its_id() -> None:
    # The first call was never answered; its id comes again later.
    assert results(asks(call("a", "x")), user("again"), asks(call("a", "x")), tells("2", "x")) == [
        ("a", ...),
        ("a", "2"),
    ]


def test_a_result_with_an_id_nobody_asked_for_answers_no_call_of_another_id() -> None:
    assert results(asks(call("a", "x")), tells("1", "y")) == [("a", ...)]
    assert results(asks(call("a")), tells("1", "y")) == [("a", "1")]
    assert results(tells("1", "y"), says("hm")) == []


def test_calls_of_all_turns_belong_to_the_run() -> None:
    run = conversation(
        [
            user("1"),
            asks(call("a", "1")),
            tells("x", "1"),
            says("one"),
            user("2"),
            asks(call("b", "2"), text="Wait."),
        ]
    )
    assert [(one.index, one.name) for one in run.tool_calls] == [(0, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("messages", "asked", "answered"),
    [
        ([user("a"), says("b")], "a", "b"),
        ([user("a"), says("b"), user("c"), says("d")], "c", "d"),
        ([user("a"), says("b"), user("thanks")], "a", "b"),
        ([says("Hi, how can I help?"), user("a")], "a", None),
        ([user("a"), asks(call("t"))], "a", None),
        ([user("a"), asks(call("t")), tells("x")], "a", None),
        ([user("a"), asks(call("t"), text="Wait."), tells("x"), says("b")], "a", "b"),
        ([user("a")], "a", None),
        ([says("b")], "", "b"),
        ([], "", None),
    ],
)
def test_what_was_asked_and_what_was_answered(
    messages: list[Message], asked: str, answered: str | None
) -> None:
    run = conversation(messages)
    assert (run.input, run.final_response) == (asked, answered)
    if asked:
        assert run.messages[-1] == user(asked)


def test_where_the_answer_is_recorded_elsewhere_the_last_turn_is_the_input() -> None:
    run = conversation([user("a"), says("b"), user("c")], input_only=True)
    assert (run.input, run.final_response, len(run.messages)) == ("c", None, 3)


def test_many_calls_that_wait_cost_no_more_than_few() -> None:
    waiting = [asks(call("t", f"asked {number}")) for number in range(20_000)]
    strays = [tells("x", f"nobody asked {number}", "t") for number in range(20_000)]
    begun = time.process_time()
    assert len(conversation([*waiting, *strays]).tool_calls) == 20_000
    assert time.process_time() - begun < 10


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, "1", "2"]), st.booleans()), max_size=12),
    st.randoms(),
)
def test_every_request_is_one_call_and_every_result_is_used_at_most_once(
    drawn: list[tuple[str, str | None, bool]], random: object
) -> None:
    messages: list[Message] = []
    for number, (name, call_id, answered) in enumerate(drawn):
        messages.append(asks(call(name, call_id)))
        if answered:
            messages.append(tells(str(number), call_id, name))
    run = conversation(messages)
    assert [one.name for one in run.tool_calls] == [name for name, _, _ in drawn]
    used = [one.result for one in run.tool_calls if one.answered]
    assert len(used) == len(set(map(str, used)))
    # Each result follows its request at once here, so every one of them finds it.
    assert [one.answered for one in run.tool_calls] == [answered for _, _, answered in drawn]
    assert used == [str(number) for number, (_, _, answered) in enumerate(drawn) if answered]
