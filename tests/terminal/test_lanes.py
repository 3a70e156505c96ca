"""Two trials beside each other: what a person reads at 80 and at 140 columns, and what always holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from replaydiff.replay.model import Lane, Rule, ServedCall, Status, ToolCall, Trial
from replaydiff.replay.terminal.lanes import FIRST, lanes, pairs

CALLS = st.lists(
    st.builds(
        lambda name, value: ServedCall(call=ToolCall(name=name, args={"id": value}), rule=Rule.TAPE),
        st.sampled_from("ab"),
        st.integers(1, 2),
    ),
    max_size=6,
)


def _trial(
    lane: Lane, answer: str, *calls: tuple[str, dict[str, object]], status: Status = Status.OK
) -> Trial:
    served = tuple(
        ServedCall(call=ToolCall(name=name, args=args), rule=Rule.TAPE)  # type: ignore[arg-type]
        for name, args in calls
    )
    return Trial(
        run_id="r", item_id="i", lane=lane, index=0, status=status, final_response=answer, served=served
    )


OLD = _trial(
    Lane.OLD, "It is cancelled, and the money comes back to you within a week or so.",
    ("get_order", {"id": "7"}), ("search", {"q": "refund"}), ("cancel", {"id": "7"}),
)  # fmt: skip
NEW = _trial(
    Lane.NEW, "It is cancelled.", ("get_order", {"id": "7"}), ("search", {"q": "money"}), ("mail", {})
)


def test_beside_each_other_where_there_is_room() -> None:
    assert "\n".join(lanes(OLD, NEW, 110)) == (
        "old trial 1: ok                                         new trial 1: ok\n"
        '  → get_order(id="7")                                 =   → get_order(id="7")\n'
        '  → search(q="refund")                                ≠   → search(q="money")\n'
        "                                                        ◀ first difference\n"
        "                                                      >   → mail()\n"
        '  → cancel(id="7")                                    <\n'
        "It is cancelled, and the money comes back to you        It is cancelled.\n"
        "within a week or so."
    )


def test_one_under_the_other_where_there_is_none() -> None:
    assert "\n".join(lanes(OLD, NEW, 60)) == (
        "old trial 1: ok\n"
        '= → get_order(id="7")\n'
        '≠ → search(q="refund")\n'
        "  ◀ first difference\n"
        '< → cancel(id="7")\n'
        "It is cancelled, and the money comes back to you within a\n"
        "week or so.\n"
        "\n"
        "new trial 1: ok\n"
        '= → get_order(id="7")\n'
        '≠ → search(q="money")\n'
        "  ◀ first difference\n"
        "> → mail()\n"
        "It is cancelled."
    )


def test_what_a_trace_says_never_moves_the_cursor() -> None:
    hostile = _trial(Lane.NEW, "\x1b[2J\x1b[31mgone\u202e", ("a", {"x": "\x1b]0;title\x07"}))
    for width in (60, 120):
        text = "\n".join(lanes(OLD, hostile, width))
        assert not set(text) & {"\x1b", "\x07", "\u202e"}
        assert "\\x1b[31mgone" in text


@given(CALLS, CALLS)
def test_every_call_is_shown_once_and_in_order(left: list[ServedCall], right: list[ServedCall]) -> None:
    found = pairs(left, right)
    assert [pair.left for pair in found if pair.left is not None] == left
    assert [pair.right for pair in found if pair.right is not None] == right
    assert all(pair.left.call.name == pair.right.call.name for pair in found if pair.left and pair.right)
    assert all(pair.sign == "=" for pair in found) == (
        [one.call for one in left] == [one.call for one in right]
    )


@given(CALLS, CALLS, st.integers(40, 160))
def test_no_line_is_wider_and_the_first_difference_is_marked(
    left: list[ServedCall], right: list[ServedCall], width: int
) -> None:
    one = Trial(run_id="r", item_id="i", lane=Lane.OLD, index=0, status=Status.OK, served=tuple(left))
    other = Trial(run_id="r", item_id="i", lane=Lane.NEW, index=0, status=Status.OK, served=tuple(right))
    lines = lanes(one, other, width)
    assert all(cell_len(line) <= width for line in lines)
    marked = sum(FIRST in line for line in lines)
    assert marked == (0 if [a.call for a in left] == [b.call for b in right] else 1 if width >= 100 else 2)
