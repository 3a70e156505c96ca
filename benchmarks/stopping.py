"""How often a run that stops early errs, how often it finds out, and what it saves.

    python benchmarks/stopping.py [--quick] [--runs N] [--only ROW]

Every run is planned for 200 items with three trials, A/A included, and looked at with `--until-known`; the same
scores are also compared once, at all 200 items. The agent passes 85 % of its trials; the new version is equal,
or worse by `loss`, as items that fail from now on (`falls`) or as every item a little (`slips`), over a golden
set (`fixed`) or a sample (`drawn`). `saved` is the mean share of trials that were not run. `any time` lets each
run end after a random number of items, as a budget does.

`!`: wrong SHIP (at a loss of 0.05, the tolerance) or HOLD of an equal version above the level by more than two
standard errors; less power than the fixed design by more than three points and two standard errors; or less
saved than the target (20 % at equality, 45 % at a loss of 0.1, 70 % at 0.2). The command then ends with 1.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.agents import Truth, worse_by
from benchmarks.truth.runs import Scores, diffed, looked_at, simulate
from benchmarks.truth.table import Options, error, finish, options
from benchmarks.truth.worlds import mixed
from replaydiff.diff.result import Answer

ITEMS, TRIALS = 200, 3
SHIP_LEVEL, HOLD_LEVEL, LOST_POWER = 0.025, 0.05, 0.03
SAVED = {0.0: 0.20, 0.1: 0.45, 0.2: 0.70}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A change, and how it is looked at."""

    loss: float
    falls: bool = True
    drawn: bool = False
    any_time: bool = False

    @property
    def name(self) -> str:
        """As in the table's first column."""
        kind = "equal" if not self.loss else f"-{self.loss:g} {'falls' if self.falls else 'slips'}"
        return f"{kind}, {'drawn' if self.drawn else 'fixed'}{', any time' if self.any_time else ''}"


ROWS = [
    Row(loss=loss, falls=falls, drawn=drawn)
    for loss in (0.0, 0.05, 0.1, 0.2)
    for falls in ((True,) if loss in (0.0, 0.2) else (True, False))
    for drawn in (False, True)
] + [Row(loss=loss, drawn=drawn, any_time=True) for loss in (0.0, 0.05) for drawn in (False, True)]


def _comparison(row: Row, rng: np.random.Generator) -> tuple[Truth, Scores]:
    """Scores of one comparison: over fixed items the loss is exact, over drawn ones it is that of the agent."""
    old = mixed(rng, ITEMS, 0.85)
    if not row.falls:
        new = old * (1 - row.loss / 0.85)
    elif row.drawn:
        new = np.where(rng.random(ITEMS) < row.loss / 0.85, 0.0, old)
    else:
        new = worse_by(rng, old, row.loss)
    weight = np.full(ITEMS, 100.0) if row.drawn else None
    truth = Truth(old=old, new=new, weight=weight)
    return truth, simulate(rng, truth, TRIALS, again=True)


def _measure(row: Row, runs: int) -> tuple[str, bool]:
    rng = np.random.default_rng(zlib.crc32(row.name.encode()))
    fixed, found, saved = [], [], []
    for _ in range(runs):
        truth, scores = _comparison(row, rng)
        seed = int(rng.integers(2**31))
        end = int(rng.integers(20, ITEMS + 1)) if row.any_time else None
        if not row.any_time:
            fixed.append(diffed(truth, scores, seed=seed).answer)
        result, items = looked_at(truth, scores, seed=seed, end=end)
        found.append(result.answer)
        saved.append(1 - items / ITEMS)

    def share(answers: list[Answer], answer: Answer) -> float:
        return answers.count(answer) / max(1, len(answers))

    hold, ship, kept = share(found, Answer.HOLD), share(found, Answer.SHIP), float(np.mean(saved))
    bad = []
    if row.loss == 0.0 and hold > HOLD_LEVEL + 2 * error(HOLD_LEVEL, runs):
        bad.append("HOLD")
    if row.loss >= 0.05 and ship > SHIP_LEVEL + 2 * error(SHIP_LEVEL, runs):
        bad.append("SHIP")
    wanted = Answer.HOLD if row.loss else Answer.SHIP
    power = share(fixed, wanted)
    if fixed and share(found, wanted) < power - LOST_POWER - 2 * error(0.5, runs) * (2 * 0.1) ** 0.5:
        bad.append("power")
    if not row.any_time and kept < SAVED.get(row.loss, 0.0):
        bad.append("saved")
    once = (
        f"{share(fixed, Answer.HOLD):8.1%}{share(fixed, Answer.SHIP):8.1%}" if fixed else f"{'-':>8}{'-':>8}"
    )
    text = f"{row.name:28}{once}{hold:10.1%}{ship:8.1%}{kept:8.0%}{' !' + ', '.join(bad) if bad else ''}"
    return text, not bad


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield (
        f"{options.runs} runs a row; standard error of a share of 2.5 %: {error(SHIP_LEVEL, options.runs):.1%}",
        True,
    )
    yield f"{'':28}{'all 200 items':>16}{'until known':>18}", True
    yield f"{'change':28}{'HOLD':>8}{'SHIP':>8}{'HOLD':>10}{'SHIP':>8}{'saved':>8}", True
    for row in ROWS:
        if options.only in row.name:
            yield _measure(row, options.runs)


if __name__ == "__main__":
    finish(table(options("Runs that stop once the answer is known.", runs=400, quick=40)))
