"""Likeness of texts is a likeness: itself is most alike, order of asking does not count, numbers are one word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.cases.similarity import groups, likenesses, nearest, vectors

TEXTS = st.lists(st.text(alphabet="abc déß12 ?", max_size=30), min_size=2, max_size=8)


@given(TEXTS)
def test_every_text_is_most_like_itself(texts: list[str]) -> None:
    rows = vectors(texts)
    for index, (_, likeness) in enumerate(nearest(rows, rows)):
        has_words = any(character.isalnum() for character in texts[index])
        assert likeness == pytest.approx(1.0 if has_words else 0.0)


@given(TEXTS)
def test_likeness_is_symmetric_and_between_0_and_1(texts: list[str]) -> None:
    rows = vectors(texts)
    matrix = np.array(list(likenesses(rows, rows)))
    assert matrix == pytest.approx(matrix.T)
    assert matrix.min() >= 0
    assert matrix.max() <= 1 + 1e-9


def test_the_text_itself_is_left_out_where_it_is_named() -> None:
    rows = vectors(["where is my order", "where is my order", "bananas"])
    found = list(nearest(rows, rows, but=[0, 1, 2]))
    assert found[0] == (1, pytest.approx(1.0))
    assert found[2][1] == 0.0


def test_the_same_question_about_another_order_is_a_near_duplicate() -> None:
    texts = [
        "cancel order 17, please",
        "water my plant",
        "Cancel order 23904, please!",
        "cancel order 5, please",
    ]
    assert groups(vectors(texts), 0.9) == [0, 1, 0, 0]


@given(TEXTS, st.lists(st.integers(0, 7), max_size=8))
def test_equal_texts_are_grouped_as_if_each_was_compared(texts: list[str], again: list[int]) -> None:
    rows = vectors([*texts, *(texts[place % len(texts)] for place in again)])
    expected: list[int] = []
    for place, row in enumerate(likenesses(rows, rows)):
        before = [other for other in range(place) if row[other] >= 0.9]
        expected.append(expected[before[0]] if before else place)
    assert groups(rows, 0.9) == expected


def test_no_text_and_nothing_to_compare_with() -> None:
    empty = vectors([])
    assert groups(empty, 0.9) == []
    rows = vectors(["a b"])
    assert list(nearest(rows, rows.take([]))) == [(-1, 0.0)]
