"""Which items the A/A lane replays: a share of every stratum, at least twenty."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.engine.schedule import LEAST_REPEATED, repeated_items

STRATA = st.dictionaries(st.text(max_size=6), st.sampled_from("abc"), max_size=120)


@given(STRATA, st.floats(0, 1), st.integers())
def test_so_many_items_are_repeated_and_each_is_one_of_the_run(
    strata: dict[str, str], share: float, seed: int
) -> None:
    repeated = repeated_items(strata, share, seed)
    assert repeated <= strata.keys()
    assert len(repeated) >= min(len(strata), max(LEAST_REPEATED, share * len(strata)) - 1e-6)
    assert len(repeated) <= max(LEAST_REPEATED, share * len(strata) + 1)
    assert repeated == repeated_items(dict(reversed(strata.items())), share, seed)


def test_every_stratum_has_its_share_whatever_the_seed() -> None:
    strata = {f"i{number:03}": "large" if number < 150 else "small" for number in range(200)}
    for seed in range(20):
        counts = Counter(strata[name] for name in repeated_items(strata, 0.2, seed))
        assert counts["large"] in (29, 30, 31)
        assert counts["small"] in (9, 10, 11)


def test_every_item_is_drawn_by_some_seed() -> None:
    strata = dict.fromkeys((f"i{number:03}" for number in range(100)), "-")
    drawn = Counter(name for seed in range(400) for name in repeated_items(strata, 0.2, seed))
    # 80 expected of each; four standard deviations are 32.
    assert all(48 <= drawn[name] <= 112 for name in strata)
