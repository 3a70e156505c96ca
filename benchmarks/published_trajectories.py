"""Published runs of real agents: one model's trials against each other, and models against models.

    python benchmarks/published_trajectories.py FOLDER [--quick] [--runs N]

Takes every file of the folder that holds runs of tasks with a reward:

    *.jsonl   a run a line: `model`, `metadata.task_id`, `scores.reward` (the trace format of this project)
    *.json    results of tau2-bench (`simulations` with `task_id` and `reward_info.reward`; the model is
              `info.agent_info.llm`), or historical trajectories of tau-bench (a list with `task_id` and
              `reward`; the model is the file's name); both are published on GitHub by Sierra Research

First table: the trials of each task by one model are dealt at random, again and again, to a version `old` and
a version `new`, which are so one and the same. `k` trials a lane, with the A/A lane or not. Shares of
deals: the answer is HOLD; p is at most 0.05; any item is called regressed or improved, the noise being known;
the interval holds 0. Shares of items: called so by the verdicts, and by comparing one run with one run. `!`:
beyond 5 % (the interval: below 93 %) by two standard errors; the command then ends with 1. Deals of one file
are no independent data: what holds in them holds of these runs.

Second table: two models of one file with the same tasks, the better one as `new`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.truth.agents import Truth
from benchmarks.truth.runs import METRIC, Scores, diffed
from benchmarks.truth.table import error, finish
from replaydiff.diff.result import DiffResult, Noise, Verdict
from replaydiff.replay.model import Lane

LEVEL, COVERAGE = 0.05, 0.93
Rewards = Mapping[str, list[float]]
"""Task → the rewards of its trials."""


def read(folder: Path) -> dict[tuple[str, str], Rewards]:
    """Rewards by file and model."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.json")]):
        text = path.read_text(encoding="utf-8")
        document = (
            [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
        )
        for model, task, reward in _runs(document, path.stem):
            found.setdefault((path.stem, model), {}).setdefault(task, []).append(reward)
    return dict(found)


def _runs(document: Any, name: str) -> Iterator[tuple[str, str, float]]:
    if isinstance(document, dict):
        model = str(document.get("info", {}).get("agent_info", {}).get("llm", name))
        for run in document.get("simulations", ()):
            yield model, str(run["task_id"]), float((run.get("reward_info") or {}).get("reward") or 0.0)
        return
    for run in document:
        if "reward" in run:
            yield name, str(run["task_id"]), float(run["reward"])
        elif "reward" in run.get("scores", {}) and "task_id" in run.get("metadata", {}):
            yield str(run["model"]), str(run["metadata"]["task_id"]), float(run["scores"]["reward"])


def _diff(lanes: Mapping[Lane, np.ndarray], seed: int) -> DiffResult:
    scores: Scores = {lane: {"passed": values} for lane, values in lanes.items()}
    unknown = np.zeros(len(lanes[Lane.OLD]))
    return diffed(Truth(old=unknown, new=unknown), scores, seed=seed)


def _dealt(rng: np.random.Generator, rewards: np.ndarray, k: int, again: bool) -> list[float]:
    dealt = rng.permuted(rewards, axis=1)
    lanes = {Lane.OLD: dealt[:, :k], Lane.NEW: dealt[:, k : 2 * k]}
    if again:
        lanes[Lane.OLD2] = dealt[:, 2 * k : 3 * k]
    result = _diff(lanes, int(rng.integers(2**31)))
    metric = result.metrics[METRIC]
    called = [item.verdict in (Verdict.REGRESSED, Verdict.IMPROVED) for item in result.items]
    known = result.noise is not Noise.UNKNOWN
    assert metric.p is not None
    assert metric.ci is not None
    return [
        result.answer.value == "HOLD",
        metric.p <= LEVEL,
        known and any(called),
        metric.ci[0] <= 0 <= metric.ci[1],
        known * float(np.mean(called)),
        float(np.mean(dealt[:, 0] != dealt[:, k])),
    ]


def _same(name: str, rewards: np.ndarray, runs: int) -> Iterator[tuple[str, bool]]:
    trials = rewards.shape[1]
    for k, again in ((1, False), (1, True), (2, False)):
        if k * (3 if again else 2) > trials:
            continue
        rng = np.random.default_rng([k, again])
        found = np.mean([_dealt(rng, rewards, k, again) for _ in range(runs)], axis=0)
        bad = [share > LEVEL + 2 * error(LEVEL, runs) for share in found[:3]]
        bad.append(found[3] < COVERAGE - 2 * error(COVERAGE, runs))
        cells = "".join(
            f"{share:7.1%}{'!' if off else ' '}" for share, off in zip(found[:4], bad, strict=True)
        )
        yield (
            f"{name:44.44}{len(rewards):6}{k:3}{'yes' if again else 'no':>5}{cells}{found[4]:8.2%}{found[5]:7.0%}",
            not any(bad),
        )


def _apart(name: str, one: Rewards, other: Rewards) -> str:
    tasks = sorted(one.keys() & other.keys())
    sides = [
        np.array([rewards[task][: min(len(rewards[each]) for each in tasks)] for task in tasks])
        for rewards in (one, other)
    ]
    sides.sort(key=lambda values: float(values.mean()))
    result = _diff({Lane.OLD: sides[0], Lane.NEW: sides[1]}, 0)
    metric = result.metrics[METRIC]
    assert metric.ci is not None
    return (
        f"{name:44.44}{len(tasks):6}{sides[0].shape[1]:3}  {metric.old:.2f} → {metric.new:.2f}"
        f"  [{metric.ci[0]:+.2f}, {metric.ci[1]:+.2f}]{metric.p:7.2f}{metric.mde:6.2f}  {result.answer.value}"
    )


def table(folder: Path, runs: int) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it held."""
    found = read(folder)
    yield f"{runs} deals a row; standard error of a share of 5 %: {error(LEVEL, runs):.1%}", True
    yield (
        (
            f"{'one model against itself':44}{'tasks':>6}{'k':>3}{'A/A':>5}{'HOLD':>7} {'p':>7} {'item':>7} "
            f"{'covers':>7} {'wrong':>8}{'naive':>7}"
        ),
        True,
    )
    for (file, model), rewards in found.items():
        fewest = min(len(trials) for trials in rewards.values())
        yield from _same(f"{file} {model}", np.array([trials[:fewest] for trials in rewards.values()]), runs)
    yield "", True
    yield (
        f"{'two models':44}{'tasks':>6}{'k':>3}  {'old → new':11}  {'interval':14}{'p':>7}{'mde':>6}  answer",
        True,
    )
    for (file, model), (other_file, other) in combinations(found, 2):
        if file == other_file:
            yield _apart(f"{file}", found[file, model], found[file, other]), True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Published runs of real agents.")
    parser.add_argument(
        "folder", type=Path, nargs="?", help="where the files are; without it nothing is done"
    )
    parser.add_argument("--quick", action="store_true", help="100 deals a row")
    parser.add_argument("--runs", type=int, help="deals a row (default 1000)")
    options = parser.parse_args()
    if options.folder is None:
        print("name a folder of published runs; without one there is nothing to measure")
    else:
        finish(table(options.folder, options.runs or (100 if options.quick else 1000)))
