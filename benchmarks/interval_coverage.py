"""How often the 95 % interval of `replay diff` holds the true change, where there is one.

    python benchmarks/interval_coverage.py [--quick] [--runs N] [--only CHANGE]

Items with a known change (`benchmarks/truth/changes.py`) go through `diff.compute`: as a golden set (`fixed`),
where the truth is the mean over these very items, and as a sample (`drawn`), where it is the mean over all that
could be drawn. In the row of sessions whole sessions of one to
seven items fall together; in the weighted row the interval is that of the change over the month. `!`: below
93 % by more than two standard errors of the simulation; the command then ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.changes import CHANGES, Change
from benchmarks.truth.runs import METRIC, diffed, simulate
from benchmarks.truth.table import Options, error, finish, options

STATED = 0.93
DESIGNS = [(n, k) for n in (20, 50, 200) for k in (1, 3)]


def _one(change: Change, drawn: bool, rng: np.random.Generator, n: int, k: int) -> tuple[bool, float]:
    """Whether one interval holds the truth, and how wide it is."""
    truth = change.draw(rng, n)
    if drawn and truth.weight is None:
        truth = replace(truth, weight=np.full(n, 100.0))
    metric = diffed(truth, simulate(rng, truth, k), seed=int(rng.integers(2**31))).metrics[METRIC]
    ci = metric.ci
    assert ci is not None
    mean = change.mean if drawn else float(np.mean(truth.new - truth.old))
    return ci[0] - 1e-9 <= mean <= ci[1] + 1e-9, ci[1] - ci[0]


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    designs = [design for design in DESIGNS if not options.quick or design[0] <= 50]
    yield (
        f"{options.runs} runs a cell; standard error of a share of 95 %: {error(0.95, options.runs):.1%}",
        True,
    )
    yield "share of intervals that hold the truth (and their mean width)", True
    heads = "".join(f"{f'n={n} k={k}':>16}" for n, k in designs)
    yield f"{'change':28}{'truth':>7}{'items':>7}{heads}", True
    for change in (each for each in CHANGES if options.only in each.name):
        for drawn in (True,) if change.sampled else (False, True):
            cells, held = "", True
            for n, k in designs:
                rng = np.random.default_rng([n, k])
                found = np.array([_one(change, drawn, rng, n, k) for _ in range(options.runs)])
                covers, width = found.mean(axis=0)
                low = covers < STATED - 2 * error(STATED, options.runs)
                held &= not low
                cells += f"{covers:8.1%} ({width:.2f}){'!' if low else ' '}"
            kind = "drawn" if drawn else "fixed"
            yield f"{change.name:28}{change.mean:+7.3f}{kind:>7}{cells}", held


if __name__ == "__main__":
    finish(table(options("Coverage of the interval.", runs=400, quick=60)))
