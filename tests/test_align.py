"""Calls side by side."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.align import Call, align, differing, equal_json
from replaydiff.replay.model import JsonObject


def calls(text: str) -> list[Call]:
    """`a1 b` → a({"x": "1"}), b with any arguments."""
    return [Call(word[0], {"x": word[1:]} if word[1:] else None) for word in text.split()]


@pytest.mark.parametrize(
    ("reference", "made", "places"),
    [
        ("", "a1", [None]),
        ("a1", "", []),
        ("a1 b1", "a1 b1", [0, 1]),
        ("a1 b1", "b1", [1]),
        ("s1 s2 c1", "s2 c2", [1, 2]),
        ("a1 a2", "a2", [1]),
        ("a1 b1 c1", "x1 b2 y1", [None, 1, None]),
        ("a1 a2", "a2 a1", [0, 1]),
        ("a", "a7", [0]),
    ],
)
def test_align(reference: str, made: str, places: list[int | None]) -> None:
    assert align(calls(reference), calls(made)) == places


names = st.lists(st.sampled_from("ab"), max_size=5)


@given(names, names)
def test_the_alignment_pairs_as_many_calls_as_any(reference: list[str], made: list[str]) -> None:
    left = [Call(name, {}) for name in reference]
    right = [Call(name, {}) for name in made]
    places = align(left, right)
    paired = [place for place in places if place is not None]
    assert paired == sorted(set(paired))
    assert all(made[i] == reference[place] for i, place in enumerate(places) if place is not None)
    best = max(
        size
        for size in range(min(len(reference), len(made)) + 1)
        if {tuple(part) for part in combinations(reference, size)}
        & {tuple(part) for part in combinations(made, size)}
    )
    assert len(paired) == best


def test_thousands_of_calls_are_laid_side_by_side() -> None:
    left, right = [Call("a", {"n": n}) for n in range(1000)], [Call("a", {"n": -n - 1}) for n in range(900)]
    assert align(left, right) == list(range(900))


@pytest.mark.parametrize(
    ("reference", "args", "only_expected", "ignored", "changed", "missing"),
    [
        (None, {"a": 1}, False, (), [], []),
        ({"a": 1}, {"a": 1.0}, False, (), [], []),
        ({"a": 1}, {"a": True}, False, (), ["a"], []),
        ({"a": 1}, {"a": 1, "b": 2}, False, (), ["b"], []),
        ({"a": 1}, {"a": 1, "b": 2}, True, (), [], []),
        ({"a": 1, "b": 2}, {"a": 3}, True, (), ["a"], ["b"]),
        ({"a": 1, "b": 2}, {"a": 3}, True, ("a", "b"), [], []),
    ],
)
def test_differing(
    reference: JsonObject | None,
    args: JsonObject,
    only_expected: bool,
    ignored: tuple[str, ...],
    changed: list[str],
    missing: list[str],
) -> None:
    assert differing(reference, args, only_expected=only_expected, ignored=ignored) == (changed, missing)


def test_same_looks_into_values() -> None:
    assert equal_json({"a": [1, {"b": 2.0}]}, {"a": [1.0, {"b": 2}]})
    assert not equal_json({"a": [1]}, {"a": [True]})
    assert not equal_json([1], [1, 2])
    assert not equal_json({"a": 1}, {"b": 1})
