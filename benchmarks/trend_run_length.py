"""How many runs `replay trend` follows before a false drift, and how soon it finds a real one.

    python benchmarks/trend_run_length.py [--quick] [--runs N]

Levels of one version's runs vary by their trials (sd 0.03, 50 cases three times with a few coins among them)
and by a day effect that moves all cases of a run together. In control: the mean number of runs until the first
false drift, and how many series of twelve runs have one. Then a loss that begins after 8 runs, at once or a
little every run: after how many runs it is found, median and nine in ten. `!`: a run length below 100, or
drift in more than 5 % of series of twelve runs, with a day effect of up to 0.06, by more than two standard errors
of the simulation; the command then ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.table import Options, finish, options
from replaydiff.diff.trend import ControlChart

TRIALS_SD = 0.03
DAYS = (0.0, 0.02, 0.04, 0.06)
LEAST = 100
YEAR, FALSE = 12, 0.05
_LONGEST = 1000
_BEFORE = 8


def first_drift(levels: np.ndarray) -> int:
    """Return how many runs were followed up to the first drift, all of them where there is none."""
    chart = ControlChart(float(levels[0]))
    for number, level in enumerate(levels[1:], start=2):
        drift, _ = chart.add(float(level), TRIALS_SD**2)
        if drift is not None:
            return number
    return len(levels) + 1


def _levels(rng: np.random.Generator, runs: int, day: float) -> np.ndarray:
    return 0.8 + rng.standard_normal(runs) * np.hypot(TRIALS_SD, day)


def _in_control(day: float, series: int) -> tuple[str, bool]:
    rng = np.random.default_rng([1, int(100 * day)])
    lengths = np.array([first_drift(_levels(rng, _LONGEST, day)) for _ in range(series)])
    mean, error = float(lengths.mean()), float(lengths.std() / series**0.5)
    early = float(np.mean(lengths <= YEAR))
    held = mean > LEAST - 2 * error and early <= FALSE + 2 * (FALSE * (1 - FALSE) / series) ** 0.5
    return f"{day:10.2f}{mean:12.0f} ±{error:3.0f}{early:14.1%}{'' if held else ' !'}", held


def _found(day: float, loss: float, gradual: bool, series: int) -> str:
    rng = np.random.default_rng([2, int(100 * day), int(1000 * loss)])
    delays = []
    for _ in range(series):
        levels = _levels(rng, _BEFORE + 60, day)
        levels[_BEFORE:] -= loss * np.arange(1, 61) if gradual else loss
        found = first_drift(levels)
        if found > _BEFORE:
            delays.append(found - _BEFORE)
    return f"{np.median(delays):8.0f} ({np.quantile(delays, 0.9):.0f})"


def table(options: Options) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    yield f"{options.runs} series a row", True
    yield f"{'day effect':>10}{'run length':>17}{'drift in 12':>14}", True
    for day in DAYS:
        yield _in_control(day, options.runs)
    yield "", True
    yield f"{'loss after 8 runs':24}{'day 0.00':>13}{'day 0.04':>13}", True
    for loss, gradual in ((0.1, False), (0.2, False), (0.01, True), (0.02, True)):
        cells = "".join(f"{_found(day, loss, gradual, options.runs):>13}" for day in (0.0, 0.04))
        yield f"{loss:g} {'a run' if gradual else 'at once':19}{cells}", True


if __name__ == "__main__":
    finish(table(options("Run lengths of the control chart.", runs=400, quick=60)))
