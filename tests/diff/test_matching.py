"""Matching against tables a person can check, and against brute force."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.graders.matching import MatchResult, can_still_match, match
from replaydiff.replay.model import ExpectedCall, Match, ToolCall

STATUS = ExpectedCall(name="get_order_status", args={"order_id": "1"})
CANCEL = ExpectedCall(name="cancel_order", args={"order_id": "1"})


def made(*calls: tuple[str, dict[str, object]]) -> list[ToolCall]:
    return [ToolCall(name=name, args=dict(args), index=index) for index, (name, args) in enumerate(calls)]  # type: ignore[arg-type]


LOOKED = ("get_order_status", {"order_id": "1"})
CANCELLED = ("cancel_order", {"order_id": "1"})
REFUNDED = ("refund", {"amount": 5})


@pytest.mark.parametrize(
    ("mode", "calls", "reason"),
    [
        ("strict", [LOOKED, CANCELLED], ""),
        ("strict", [CANCELLED], "called cancel_order without get_order_status(order_id='1') first"),
        ("strict", [LOOKED], "missing call 2: cancel_order(order_id='1')"),
        ("strict", [], "missing call 1: get_order_status(order_id='1')"),
        ("strict", [LOOKED, CANCELLED, REFUNDED], "extra call 3: refund(amount=5)"),
        ("strict", [LOOKED, REFUNDED], "call 2: expected cancel_order(order_id='1'), got refund(amount=5)"),
        (
            "strict",
            [LOOKED, ("cancel_order", {"order_id": "2"})],
            "call 2: expected cancel_order(order_id='1'), got cancel_order(order_id='2')",
        ),
        ("in_order", [LOOKED, REFUNDED, CANCELLED], ""),
        ("in_order", [CANCELLED, LOOKED], "called cancel_order before get_order_status"),
        (
            "in_order",
            [REFUNDED, CANCELLED],
            "called cancel_order without get_order_status(order_id='1') first",
        ),
        ("in_order", [LOOKED, REFUNDED], "missing call 2: cancel_order(order_id='1')"),
        (
            "in_order",
            [LOOKED, ("cancel_order", {})],
            "call 2: expected cancel_order(order_id='1'), got cancel_order()",
        ),
        ("unordered", [CANCELLED, LOOKED], ""),
        ("unordered", [CANCELLED], "missing call: get_order_status(order_id='1')"),
        ("unordered", [CANCELLED, LOOKED, LOOKED], "extra call 3: get_order_status(order_id='1')"),
        ("subset", [CANCELLED], ""),
        ("subset", [], ""),
        ("subset", [CANCELLED, REFUNDED], "extra call 2: refund(amount=5)"),
        ("superset", [REFUNDED, CANCELLED, LOOKED], ""),
        ("superset", [REFUNDED, LOOKED], "missing call: cancel_order(order_id='1')"),
    ],
)
def test_modes(mode: str, calls: list[tuple[str, dict[str, object]]], reason: str) -> None:
    found = match([STATUS, CANCEL], made(*calls), Match(mode=mode, args="exact"))
    assert (found.passed, found.reason) == (not reason, reason)


@pytest.mark.parametrize(
    ("how", "wanted", "got", "fits"),
    [
        ("exact", {"a": 1, "b": 2}, {"b": 2.0, "a": 1.0}, True),
        ("exact", {"a": {"x": 1, "y": [1, 2]}}, {"a": {"y": [1.0, 2], "x": 1}}, True),
        ("exact", {"a": [1, 2]}, {"a": [2, 1]}, False),
        ("exact", {"a": True}, {"a": 1}, False),
        ("exact", {"a": 1}, {"a": "1"}, False),
        ("exact", {"a": None}, {}, False),
        ("exact", {"a": 1}, {"a": 1, "b": 2}, False),
        ("subset", {"a": 1}, {"a": 1, "b": 2}, True),
        ("subset", {"a": 1, "b": 2}, {"a": 1}, False),
        ("subset", {"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, False),
        ("ignore", {"a": 1}, {"b": 2}, True),
        ("exact", None, {"b": 2}, True),
    ],
)
def test_arguments(how: str, wanted: dict[str, object] | None, got: dict[str, object], fits: bool) -> None:
    expected = [ExpectedCall(name="f", args=wanted)]  # type: ignore[arg-type]
    assert match(expected, made(("f", got)), Match(args=how)).passed is fits


def test_arguments_and_tools_that_do_not_count() -> None:
    expected = [ExpectedCall(name="f", args={"id": 1, "request_id": "a"}), STATUS]
    calls = made(
        ("log", {}), ("f", {"id": 1, "request_id": "b"}), ("get_order_status", {"order_id": "1", "n": 4})
    )
    rules = Match(args="exact", ignore_tools=("log",), ignore_args=("request_id",))
    assert match(expected, calls, rules).reason == (
        "call 2: expected get_order_status(), got get_order_status(n=4)"
    )
    assert match(expected, calls, rules, {"get_order_status": ["n"]}).passed
    assert match(expected, calls, Match(args="exact", ignore_args=("request_id",), only_tools=("f",))).passed
    per_tool = Match(args="exact", ignore_tools=("log",), tools={"f": "subset", "get_order_status": "ignore"})
    assert not match(expected, calls, per_tool).passed


def test_a_call_skipped_is_told_by_what_was_called_though_that_does_not_count() -> None:
    def reason(*calls: tuple[str, dict[str, object]], expected: tuple[ExpectedCall, ...] = ()) -> str:
        rules = Match(mode="in_order", only_tools=("get_order_status",))
        return match(expected or (STATUS, CANCEL), made(*calls), rules).reason

    assert reason(CANCELLED) == "called cancel_order without get_order_status(order_id='1') first"
    assert reason(REFUNDED) == "missing call 1: get_order_status(order_id='1')"
    twice = (CANCEL, STATUS, CANCEL)
    assert reason(CANCELLED, expected=twice) == "missing call 1: get_order_status(order_id='1')"
    assert reason(CANCELLED, CANCELLED, expected=twice).startswith("called cancel_order without")


def test_a_call_is_not_lost_to_a_less_particular_expectation() -> None:
    """Greedy pairing would give the only call with b to the expectation that asks for a alone."""
    expected = [ExpectedCall(name="f", args={"a": 1}), ExpectedCall(name="f", args={"a": 1, "b": 2})]
    calls = made(("f", {"a": 1, "b": 2}), ("f", {"a": 1}))
    assert match(expected, calls, Match(mode="unordered", args="subset")).passed


def test_partial_credit() -> None:
    def partial(mode: str, *calls: tuple[str, dict[str, object]]) -> float:
        return match([STATUS, CANCEL], made(*calls), Match(mode=mode)).partial

    assert partial("strict", CANCELLED) == pytest.approx(2 / 3)
    assert partial("strict", CANCELLED, LOOKED) == pytest.approx(1 / 2)
    assert partial("unordered", CANCELLED, REFUNDED, REFUNDED) == pytest.approx(2 / 5)
    assert partial("in_order", LOOKED, REFUNDED, REFUNDED) == pytest.approx(1 / 2)
    assert partial("superset", REFUNDED) == 0
    assert partial("subset", CANCELLED, REFUNDED) == pytest.approx(1 / 2)


def test_long_values_are_cut_in_the_reason() -> None:
    reason = match([], made(("f", {"text": "x" * 500})), Match()).reason
    assert reason == f"extra call 1: f(text='{'x' * 38}…)"


# Calls small enough to try everything: two tools, one or two arguments with two values.
ARGS = [{}, {"a": 1}, {"a": 2}, {"a": 1, "b": 1}]
actual_calls = st.lists(
    st.builds(lambda n, a: ToolCall(name=n, args=dict(a)), st.sampled_from("fg"), st.sampled_from(ARGS)),
    max_size=4,
)
expected_calls = st.lists(
    st.builds(
        lambda n, a: ExpectedCall(name=n, args=a if a is None else dict(a)),
        st.sampled_from("fg"),
        st.sampled_from([None, *ARGS]),
    ),
    max_size=4,
)
MODES = ["strict", "in_order", "unordered", "subset", "superset"]
rules = st.builds(Match, mode=st.sampled_from(MODES), args=st.sampled_from(["exact", "subset", "ignore"]))


def fits(wanted: ExpectedCall, call: ToolCall, how: str) -> bool:
    """The definition, as plainly as it can be written."""
    if wanted.name != call.name:
        return False
    if how == "ignore" or wanted.args is None:
        return True
    if how == "exact":
        return wanted.args == call.args
    return all(key in call.args and call.args[key] == value for key, value in wanted.args.items())


def injective(expected: list[ExpectedCall], actual: list[ToolCall], how: str) -> int:
    """Size of the largest pairing, by trying all of them."""
    small, large = sorted([len(expected), len(actual)])
    best = 0
    for chosen in permutations(range(large), small):
        pairs = [(i, c) for i, c in enumerate(chosen)]
        if len(expected) > len(actual):
            pairs = [(c, i) for i, c in pairs]
        best = max(best, sum(fits(expected[e], actual[a], how) for e, a in pairs))
    return best


def longest(expected: list[ExpectedCall], actual: list[ToolCall], how: str) -> int:
    """Longest common subsequence, by plain recursion."""
    if not expected or not actual:
        return 0
    rest = max(longest(expected[1:], actual, how), longest(expected, actual[1:], how))
    return (
        max(rest, 1 + longest(expected[1:], actual[1:], how)) if fits(expected[0], actual[0], how) else rest
    )


def by_hand(expected: list[ExpectedCall], actual: list[ToolCall], rule: Match) -> tuple[bool, float]:
    e, a = len(expected), len(actual)
    ordered = rule.mode in ("strict", "in_order")
    common = longest(expected, actual, rule.args) if ordered else injective(expected, actual, rule.args)
    passed = {
        "strict": common == e == a,
        "in_order": common == e,
        "unordered": common == e == a,
        "subset": common == a,
        "superset": common == e,
    }[rule.mode]
    precision, recall = common / a if a else 1.0, common / e if e else 1.0
    f1 = 2 * common / (e + a) if e + a else 1.0
    partial = {"strict": f1, "unordered": f1, "in_order": recall, "superset": recall, "subset": precision}
    return passed, partial[rule.mode]


@given(expected_calls, actual_calls, rules)
def test_matching_is_what_brute_force_finds(
    expected: list[ExpectedCall], actual: list[ToolCall], rule: Match
) -> None:
    found = match(expected, actual, rule)
    passed, partial = by_hand(expected, actual, rule)
    assert found.passed is passed
    assert found.partial == pytest.approx(partial)
    assert (found.partial == 1) is found.passed
    assert (found == MatchResult(passed=True, partial=1.0, reason="")) is found.passed
    assert bool(found.reason) is not found.passed


@given(actual_calls, rules)
def test_calls_that_share_their_arguments_match_like_copies(made: list[ToolCall], rule: Match) -> None:
    shared = [replace(call, call_id="again") for call in made]
    copied = [replace(call, args=deepcopy(call.args)) for call in shared]
    assert match(made, shared, rule) == match(made, copied, rule)


@given(
    expected_calls,
    st.lists(actual_calls.map(tuple), max_size=1).map(lambda x: list(x[0][:2]) if x else []),
    rules,
)
def test_certain_failure_is_what_no_continuation_mends(
    expected: list[ExpectedCall], begun: list[ToolCall], rule: Match
) -> None:
    """Continuations are built from calls that fit an expected one: any other cannot help."""
    useful = [ToolCall(name=call.name, args=dict(call.args or {})) for call in expected]
    continuations = (list(rest) for size in range(len(expected) + 1) for rest in product(useful, repeat=size))
    mended = any(match(expected, begun + rest, rule).passed for rest in continuations)
    assert can_still_match(expected, begun, rule) is mended
