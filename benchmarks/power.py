"""What a budget of agent calls decides: SHIP, HOLD and their errors, beside a paired t test on the same trials.

    python benchmarks/power.py [--quick] [--runs N] [--only ROW]

An agent that passes 85 % of a sample's items: 60 % of them always, the others with a chance of their own. Each
row spends its calls as `--calls` does (`diff.plan.design`: items before trials, the old version once more on a
share of the items) and puts the trials through `diff.compute`. A new version is equal, or loses a share of the
passes on every item (`slips`), or fails single items from now on (`falls`). `t` is the paired t test over the
same items by the same rule: SHIP where its lower end is at least -0.05, HOLD where its upper end is below 0 and
the mean below -0.05. `known` is the same rule with the standard error known, and the trials of the A/A lane pooled into
the old version: what a version of the rule could reach that knew all but the truth. `without A/A` repeats a row with `--no-aa`.

Both shares of the t test are of 20,000 simulated comparisons, those of the product are of `--runs`, by
how they differ from the t test on the same trials (a control variate), which is known far better than either.
`±` is the standard error of that.

`!`: less often than the least of the row, a wrong SHIP in more than 2.5 %, HOLD by 3 points less often than the t test, or
SHIP by 5 points, each by more than two standard errors; the command then ends with 1.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth import worlds
from benchmarks.truth.agents import Loss, Truth, worse
from benchmarks.truth.runs import diffed, simulate
from benchmarks.truth.table import Options, finish, options
from replaydiff.diff.plan import Design, design
from replaydiff.diff.result import Answer
from replaydiff.diff.statistics.distributions import normal_quantile, t_quantile
from replaydiff.replay.model import Lane

RATE, TOLERANCE, WRONG = 0.85, 0.05, 0.025
SHARE = 0.2
BEHIND = {Answer.SHIP: 0.05, Answer.HOLD: 0.03}
"""How far an answer may lie behind the t test, which has no A/A lane that differs by chance."""
MORE_RUNS = 3
"""Of a row about SHIP of an equal version, which hangs on the last item."""
T_RUNS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One truth and what must be answered how often."""

    calls: int
    kind: str
    loss: float
    ship: float = 0.0
    """The least share of SHIP."""
    hold: float = 0.0
    aa: bool = True

    @property
    def name(self) -> str:
        """As in the table."""
        return f"{self.calls} calls {self.kind}" + ("" if self.aa else " without A/A")


ROWS = [
    Row(calls=450, kind="equal", loss=0.0, ship=0.45),
    Row(calls=450, kind="slips", loss=0.1, hold=0.85),
    Row(calls=450, kind="falls", loss=0.1),
    Row(calls=450, kind="slips", loss=0.05),
    Row(calls=450, kind="falls", loss=0.05),
    Row(calls=900, kind="equal", loss=0.0, ship=0.72),
    Row(calls=900, kind="slips", loss=0.1, hold=0.96),
    Row(calls=900, kind="slips", loss=0.05),
    Row(calls=900, kind="falls", loss=0.05),
    Row(calls=220, kind="equal", loss=0.0),
    Row(calls=220, kind="slips", loss=0.1),
    Row(calls=450, kind="equal", loss=0.0, aa=False),
    Row(calls=450, kind="slips", loss=0.1, aa=False),
]


def _rates(rng: np.random.Generator, n: int) -> np.ndarray:
    return worlds.mixed(rng, n, RATE)


def truth_of(rng: np.random.Generator, size: Design, kind: str, loss: float) -> Truth:
    """Draw the items of a sample, of which the A/A lane replays some."""
    truth = worse(_rates, rng, size.items, loss, Loss(falls=kind == "falls", drawn=True))
    return replace(truth, repeated=rng.permutation(size.items) < size.repeated)


def by_t(old: np.ndarray, new: np.ndarray) -> tuple[bool, bool]:
    """Whether a paired t test over the items' means answers SHIP, and whether HOLD."""
    changes = new.mean(axis=1) - old.mean(axis=1)
    mean, half = float(changes.mean()), float(changes.std(ddof=1)) / len(changes) ** 0.5
    half *= t_quantile(len(changes) - 1, 0.975)
    return mean - half >= -TOLERANCE, mean + half < 0 and mean < -TOLERANCE


def _simulated_t(row: Row, size: Design) -> np.ndarray:
    """Return how often the t test answers SHIP and HOLD, and SHIP where the error is known."""
    rng = np.random.default_rng([1, row.calls, round(1000 * row.loss)])
    answers, means = [], []
    for _ in range(T_RUNS):
        truth = truth_of(rng, size, row.kind, row.loss)
        scores = simulate(rng, truth, size.trials, again=row.aa)
        old, new = (scores[lane]["passed"] for lane in (Lane.OLD, Lane.NEW))
        answers.append(by_t(old, new))
        before = old.mean(axis=1)
        if row.aa:
            both = (before + scores[Lane.OLD2]["passed"].mean(axis=1)) / 2
            before = np.where(truth.repeated, both, before)
        means.append(new.mean() - before.mean())
    known = np.mean(np.array(means) - normal_quantile(0.975) * np.std(means) >= -TOLERANCE)
    return np.array([*np.mean(answers, axis=0), known])


def _row(row: Row, runs: int) -> tuple[str, bool]:
    rng = np.random.default_rng([zlib.crc32(row.name.encode()), round(1000 * row.loss)])
    size = design(row.calls, 1_000_000, lanes=2, share=SHARE if row.aa else 0.0)
    beyond = []
    runs *= 1 if row.loss else MORE_RUNS
    for _ in range(runs):
        truth = truth_of(rng, size, row.kind, row.loss)
        scores = simulate(rng, truth, size.trials, again=row.aa)
        answer = diffed(truth, scores, seed=int(rng.integers(2**31))).answer
        by = by_t(*(scores[lane]["passed"] for lane in (Lane.OLD, Lane.NEW)))
        beyond.append([(answer is Answer.SHIP) - by[0], (answer is Answer.HOLD) - by[1]])
    *often, known = _simulated_t(row, size)
    shares = np.clip(often + np.mean(beyond, axis=0), 0.0, 1.0)
    # Where the product never differed from the t test it may have, in another run.
    errors = np.maximum(np.std(beyond, axis=0), 0.05) / runs**0.5
    (ship, hold), (t_ship, t_hold) = shares, often
    is_wrong = row.loss >= TOLERANCE
    if is_wrong:
        missed = [
            ship > WRONG + 2 * errors[0],
            hold < max(row.hold, t_hold - BEHIND[Answer.HOLD]) - 2 * errors[1],
        ]
    else:
        missed = [ship < max(row.ship, t_ship - BEHIND[Answer.SHIP]) - 2 * errors[0], False]
    cells = [
        f"{share:8.1%} ±{error:5.1%}{'!' if low else ' '}{by:7.1%}"
        for share, error, low, by in zip(shares, errors, missed, often, strict=True)
    ]
    about = f"{row.name:28}{row.loss:5.2f}{size.items:6} × {size.trials}"
    return f"{about}{cells[0]}{known:7.1%}{cells[1]}", not any(missed)


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield f"{options.runs} runs a row, {MORE_RUNS * options.runs} of an equal version", True
    yield f"{'':28}{'loss':>5}{'items':>10}{'SHIP':>16}{'t':>7}{'known':>7}{'HOLD':>16}{'t':>7}", True
    for row in ROWS:
        if options.only in row.name:
            yield _row(row, options.runs)


if __name__ == "__main__":
    finish(table(options("Answers by agent calls.", runs=1000, quick=60)))
