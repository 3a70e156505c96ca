"""The order of a run: random, seeded, and the same whatever came in which order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.engine.schedule import Slot, block, order
from replaydiff.replay.model import Lane

LANES = [Lane.OLD, Lane.NEW, Lane.OLD2, Lane("new", 2), Lane("new", 10)]
NAMES = st.lists(st.text(), unique=True)


@given(NAMES, st.integers(), st.randoms())
def test_an_order_holds_every_item_once_and_ignores_the_order_given(
    names: list[str], seed: int, chance: object
) -> None:
    shuffled = list(names)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sorted(order(names, seed)) == sorted(names)
    assert order(shuffled, seed) == order(names, seed)


@given(st.text(), st.sets(st.sampled_from(LANES), min_size=1), st.integers(1, 5), st.integers())
def test_a_block_holds_every_trial_of_every_lane_once(
    name: str, lanes: set[Lane], trials: int, seed: int
) -> None:
    slots = block(name, lanes, trials, seed)
    assert Counter(slots) == Counter(Slot(lane, trial) for lane in lanes for trial in range(trials))
    assert slots == block(name, sorted(lanes, reverse=True), trials, seed)


def test_the_order_within_blocks_is_even_over_many_items() -> None:
    lanes = (Lane.OLD, Lane.NEW)
    first = Counter(block(f"item-{number}", lanes, 3, seed=1)[0] for number in range(6000))
    # 1,000 expected of each of the six; four standard deviations are 115.
    assert all(885 < count < 1115 for count in first.values())
    assert len(first) == 6


def test_another_seed_is_another_order() -> None:
    names = [f"item-{number}" for number in range(50)]
    assert order(names, 1) != order(names, 2) != sorted(names)


def test_the_order_of_a_seed_never_changes() -> None:
    assert order(["a", "b", "c", "d"], 7) == ["b", "d", "c", "a"]
    assert block("a", (Lane.OLD, Lane.NEW), 2, 7) == [
        Slot(Lane.NEW, 0),
        Slot(Lane.OLD, 0),
        Slot(Lane.OLD, 1),
        Slot(Lane.NEW, 1),
    ]
