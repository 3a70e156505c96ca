"""How often a worse version is held with an A/A lane, and an equal one where lanes have good and bad hours.

    python benchmarks/hold_power.py [--quick] [--runs N] [--only ROW]

The agent of `hard_worlds.py`: 100 items, three trials, 85 % passes, the old version twice. A loss is made by
every item a little (`slips`) or by single items that fail from now on (`falls`); a shock moves the pass rates
of all items of a lane by a normal value of that sd, as far as 0 and 1 allow. `±` is the standard error of the
simulation. `!`: an equal version without shocks is held in more than 5 % of runs, a loss of 0.1 in less than
85 % of them, or one of 0.2 in less than 90 %, by more than two standard errors; the command then ends with 1.
Rows with a shock have no limit: they show what a shock that one lane alone has can do (docs/statistics.md).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth import worlds
from benchmarks.truth.agents import worse_by
from benchmarks.truth.table import Options, error, finish, options
from replaydiff.diff.result import Answer

ITEMS, RATE = 100, 0.85
FALSE_HOLD = 0.05
LEAST = {0.1: 0.85, 0.2: 0.9}
"""Of a loss, how often it must be held where lanes have no shocks."""
ROWS = [
    ("equal", 0.0, 0.0),
    ("equal", 0.0, 0.05),
    ("equal", 0.0, 0.1),
    ("slips", 0.1, 0.0),
    ("slips", 0.2, 0.0),
    ("falls", 0.1, 0.0),
    ("falls", 0.2, 0.0),
]


def _row(kind: str, loss: float, shock: float, runs: int) -> tuple[str, bool]:
    rng = np.random.default_rng([zlib.crc32(kind.encode()), int(1000 * loss), int(1000 * shock)])
    answers = []
    for _ in range(runs):
        old = worlds.mixed(rng, ITEMS, RATE)
        new = worse_by(rng, old, loss) if kind == "falls" else old * (1 - loss / old.mean())
        answers.append(worlds.shocked(rng, old, new, shock).answer)
    hold, ship = (answers.count(answer) / runs for answer in (Answer.HOLD, Answer.SHIP))
    if loss:
        missed = hold < LEAST[loss] - 2 * error(LEAST[loss], runs)
    else:
        missed = not shock and hold > FALSE_HOLD + 2 * error(FALSE_HOLD, runs)
    cells = (
        f"{hold:8.1%} ±{error(hold, runs):5.1%}{'!' if missed else ' '}{ship:8.1%} ±{error(ship, runs):5.1%}"
    )
    return f"{kind:8}{loss:6.2f}{shock:8.2f}{cells}", not missed


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield f"{options.runs} runs a row", True
    yield f"{'version':8}{'loss':>6}{'shock':>8}{'HOLD':>16}{'SHIP':>15}", True
    for kind, loss, shock in ROWS:
        if options.only in kind:
            yield _row(kind, loss, shock, options.runs)


if __name__ == "__main__":
    finish(table(options("HOLD with an A/A lane.", runs=400, quick=40)))
