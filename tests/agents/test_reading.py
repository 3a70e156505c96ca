"""What an agent reports beside what was seen of it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.agents.attempt import as_text, merge_reported, read_cost, read_usage
from replaydiff.replay.model import Item, Message, Rule, ServedCall, ToolCall, Usage

made_calls = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=6)


def seen_calls(made: list[tuple[str, int]]) -> list[ServedCall]:
    return [
        ServedCall(call=ToolCall(name=name, args={"n": n}, index=index), rule=Rule.TAPE)
        for index, (name, n) in enumerate(made)
    ]


def reported_calls(made: list[tuple[str, int]]) -> list[Any]:
    return [{"name": name, "args": {"n": n}} for name, n in made]


def described(served: tuple[ServedCall, ...]) -> list[tuple[str, Any, str]]:
    return [(one.call.name, one.call.args["n"], one.rule.value) for one in served]


@given(made_calls)
def test_an_agent_that_reports_what_it_did_changes_nothing(made: list[tuple[str, int]]) -> None:
    seen = seen_calls(made)
    assert merge_reported(seen, reported_calls(made), patched=True) == tuple(seen)
    assert merge_reported(seen, None, patched=True) == tuple(seen)


@given(made_calls, made_calls)
def test_seen_calls_stay_and_reported_ones_are_counted_once(
    made: list[tuple[str, int]], reported: list[tuple[str, int]]
) -> None:
    merged = merge_reported(seen_calls(made), reported_calls(reported), patched=True)
    assert [(name, n) for name, n, rule in described(merged) if rule == "tape"] == made
    assert [one.call.index for one in merged] == list(range(len(merged)))
    for name in "ab":
        told = max(sum(one == name for one, _ in calls) for calls in (made, reported))
        assert sum(one.call.name == name for one in merged) == told


def test_an_unseen_call_stands_where_it_was_reported() -> None:
    merged = merge_reported(
        seen_calls([("a", 1), ("a", 2)]),
        reported_calls([("x", 0), ("a", 2), ("y", 0), ("a", 1), ("z", 0)]),
        patched=False,
    )
    assert described(merged) == [
        ("x", 0, "live"),
        ("a", 1, "tape"),
        ("a", 2, "tape"),
        ("y", 0, "live"),
        ("z", 0, "live"),
    ]


def test_usage_that_is_none_or_nonsense() -> None:
    assert read_usage(None) is None
    assert read_usage("many") is None
    assert read_usage({"input_tokens": "3", "output_tokens": True}) is None
    assert read_usage({"input_tokens": 3.0, "output_tokens": -1}) == Usage(input_tokens=3)


def test_a_cost_is_a_number() -> None:
    assert (read_cost(0.5), read_cost(0), read_cost("0.5"), read_cost(True), read_cost(-1)) == (
        0.5,
        0.0,
        None,
        None,
        None,
    )


def test_the_text_of_an_item_without_one_is_its_last_user_turn() -> None:
    turns = (
        Message(role="user", text="a"),
        Message(role="user", text="b"),
        Message(role="assistant", text="c"),
    )
    assert as_text(Item(id="x", messages=turns)) == "b"
    assert as_text(Item(id="x", input="i", messages=turns)) == "i"
    assert as_text(Item(id="x")) == ""
