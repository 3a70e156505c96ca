"""Canonical arguments are equal exactly where the arguments are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.messages import canonical_args
from tests.messages.test_decode import objects, storable


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": {"y": 1, "x": [1.0]}}, {"a": {"x": [1], "y": 1.0}}, True),
        ({"n": -0.0}, {"n": 0}, True),
        ({"n": 1e3}, {"n": 1000}, True),
        ({"n": 1.5}, {"n": 1.25}, False),
        ({"n": 1}, {"n": True}, False),
        ({"n": 1}, {"n": "1"}, False),
        ({"n": None}, {}, False),
        ({"n": [1, 2]}, {"n": [2, 1]}, False),
        ({"n": '{"a": 1}'}, {"n": '{"a":1}'}, False),
        ({"n": 10**30}, {"n": 10**30 + 1}, False),
        ({"n": "a"}, {"n": "A"}, False),
    ],
)
def test_what_is_the_same(one: Any, other: Any, equal: bool) -> None:
    assert (canonical_args(one) == canonical_args(other)) is equal


def test_the_text_is_compact_sorted_json() -> None:
    assert canonical_args({"b": 2.0, "a": {"d": "é 1.0", "c": None}}) == '{"a":{"c":null,"d":"é 1.0"},"b":2}'


def test_ignored_arguments_never_count_and_only_at_the_top() -> None:
    args = {"id": 1, "request_id": "x", "inner": {"request_id": "y"}}
    assert canonical_args(args, ["request_id"]) == '{"id":1,"inner":{"request_id":"y"}}'
    assert "request_id" in args


def test_text_that_no_encoder_takes_can_still_be_compared() -> None:
    assert canonical_args({"a": "\ud83d"}) == canonical_args({"a": "\ud83d"})


@given(st.dictionaries(storable, objects, max_size=5), st.randoms())
def test_order_of_keys_and_the_way_a_whole_number_is_written_make_no_difference(
    args: Any, random: Any
) -> None:
    shuffled = list(args.items())
    random.shuffle(shuffled)
    other = {key: float(value) if _is_small(value) else value for key, value in shuffled}
    assert canonical_args(other) == canonical_args(args)


@given(st.dictionaries(storable, objects, max_size=5))
def test_the_text_reads_back_as_equal_arguments(args: Any) -> None:
    assert json.loads(canonical_args(args)) == args


def _is_small(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
