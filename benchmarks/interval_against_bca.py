"""Why the interval of `replay diff` is no BCa bootstrap: both over the same simulated items.

    python benchmarks/interval_against_bca.py [--quick] [--runs N] [--only CHANGE]

The independent, unweighted changes of `benchmarks/truth/changes.py`. Shares of runs in which the 95 % interval
holds the true change: `ours` is `paired.interval`, `BCa` that of `scipy.stats.bootstrap` (Efron 1987), which
gives no interval where all items changed alike; such a run counts as not held, and `none` counts them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.changes import CHANGES, Change
from benchmarks.truth.runs import simulate
from benchmarks.truth.table import Options, error, finish, options
from replaydiff.diff.statistics import paired
from replaydiff.replay.model import Lane

DESIGNS = [(n, k) for n in (20, 50) for k in (1, 3)]
RESAMPLES = 2_000


def _bca(deltas: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where it has no interval, which is counted here
        found = stats.bootstrap(
            (deltas,), np.mean, method="BCa", n_resamples=RESAMPLES, vectorized=True, rng=rng
        ).confidence_interval
    return float(found.low), float(found.high)


def _one(change: Change, rng: np.random.Generator, n: int, k: int) -> tuple[bool, bool, bool]:
    """Whether our interval holds the truth, whether BCa's does, and whether BCa has none."""
    scores = simulate(rng, change.draw(rng, n), k)
    new, old = (scores[lane]["passed"].mean(axis=1) for lane in (Lane.NEW, Lane.OLD))
    deltas = new - old
    ours = paired.interval(paired.clusters(deltas.tolist(), range(n)))
    low, high = _bca(deltas, rng)
    assert ours is not None
    return ours[0] <= change.mean <= ours[1], low <= change.mean <= high, bool(np.isnan(low))


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line; it states no level, so every line holds."""
    yield (
        f"{options.runs} runs a row; standard error of a share of 95 %: {error(0.95, options.runs):.1%}",
        True,
    )
    yield f"{'change':28}{'items':>6}{'k':>3}{'ours':>8}{'BCa':>8}{'none':>8}", True
    for change in (each for each in CHANGES if options.only in each.name):
        probe = change.draw(np.random.default_rng(0), 20)
        if probe.session is not None or probe.weight is not None:
            continue
        for n, k in DESIGNS:
            rng = np.random.default_rng([n, k])
            ours, bca, none = np.array([_one(change, rng, n, k) for _ in range(options.runs)]).mean(axis=0)
            yield f"{change.name:28}{n:6}{k:3}{ours:8.1%}{bca:8.1%}{none:8.1%}", True


if __name__ == "__main__":
    finish(table(options("Our interval beside a BCa bootstrap.", runs=400, quick=60)))
