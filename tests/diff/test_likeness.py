"""How alike answers are: words and numbers, and what an answer that nothing grades may not become."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.diff.compute import compute
from replaydiff.diff.likeness import Embed, likeness
from replaydiff.diff.result import Answer, DiffResult
from replaydiff.replay.model import Lane
from replaydiff.replay.settings import MatchSection
from tests.diff.build import RUN_ID, filled, item, settings, trial

CANCELLED = "Order {n} is cancelled and you will get an email about it."
OPENINGS = ("Hello,", "Hi there,", "Of course.")


@given(st.text(max_size=60), st.text(max_size=60))
def test_likeness_is_symmetric_and_between_0_and_1(first: str, second: str) -> None:
    assert likeness(first, second) == likeness(second, first)
    assert 0 <= likeness(first, second) <= 1
    assert likeness(first, first) == 1


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        ("Your order was cancelled.", "your order was cancelled", 1, 1),
        ("We sent 20 euros.", "We sent 2000 euros.", 0, 0.6),
        ("Your order was cancelled.", "Your order was not cancelled.", 0, 0.6),
        ("We can do that today.", "We can't do that today.", 0, 0.6),
        ("Ihre Bestellung ist storniert.", "Ihre Bestellung ist nicht storniert.", 0, 0.6),
        ("", "", 1, 1),
        ("", "Done.", 0, 0),
    ],
)
def test_numbers_and_negations_count_as_much_as_all_words(
    first: str, second: str, low: float, high: float
) -> None:
    assert low <= likeness(first, second) <= high


def answered(
    folder: Path,
    new: str,
    share: float = 1.0,
    *,
    trust: bool = False,
    terms: str = "",
    embed: Embed | None = None,
) -> DiffResult:
    """A run of 60 items that call the same tools; the new version answers a share of them so, above terms."""
    items = [item(f"t{n:02}") for n in range(60)]
    done = []
    for number, of in enumerate(items):
        for place, lane in enumerate((Lane.OLD, Lane.OLD2, Lane.NEW)):
            for index in range(2):
                text = CANCELLED if lane != Lane.NEW or number >= share * len(items) else new
                opening = OPENINGS[(number + place + index) % len(OPENINGS)]
                answer = f"{opening} {text.format(n=number)} {terms}"
                done.append(trial(of, lane, index, final_response=answer))
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, settings(folder, match=MatchSection(trust=trust)), embed=embed)


def test_equal_answers_ship_and_the_sentence_names_what_is_not_graded(tmp_path: Path) -> None:
    result = answered(tmp_path, CANCELLED)
    assert result.answer is Answer.SHIP
    assert "the answers are not graded (likeness 0.9" in result.reason


@pytest.mark.parametrize("trust", [False, True], ids=["", "trusted recordings"])
@pytest.mark.parametrize(
    ("new", "share"),
    [
        ("I am sorry, your account was deleted, all your invoices are void and nobody can help you.", 1.0),
        ("I am sorry, your account was deleted, all your invoices are void and nobody can help you.", 0.2),
        ("Order {n} is not cancelled and you will not get an email about it.", 1.0),
        ("Bestellung {n} wurde storniert, Sie erhalten dazu eine Nachricht.", 1.0),
        ("", 1.0),
    ],
    ids=["nonsense", "nonsense to some", "the opposite", "another language", "nothing"],
)
def test_other_answers_with_the_same_calls_are_never_ship(
    tmp_path: Path, new: str, share: float, trust: bool
) -> None:
    result = answered(tmp_path, new, share, trust=trust)
    assert result.answer is Answer.CANNOT_TELL
    (cause,) = [cause for cause in result.causes if cause.is_answers]
    assert cause.text.startswith("answers differ: likeness ")
    assert result.reason.startswith(cause.text)
    assert cause.item_ids == {f"t{n:02}" for n in range(round(60 * share))}
    assert [entry.change.what for entry in result.items[:3] if entry.change] == ["answers differently"] * 3


def test_a_line_in_long_answers_that_only_one_version_has_is_named(tmp_path: Path) -> None:
    terms = "A parcel may be late or damaged, and then you may call us. " * 60
    result = answered(tmp_path, f"{CANCELLED} Pay at pay.example/confirm.", 0.2, terms=terms)
    assert result.answer is Answer.CANNOT_TELL
    assert (
        "likeness 1.00, the old version with itself 1.00; in 12 items only the new version says "
        "'pay.example/confirm'" in result.reason
    )
    (cause,) = [cause for cause in result.causes if cause.is_answers]
    assert cause.counts == "new 24 of 120 trials, old 0, old2 0"
    assert len(cause.item_ids) == 12


@pytest.mark.parametrize(
    ("new", "answer"),
    [
        ("We have called off purchase {n}; our mail confirms it.", Answer.SHIP),
        ("We have called off purchase {n}0; our mail confirms it.", Answer.CANNOT_TELL),
        ("We have not called off purchase {n}; our mail confirms it.", Answer.CANNOT_TELL),
        ("Bananas sing about order {n}.", Answer.CANNOT_TELL),
    ],
    ids=["same meaning", "other number", "the opposite", "nonsense"],
)
def test_with_vectors_other_words_of_one_meaning_are_alike(tmp_path: Path, new: str, answer: Answer) -> None:
    result = answered(
        tmp_path,
        new,
        embed=lambda texts: {text: [0.0, 1.0] if "Bananas" in text else [1.0, 0.0] for text in texts},
    )
    assert result.answer is answer
    assert "likeness of meaning" in result.reason
