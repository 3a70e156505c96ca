"""Whether a comparison of the size that `replay plan` names finds the change it was planned for.

    python benchmarks/plan_power.py [--quick] [--runs N] [--only AGENT]

For each kind of agent: a small run of 50 items, 3 trials and the A/A lane, of a golden set (`fixed`) or of a
sample (`drawn`), in which nothing changed, goes through `diff.plan`, which promises that n items of k trials
show a change of `promised` with 80 % power. Then a new version is worse by exactly that, either as single
items that fail from now on (`falls`) or as every item a little (`slips`), and the comparison is made. `seen` is
the share whose interval lies wholly below 0. `!`: below 80 % by more than two standard errors of the simulation;
the command then ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.agents import AGENTS, Loss, unchanged, worse
from benchmarks.truth.runs import METRIC, diffed, simulate
from benchmarks.truth.table import Options, error, finish, options
from replaydiff.diff.plan import estimate_noise, smallest_change
from replaydiff.diff.statistics.paired import POWER

PILOT = 50
DESIGNS = [(20, 3), (50, 1), (50, 3), (200, 3)]
NAMES = ["98 % each", "90 % certain, 10 % coins", "70 % certain, 30 % coins", "Beta(2, 1)", "coins"]


def _row(name: str, drawn: bool, n: int, k: int, runs: int) -> tuple[str, bool]:
    rates, rng = AGENTS[name], np.random.default_rng([n, k, drawn])
    mean = float(rates(rng, 200_000).mean())
    promised = []
    found: dict[bool, list[bool]] = {True: [], False: []}
    for _ in range(runs):
        pilot = replace(unchanged(rates(rng, PILOT)), weight=np.full(PILOT, 100.0) if drawn else None)
        known = estimate_noise(diffed(pilot, simulate(rng, pilot, 3, again=True)), METRIC)
        promised.append(smallest_change(known, n, k, confidence=0.95))
        for falls, hits in found.items():
            if promised[-1] < mean:
                truth = worse(rates, rng, n, promised[-1], Loss(falls=falls, drawn=drawn))
                ci = diffed(truth, simulate(rng, truth, k), seed=int(rng.integers(2**31))).metrics[METRIC].ci
                hits.append(ci is not None and ci[1] < 0)
    shares = [float(np.mean(hits)) for hits in found.values()]
    low = [share < POWER - 2 * error(POWER, runs) for share in shares]
    cells = "".join(f"{share:9.1%}{'!' if off else ' '}" for share, off in zip(shares, low, strict=True))
    return f"{name:26}{'drawn' if drawn else 'fixed':6}{n:5}{k:3}{np.median(promised):10.2f}{cells}", not any(
        low
    )


def table(asked: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield f"{asked.runs} runs a row; standard error of a share of 80 %: {error(POWER, asked.runs):.1%}", True
    yield f"{'agent':26}{'':6}{'items':>5}{'k':>3}{'promised':>10}{'falls':>9} {'slips':>9}", True
    for name, drawn, (n, k) in product(NAMES, (False, True), DESIGNS):
        if asked.only in name and (not asked.quick or n <= 50):
            yield _row(name, drawn, n, k, asked.runs)


if __name__ == "__main__":
    finish(table(options("Power as planned.", runs=300, quick=50)))
