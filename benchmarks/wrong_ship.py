"""How often a version that is worse than allowed is waved through, and how often it is held.

    python benchmarks/wrong_ship.py [--quick] [--runs N] [--only AGENT]

The new version is worse by `loss`, either as single items that fail from now on (`falls`) or as every item a
little (`slips`); over a golden set (`fixed`) by exactly that, over a sample (`drawn`) on average over all that
could be drawn. At a loss of 0.05, the tolerance, the interval's lower end is above it in 2.5 % of runs.
`!`: more SHIP than that by two standard errors of the simulation; the command then ends with 1. `HOLD` is the
power of the answer; the rest is CAN'T TELL. `aa`: with the A/A lane, the default of `replay run`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.agents import AGENTS, LOSSES, Loss, worse
from benchmarks.truth.runs import diffed, simulate
from benchmarks.truth.table import Options, error, finish, options
from replaydiff.diff.result import Answer

LEVEL = 0.025
NAMES = ["98 % each", "70 % certain, 30 % coins", "Beta(2, 1)"]
DESIGNS = [(20, 3, False), (50, 3, False), (50, 3, True), (200, 3, False), (200, 3, True)]
"""Items, trials, and whether the old version runs twice."""
SIZES = (0.05, 0.1, 0.2)


def _row(name: str, n: int, k: int, again: bool, kind: Loss, runs: int) -> tuple[str, bool]:
    rates, rng = AGENTS[name], np.random.default_rng([n, k, again])
    cells, held = "", True
    for loss in SIZES:
        answers = []
        for _ in range(runs):
            truth = worse(rates, rng, n, loss, kind)
            scores = simulate(rng, truth, k, again=again)
            answers.append(diffed(truth, scores, seed=int(rng.integers(2**31))).answer)
        ship, hold = answers.count(Answer.SHIP) / runs, answers.count(Answer.HOLD) / runs
        bad = ship > LEVEL + 2 * error(LEVEL, runs)
        held &= not bad
        cells += f"{ship:10.1%}{'!' if bad else ' '}{hold:7.0%}"
    return f"{name:26}{kind.name:>14}{n:5}{k:3}{'  yes' if again else '   no'}{cells}", held


def table(asked: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield (
        f"{asked.runs} runs a cell; standard error of a share of 2.5 %: {error(LEVEL, asked.runs):.1%}",
        True,
    )
    heads = "".join(f"{f'-{loss}: SHIP':>11}{'HOLD':>7}" for loss in SIZES)
    yield f"{'agent':26}{'loss':>13}{'items':>6}{'k':>3}{'aa':>5}{heads}", True
    for name in NAMES:
        for kind in LOSSES:
            for n, k, again in DESIGNS:
                if asked.only in name and (not asked.quick or n <= 50):
                    yield _row(name, n, k, again, kind, asked.runs)


if __name__ == "__main__":
    finish(table(options("Answers where the new version is worse.", runs=300, quick=50)))
