"""How often a version that is worse than allowed is waved through, and how often it is held.

    python benchmarks/wrong_ship.py [--quick] [--runs N] [--only AGENT]

The new version is worse by `loss`, either as single items that fail from now on (`falls`) or as every item a
little (`slips`); over a golden set (`fixed`) by exactly that, over a sample (`drawn`) on average over all that
could be drawn. At a loss of 0.05, the tolerance, the interval's lower end is above it in 2.5 % of runs.
`±` is the standard error of the simulation; `!`: more SHIP than that by two standard errors, and the command
then ends with 1. `HOLD` is the power of the answer; the rest is CAN'T TELL. `aa`: with the A/A lane on all items.

An agent that always passes cannot show how it varies: there a sample that drew no broken item looks perfect.
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
CEILING = "always passes"
CEILING_DESIGNS = [(50, 3, False), (60, 3, False), (72, 3, False), (100, 3, False), (100, 2, False)]
CEILING_SIZES = (0.05, 0.06, 0.08)


def _row(
    name: str, n: int, k: int, again: bool, kind: Loss, runs: int, losses: tuple[float, ...] = SIZES
) -> tuple[str, bool]:
    rates, rng = AGENTS[name], np.random.default_rng([n, k, again])
    cells, within = "", True
    for loss in losses:
        answers = []
        for _ in range(runs):
            truth = worse(rates, rng, n, loss, kind)
            scores = simulate(rng, truth, k, again=again)
            answers.append(diffed(truth, scores, seed=int(rng.integers(2**31))).answer)
        ship, hold = answers.count(Answer.SHIP) / runs, answers.count(Answer.HOLD) / runs
        bad = ship > LEVEL + 2 * error(LEVEL, runs)
        within &= not bad
        cells += f"{ship:8.1%} ±{error(ship, runs):4.1%}{'!' if bad else ' '}{hold:5.0%}"
    return f"{name:26}{kind.name:>14}{n:5}{k:3}{'  yes' if again else '   no'}{cells}", within


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Yield every line, and whether it is within its limits."""
    yield (
        f"{options.runs} runs a cell; standard error of a share of 2.5 %: {error(LEVEL, options.runs):.1%}",
        True,
    )
    yield _head(SIZES), True
    for name in NAMES:
        for kind in LOSSES:
            for n, k, again in DESIGNS:
                if options.only in name and (not options.quick or n <= 50):
                    yield _row(name, n, k, again, kind, options.runs)
    if options.only in CEILING:
        yield _head(CEILING_SIZES), True
        for n, k, again in CEILING_DESIGNS:
            yield _row(CEILING, n, k, again, Loss(falls=True, drawn=True), options.runs, CEILING_SIZES)


def _head(losses: tuple[float, ...]) -> str:
    cells = "".join(f"{f'-{loss}: SHIP':>14}{'HOLD':>7}" for loss in losses)
    return f"{'agent':26}{'loss':>13}{'items':>6}{'k':>3}{'aa':>5}{cells}"


if __name__ == "__main__":
    finish(table(options("Answers where the new version is worse.", runs=300, quick=50)))
