"""How often one of several candidates that are all the old version again is taken for another one.

    python benchmarks/several_candidates.py [--quick] [--runs N] [--only AGENT]

`m` candidates with the old version's pass rates run against it, as `replay run --new a --new b` runs them, and
go through `diff.compute`. Shares of runs in which it is so of *any* candidate:

    ci        its simultaneous 95 % interval leaves out 0
    p         its p-value, adjusted by Holm over the candidates, is at most 0.05
    behind    the interval of how far it is behind the first leaves out 0
    HOLD      its answer is HOLD; verdicts on items are not corrected over candidates, so m times as often
    SHIP      its answer is SHIP, in rows where all candidates are worse by 0.05, the tolerance (stated: 2.5 %,
              since it takes one side of an interval)

`!`: more than 5 % (SHIP 2.5 %) by two standard errors of the simulation; the command then ends with 1. HOLD
is not held to it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.agents import AGENTS, Loss, outcomes, unchanged, worse
from benchmarks.truth.runs import METRIC, Scores, diffed
from benchmarks.truth.table import Options, error, finish, options
from replaydiff.diff.result import Answer, DiffResult
from replaydiff.replay.model import Lane

LEVEL, TRIALS, TOLERANCE = 0.05, 3, 0.05
NAMES = ["98 % each", "70 % certain, 30 % coins", "Beta(2, 1)", "coins"]
DESIGNS = [(n, m) for n in (20, 50, 200) for m in (2, 5)]


def _scores(rng: np.random.Generator, old: np.ndarray, new: list[np.ndarray]) -> Scores:
    lanes: dict[Lane, np.ndarray] = {
        Lane.OLD: old,
        **{Lane("new", number): rates for number, rates in enumerate(new, start=1)},
    }
    return {lane: {"passed": outcomes(rng, rates, TRIALS, None)} for lane, rates in lanes.items()}


def _apart(ci: tuple[float, float] | None) -> bool:
    return ci is not None and not ci[0] <= 0 <= ci[1]


def _alarms(result: DiffResult) -> list[bool]:
    ranked = [candidate.metrics[METRIC] for candidate in result.ranking]
    return [
        any(_apart(metric.ci) for metric in ranked),
        any(metric.p_adjusted is not None and metric.p_adjusted <= LEVEL for metric in ranked),
        any(_apart(metric.behind_ci) for metric in ranked),
        any(candidate.answer is Answer.HOLD for candidate in result.ranking),
    ]


def _row(name: str, n: int, m: int, runs: int) -> tuple[str, bool]:
    rates, rng = AGENTS[name], np.random.default_rng([n, m])
    found = []
    for _ in range(runs):
        truth = unchanged(rates(rng, n))
        alarms = _alarms(diffed(truth, _scores(rng, truth.old, [truth.new] * m)))
        lost = worse(rates, rng, n, TOLERANCE, Loss(falls=False))
        ranking = diffed(lost, _scores(rng, lost.old, [lost.new] * m)).ranking
        found.append([*alarms, any(candidate.answer is Answer.SHIP for candidate in ranking)])
    *shares, ship = np.mean(found, axis=0)
    held = [share <= LEVEL + 2 * error(LEVEL, runs) for share in shares[:3]]
    held.append(ship <= LEVEL / 2 + 2 * error(LEVEL / 2, runs))
    columns = zip([*shares[:3], ship], held, strict=True)
    cells = [f"{share:8.1%}{' ' if ok else '!'}" for share, ok in columns]
    return f"{name:26}{n:5}{m:3}{''.join(cells[:3])}{shares[3]:8.1%} {cells[3]}", all(held)


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield (
        f"{options.runs} runs a row; standard error of a share of 5 %: {error(LEVEL, options.runs):.1%}",
        True,
    )
    yield (
        f"{'agent':26}{'items':>5}{'m':>3}{'ci':>8} {'p':>8} {'behind':>8} {'HOLD':>8} {'SHIP':>8}",
        True,
    )
    for name in NAMES:
        for n, m in DESIGNS:
            if options.only in name and (not options.quick or n <= 50):
                yield _row(name, n, m, options.runs)


if __name__ == "__main__":
    finish(table(options("Several candidates that are all the old version.", runs=150, quick=30)))
