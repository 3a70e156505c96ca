"""The decode ladder, and arguments that models wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.messages import RAW, decode, parse, read_args

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
objects = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | storable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        ('{"a": 1}', {"a": 1}),
        ('  [1, "x"] \n', [1, "x"]),
        ('"\\"Say hello\\""', "Say hello"),
        (json.dumps(json.dumps({"a": 1})), {"a": 1}),
        ("123", "123"),
        ("true", "true"),
        ("null", "null"),
        ("1e5", "1e5"),
        ('the answer is {"a": 1}', 'the answer is {"a": 1}'),
        ("{'city': 'Paris', 'n': None}", {"city": "Paris", "n": None}),
        ('{"cut": "in the mid', '{"cut": "in the mid'),
        ("{'no': json, either}", "{'no': json, either}"),
        ("['\\d+']", ["\\d+"]),
        ('{"half": "\\ud83d", "nul": "\\u0000"}', {"half": "\ufffd", "nul": "\ufffd"}),
        ('{"nan": NaN, "inf": -Infinity}', {"nan": None, "inf": None}),
        ("", ""),
        (17, 17),
        ({"a": "1"}, {"a": "1"}),
    ],
)
def test_the_ladder(value: Any, decoded: Any) -> None:
    assert decode(value) == decoded


def test_text_encoded_more_than_three_times_stays_text() -> None:
    text = json.dumps({"a": 1})
    for _ in range(3):
        text = json.dumps(text)
    assert decode(text) == json.dumps({"a": 1})


@given(objects, st.integers(1, 3))
def test_json_of_an_object_or_list_comes_back_however_often_it_was_encoded(value: Any, times: int) -> None:
    text: Any = [value]
    for _ in range(times):
        text = json.dumps(text)
    assert decode(text) == [value]


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    decode(text)
    decode("{" + text)
    decode('["' + text)


def test_what_is_nested_too_deeply_stays_text_and_is_no_json() -> None:
    deep = "[" * 100_000
    assert decode(deep) == deep
    with pytest.raises(ValueError, match=r"nested too deeply|Expecting"):
        parse(deep + "]" * 100_000)


@pytest.mark.parametrize(
    ("value", "args"),
    [
        ('{"a": 1}', {"a": 1}),
        (json.dumps('{"a": 1}'), {"a": 1}),
        ("", {}),
        (" ", {}),
        (None, {}),
        ({}, {}),
        ('{"altitude": 100', {RAW: '{"altitude": 100'}),
        ("Paris", {RAW: "Paris"}),
        ("[1,2]", {RAW: "[1,2]"}),
        ([1, 2], {RAW: "[1,2]"}),
        (5, {RAW: "5"}),
    ],
)
def test_arguments_are_an_object_or_kept_as_text(value: Any, args: Any) -> None:
    assert read_args(value) == args
