"""Measure how often agreement with recordings alone says SHIP where the old version cannot run any more.

    python benchmarks/observed_noise.py [--repeats 2000]

Each row simulates comparisons of a new version with single recordings of an old one that differs from itself on
a share of the items, by the code that decides: `diff.statistics.paired.interval` and `AlikeNoise.beyond`. *Wrong*
is SHIP where behaviour changed in exactly `max_changed` of the items, *right* is SHIP where nothing changed.
"""

from __future__ import annotations

import argparse
from functools import cache

import numpy as np

from replaydiff.diff.statistics import paired
from replaydiff.diff.statistics.alike import AlikeNoise

MAX_CHANGED = 0.10
TAIL = 0.025


@cache
def interval(items: int, differing: int) -> tuple[float, float]:
    """Return the interval of a share of items."""
    values = [1.0] * differing + [0.0] * (items - differing)
    ends = paired.interval(paired.clusters(values, range(items)), tails=(TAIL, TAIL))
    assert ends is not None
    return ends


def ships(items: int, pairs: int, repeat: float, change: float, repeats: int) -> float:
    """Return the share of simulated comparisons that end in SHIP."""
    rng = np.random.default_rng(1)
    count = 0
    for _ in range(repeats):
        differing = int(rng.binomial(items, min(1.0, repeat + change)))
        noise = AlikeNoise(pairs=pairs, differing=int(rng.binomial(pairs, repeat)), covered=1.0)
        _, ends = noise.beyond(differing / items, interval(items, differing), TAIL)
        count += ends[1] <= MAX_CHANGED
    return count / repeats


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    print("items  pairs  differs from itself  wrong SHIP  right SHIP")
    for items, pairs in ((50, 25), (100, 50), (200, 200), (200, 1000)):
        for repeat in (0.0, 0.05, 0.2):
            wrong, right = (ships(items, pairs, repeat, change, repeats) for change in (MAX_CHANGED, 0.0))
            print(f"{items:5}  {pairs:5}  {repeat:19.0%}  {wrong:10.1%}  {right:10.1%}")


if __name__ == "__main__":
    main()
