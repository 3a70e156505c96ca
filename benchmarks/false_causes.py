"""How often a version compared with itself shows a cause, and what finding causes takes.

    python benchmarks/false_causes.py [--runs N] [--items N] [--large N]

A noisy agent, the same for old, old2 and new, goes through `diff.compute`: on each item it skips the look-up,
renames an argument, calls one more tool, repeats a call, declines, or answers at another length, each with a
chance of its own that varies from item to item. Its trials have a score, by chance; in some rows a share of the new
lane's trials ends without one. `any cause` is the share of runs with any cause; it may be 5 %, and the command ends
with 1 if it is more by over two standard errors. Then `find_causes` alone is timed on `--large`
items and on a quarter of them: four times the items must take about four times as long.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.table import finish
from replaydiff.diff.causes import find_causes
from replaydiff.diff.comparison import Comparison
from replaydiff.diff.compute import compute
from replaydiff.diff.reading import StoredGrades, read_blocks
from replaydiff.diff.result import Answer
from replaydiff.replay.model import Item, Status, ToolCall, Trial
from replaydiff.replay.settings import MatchSection
from replaydiff.replay.store.runs import get_run
from tests.diff.build import CALLS, RUN_ID, filled, item, settings, trial

LEVEL = 0.05
UNGRADED = {"all graded": 0.0, "30 % diverge": 0.3, "60 % diverge": 0.6}
"""Rows, and the share of the new lane's trials without a score."""
LOOK, CANCEL = CALLS


def act(rng: np.random.Generator, one: Item, lane: str, index: int, rates: np.ndarray) -> Trial:
    """One trial: each habit of the agent shows with its chance on this item."""
    skips, renames, extra, repeats, declines, short = rng.random(6) < rates
    look = replace(LOOK, args={"id": "1"}) if renames else LOOK
    calls = [] if skips else [look]
    calls += [CANCEL, *([CANCEL] * bool(repeats))]
    calls += [ToolCall(name=f"tool_{rng.integers(4)}", args={"to": "x"})] * bool(extra)
    answer = "I'm sorry, I can't help with that." if declines else "Your order was cancelled today. " * 4
    return trial(one, lane, index, calls=calls, final_response=answer[: 60 if short else None])


def drawn(rng: np.random.Generator, count: int, ungraded: float = 0.0) -> tuple[list[Item], list[Trial]]:
    """Items with all their trials: three in each lane; a share of the new one's diverges."""
    items = [
        item(f"t{place:05}", metadata={"plan": f"p{place % 3}", "country": f"c{place % 20}"})
        for place in range(count)
    ]
    rates, passes = rng.beta(0.4, 1.6, (count, 6)), rng.beta(2, 1, count)
    done = []
    for place, one in enumerate(items):
        for lane in ("old", "old2", "new"):
            for index in range(3):
                acted = act(rng, one, lane, index, rates[place])
                passed = float(rng.random() < passes[place])
                diverges = lane == "new" and rng.random() < ungraded
                status, scores = (Status.DIVERGED, {}) if diverges else (Status.OK, {"passed": passed})
                done.append(replace(acted, status=status, scores=scores))
    return items, done


def timed(rng: np.random.Generator, count: int) -> float:
    """Seconds of CPU that finding the causes of so many items takes."""
    with tempfile.TemporaryDirectory() as folder:
        given = settings(Path(folder), match=MatchSection())
        with filled(Path(folder), *drawn(rng, count)) as con:
            run = get_run(con, RUN_ID)
            read = read_blocks(con, run, given, StoredGrades.read(con, run))
            comparison = Comparison.of(run, None, read, confidence=0.95)
            begun = time.process_time()
            find_causes(comparison, given, {})
            return time.process_time() - begun


def table(runs: int, count: int) -> Iterator[tuple[str, bool]]:
    """Yield every line, and whether it is within its limit."""
    error = math.sqrt(LEVEL * (1 - LEVEL) / runs)
    yield f"{runs} runs a row of {count} items; standard error of a share of {LEVEL:.0%}: {error:.1%}", True
    yield f"{'trials of new':20}{'any cause':>10}{'HOLD':>8}", True
    for ends, share in UNGRADED.items():
        rng = np.random.default_rng(17)
        false = held = 0
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                given = settings(folder, match=MatchSection())
                with filled(folder, *drawn(rng, count, share)) as con:
                    result = compute(con, RUN_ID, given)
            false += bool(result.causes)
            held += result.answer is Answer.HOLD
        is_within = false / runs <= LEVEL + 2 * error
        yield f"{ends:20}{false / runs:>10.1%}{held / runs:>8.1%}{'' if is_within else '!'}", is_within


def timing(large: int) -> Iterator[tuple[str, bool]]:
    """Yield the line of what finding causes takes."""
    rng = np.random.default_rng(17)
    quarter, whole = timed(rng, large // 4), timed(rng, large)
    yield f"find_causes: {large // 4} items {quarter:.2f} s, {large} items {whole:.2f} s", True


def main() -> None:
    """Simulate, print, and exit with 1 where causes are found too often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--large", type=int, default=10_000)
    options = parser.parse_args()
    finish(chain(table(options.runs, options.items), timing(options.large)))


if __name__ == "__main__":
    main()
