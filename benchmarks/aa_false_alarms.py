"""How often a version compared with itself raises an alarm, and how often the interval holds the truth.

    python benchmarks/aa_false_alarms.py [RUNS]        # default 300 simulated runs a row, under a minute

Simulates agents with known pass rates per item, the same for old and new, and puts the trials through the
verdicts and the interval that `replay diff` uses. Columns: share of runs that announce any regressed item
(this alone makes HOLD), share whose interval lies wholly below 0 with a delta below −0.05, share that HOLD by
either, share whose 95 % interval holds the true 0, and, for comparison, the share in which naive flips (the
sign of the delta, as tools report it that know no noise) announce a regression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from diff.result import Verdict
from diff.statistics import paired
from diff.verdicts import Sample, Scale, judge, null_model

AGENTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "certain": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "98 % each": lambda _rng, n: np.full(n, 0.98),
    "95 % each": lambda _rng, n: np.full(n, 0.95),
    "90 % certain, 10 % coins": lambda rng, n: np.where(rng.random(n) < 0.1, 0.5, 1.0),
    "70 % certain, 30 % coins": lambda rng, n: np.where(rng.random(n) < 0.3, 0.5, 1.0),
    "Beta(0.5, 0.5)": lambda rng, n: rng.beta(0.5, 0.5, n),
    "Beta(2, 1)": lambda rng, n: rng.beta(2, 1, n),
    "coins": lambda _rng, n: np.full(n, 0.5),
}
DESIGNS = [(20, 1, True), (50, 1, True), (20, 3, False), (50, 3, False), (50, 3, True), (200, 3, False)]
SCALE = Scale()


def samples(rng: np.random.Generator, rates: np.ndarray, k: int, aa: bool) -> list[Sample]:
    """One simulated run: every lane has the same rates."""
    drawn = (rng.random((3, len(rates), k)) < rates[:, None]).astype(float)
    return [
        Sample(old=tuple(drawn[0, i]), new=tuple(drawn[1, i]), again=tuple(drawn[2, i]) if aa else ())
        for i in range(len(rates))
    ]


def alarms(rng: np.random.Generator, rates: np.ndarray, k: int, aa: bool) -> tuple[bool, bool, bool, bool]:
    """Whether one run announces an item, has an interval below 0, covers 0, and flips naively."""
    drawn = samples(rng, rates, k, aa)
    verdicts = judge(drawn, SCALE, null_model(drawn, SCALE), min_delta=0.1, confidence=0.95)
    deltas = [delta for sample in drawn if (delta := sample.delta) is not None]
    grouped = paired.clusters(deltas, range(len(deltas)))
    low, high = paired.interval(grouped, seed=int(rng.integers(2**31))) or (0.0, 0.0)
    return (
        any(verdict.verdict is Verdict.REGRESSED for verdict in verdicts),
        high < 0 and grouped.mean < -0.05,
        low <= 0 <= high,
        any(delta < -0.1 for delta in deltas),
    )


def main(runs: int) -> None:
    print(f"{runs} runs a row; standard error of a share near 5 %: {np.sqrt(0.05 * 0.95 / runs):.1%}")
    print(
        f"{'agent':28}{'items':>6}{'k':>3}{'A/A':>5}{'item':>8}{'interval':>10}{'HOLD':>8}{'covers':>9}{'naive':>8}"
    )
    for name, draw in AGENTS.items():
        for n, k, aa in DESIGNS:
            rng = np.random.default_rng([n, k, aa])
            found = np.array([alarms(rng, draw(rng, n), k, aa) for _ in range(runs)])
            item, below, covers, naive = found.mean(axis=0)
            hold = (found[:, 0] | found[:, 1]).mean()
            print(
                f"{name:28}{n:6}{k:3}{'yes' if aa else 'no':>5}{item:8.1%}{below:10.1%}{hold:8.1%}"
                f"{covers:9.1%}{naive:8.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
