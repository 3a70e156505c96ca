"""How often a version compared with itself raises an alarm, by everything that `replay diff` prints.

    python benchmarks/aa_false_alarms.py [--quick] [--runs N] [--only AGENT]

Agents with known pass rates, the same for old and new, go through `diff.compute`. A row is a kind of agent
and a size: `items`, `k` trials a lane, with the A/A lane or not. Shares of runs:

    HOLD     the answer is HOLD
    p        a metric's p-value is at most 0.05
    item     any item is called regressed or improved, the noise being known
    covers   the 95 % interval holds the true change, 0
    SHIP     the answer is SHIP, which is the right one

Shares of items: `wrong`, called regressed or improved where the noise is known; `naive`, called so by tools
that compare one run with one run, pass with fail. `naive HOLD` is the share of runs in which such a tool
finds any item regressed.

In rows with `sessions` the items are a sample, of which four in a session share a pass rate and their luck (of
a golden set trials of different cases count as independent); with `judge` a second metric is what a noisy
judge makes of the same trials, and both decide; with `4 metrics` four independent metrics decide. `!`: beyond what is stated (5 %, for `covers` 93 %) by more than two standard errors of the
simulation; the command then ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.agents import AGENTS, Rates, Truth, unchanged
from benchmarks.truth.runs import Scores, diffed, simulate
from benchmarks.truth.table import Options, error, finish, options
from replaydiff.diff.result import Answer, DiffResult, Noise, Verdict
from replaydiff.replay.model import Lane

LEVEL, COVERAGE = 0.05, 0.93
DESIGNS = [
    (n, k, again) for n in (20, 50, 200) for k, again in ((1, False), (1, True), (3, False), (3, True))
]
CALLED = (Verdict.REGRESSED, Verdict.IMPROVED)


@dataclass(frozen=True, slots=True)
class World:
    """A kind of agent, and how its trials are scored."""

    name: str
    rates: Rates
    sessions: bool = False
    judge: bool = False
    metrics: int = 1

    def run(self, rng: np.random.Generator, n: int, k: int, again: bool) -> tuple[Scores, DiffResult]:
        """One comparison of a version with itself."""
        truth = unchanged(self.rates(rng, n), sessions=self.sessions)
        if self.sessions:
            truth = replace(truth, weight=np.full(n, 100.0))
        scores = simulate(rng, truth, k, again=again, judge=self.judge)
        if self.metrics > 1:
            scores = _several(rng, truth, k, again, self.metrics)
        return scores, diffed(truth, scores, seed=int(rng.integers(2**31)))


def _several(rng: np.random.Generator, truth: Truth, k: int, again: bool, metrics: int) -> Scores:
    drawn = [simulate(rng, truth, k, again=again) for _ in range(metrics)]
    return {
        lane: {f"m{number}": one[lane]["passed"] for number, one in enumerate(drawn)} for lane in drawn[0]
    }


WORLDS = [
    *(World(name, rates) for name, rates in AGENTS.items()),
    World("Beta(0.5, 0.5), sessions", AGENTS["Beta(0.5, 0.5)"], sessions=True),
    World("Beta(2, 1), judge", AGENTS["Beta(2, 1)"], judge=True),
    World("30 % coins, 4 metrics", AGENTS["70 % certain, 30 % coins"], metrics=4),
]


def _found(scores: Scores, result: DiffResult) -> list[float]:
    """The columns of one run, as shares."""
    known = result.noise is not Noise.UNKNOWN
    metrics = result.metrics.values()
    verdicts = [metric.verdict for item in result.items for metric in item.metrics.values()]
    called = [verdict in CALLED for verdict in verdicts]
    old, new = (next(iter(scores[lane].values()))[:, 0] for lane in (Lane.OLD, Lane.NEW))
    return [
        result.answer is Answer.HOLD,
        float(np.mean([metric.p is not None and metric.p <= LEVEL for metric in metrics])),
        known and any(called),
        float(np.mean([metric.ci is not None and metric.ci[0] <= 0 <= metric.ci[1] for metric in metrics])),
        result.answer is Answer.SHIP,
        float(np.mean(called)),
        float(np.mean(old != new)),
        bool(np.any(old > new)),
    ]


def row(world: World, design: tuple[int, int, bool], runs: int) -> tuple[str, bool]:
    """One line of the table, and whether everything kept its level."""
    n, k, again = design
    rng = np.random.default_rng([n, k, again])
    found = np.array([_found(*world.run(rng, n, k, again)) for _ in range(runs)])
    hold, p, item, covers, ship, wrong, naive, alarm = found.mean(axis=0)
    bad = [share > LEVEL + 2 * error(LEVEL, runs) for share in (hold, p, item)]
    bad.append(covers < COVERAGE - 2 * error(COVERAGE, runs))
    cells = "".join(
        f"{share:7.1%}{'!' if off else ' '}" for share, off in zip((hold, p, item, covers), bad, strict=True)
    )
    known = f"{wrong:8.2%}" if k > 1 or again else f"{'-':>8}"
    text = f"{world.name:26}{n:5}{k:3}{'yes' if again else 'no':>5}{cells}{ship:7.0%}{known}{naive:7.0%}{alarm:12.0%}"
    return text, not any(bad)


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield (
        f"{options.runs} runs a row; standard error of a share of 5 %: {error(LEVEL, options.runs):.1%}",
        True,
    )
    yield (
        (
            f"{'agent':26}{'items':>5}{'k':>3}{'A/A':>5}{'HOLD':>7} {'p':>7} {'item':>7} {'covers':>7} "
            f"{'SHIP':>7}{'wrong':>8}{'naive':>7}{'naive HOLD':>12}"
        ),
        True,
    )
    for world in WORLDS:
        for design in DESIGNS:
            if options.only in world.name and (not options.quick or design[0] <= 50):
                yield row(world, design, options.runs)


if __name__ == "__main__":
    finish(table(options("False alarms of versions compared with themselves.", runs=400, quick=50)))
