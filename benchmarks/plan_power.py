"""Whether comparisons answer as often as `replay plan` promises.

    python benchmarks/plan_power.py [--quick] [--runs N] [--only AGENT]

For each kind of agent: a run of 50 items of two trials, of a golden set (`fixed`) or of a sample (`drawn`), in
which nothing changed, goes through `diff.plan`, which promises how often a comparison of n items of k trials
answers SHIP where nothing changed, and HOLD at a loss that all items share. Then that comparison is made by
`diff.compute`, on the agent's own pass rates. `promised` is the mean promise over a sixth as many pilots. `±` is
the standard error of the difference. `!`: promise and outcome lie more than five points apart, by more than two
of them; the command then ends with 1. `within`: the share of single pilots whose promise is within fifteen
points of the outcome.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth import worlds
from benchmarks.truth.agents import AGENTS, Loss, Rates, unchanged, worse
from benchmarks.truth.runs import METRIC, diffed, simulate
from benchmarks.truth.table import Options, error, finish, options
from replaydiff.diff.plan import Design, design_of, estimate_noise, planned_size
from replaydiff.diff.result import Answer

PILOT, TOLERANCE, APART = 50, 0.05, 0.05
PILOTS = 6
"""Comparisons a pilot."""
DESIGNS = [(50, 2, 0.1), (100, 2, 0.1), (100, 3, 0.1), (230, 2, 0.08)]
NAMES = ["85 %, most certain", "98 % each", "90 % certain, 10 % coins", "Beta(2, 1)"]
RATES: dict[str, Rates] = {**AGENTS, NAMES[0]: lambda rng, n: worlds.mixed(rng, n, 0.85)}


def _repeated(rng: np.random.Generator, size: Design) -> np.ndarray:
    return rng.permutation(size.items) < size.repeated


def _row(name: str, drawn: bool, n: int, k: int, loss: float, runs: int) -> tuple[str, bool]:
    rates, rng = RATES[name], np.random.default_rng([n, k, drawn])
    size = design_of(n, k, lanes=2, share=0.2)
    promises, answers = [], {0.0: 0, loss: 0}
    for _ in range(max(10, runs // PILOTS)):
        pilot = unchanged(rates(rng, PILOT))
        pilot = replace(
            pilot,
            weight=np.full(PILOT, 100.0) if drawn else None,
            repeated=_repeated(rng, design_of(PILOT, 2, lanes=2, share=0.2)),
        )
        noise = estimate_noise(diffed(pilot, simulate(rng, pilot, 2, again=True)), METRIC)
        planned = planned_size(noise, size, loss, tolerance=TOLERANCE, confidence=0.95)
        promises.append((planned.ship, planned.hold))
    for _ in range(runs):
        for true, due in ((0.0, Answer.SHIP), (loss, Answer.HOLD)):
            truth = worse(rates, rng, n, true, Loss(falls=False, drawn=drawn))
            truth = replace(truth, repeated=_repeated(rng, size))
            scores = simulate(rng, truth, k, again=True)
            answers[true] += diffed(truth, scores, seed=int(rng.integers(2**31))).answer is due
    cells, held = "", True
    for each, times in zip(np.transpose(promises), answers.values(), strict=True):
        seen, promised = times / runs, float(each.mean())
        near = float(np.mean(np.abs(each - seen) <= 0.15))
        spread = (error(seen, runs) ** 2 + float(each.var()) / len(each)) ** 0.5
        apart = abs(seen - promised) > APART + 2 * spread
        held &= not apart
        cells += f"{promised:10.1%}{seen:8.1%} ±{spread:5.1%}{'!' if apart else ' '}{near:7.0%}"
    return f"{name:26}{'drawn' if drawn else 'fixed':6}{n:5}{k:3}{loss:6.2f}{cells}", held


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield f"{options.runs} runs a row", True
    yield f"{'':37}{'':9}{'SHIP, no change':>26}{'':7}{'HOLD at the loss':>25}", True
    heads = f"{'promised':>10}{'seen':>8}{'':8}{'within':>7}"
    yield f"{'agent':26}{'':6}{'items':>5}{'k':>3}{'loss':>6}{heads}{heads}", True
    for name, drawn, (n, k, loss) in product(NAMES, (True, False), DESIGNS):
        if options.only in name and (not options.quick or (n <= 100 and k == 2)):
            yield _row(name, drawn, n, k, loss, options.runs)


if __name__ == "__main__":
    finish(table(options("Answers as planned.", runs=300, quick=40)))
