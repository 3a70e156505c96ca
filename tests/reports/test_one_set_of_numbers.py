"""Every figure of a run is the same in every format, and figures of one line are over the same items."""

from __future__ import annotations

import functools
import html
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.truth.agents import Truth
from benchmarks.truth.runs import computed, diffed, items_of, looked_at, run_of, simulate, trials_of
from benchmarks.truth.worlds import mixed
from replaydiff.diff.result import DiffResult
from replaydiff.replay.model import Lane, Status
from replaydiff.replay.settings import GateSection, Settings
from replaydiff.reports import format as fmt
from replaydiff.reports import registry

N = 60
SETTINGS = Settings(root=Path("/nonexistent"))


def _truth(seed: int, loss: float = 0.0, **fields: Any) -> tuple[np.random.Generator, Truth]:
    rng = np.random.default_rng(seed)
    old = mixed(rng, N, 0.85)
    return rng, Truth(old=old, new=np.clip(old - loss, 0, 1), **fields)


def _run(
    loss: float = 0.0,
    *,
    again: bool = True,
    lost: float = 0.0,
    errors: bool = False,
    scale: bool = False,
    shift: float = 0.0,
    gate: Mapping[str, Any] | None = None,
    plans: bool = False,
    **fields: Any,
) -> DiffResult:
    """A run of sixty items with three trials, with what is awkward about it."""
    rng, truth = _truth(3, loss, **fields)
    scores = simulate(rng, replace(truth, old=np.clip(truth.old, 0, 1)), 3, again=again)
    if shift:
        scores[Lane.OLD2]["passed"][:] = np.clip(
            scores[Lane.OLD2]["passed"] - (rng.random((N, 3)) < shift), 0, 1
        )  # type: ignore[index]
    if scale:
        scores = {lane: {"passed": 1 + 4 * by["passed"]} for lane, by in scores.items()}
    items = items_of(truth)
    if plans:
        items = [replace(item, metadata={"plan": "ab"[n % 2]}) for n, item in enumerate(items)]
    status = Status.AGENT_ERROR if errors else Status.DIVERGED
    trials = [
        [
            replace(trial, status=status, scores={}) if trial.lane.is_new and rng.random() < lost else trial
            for trial in of_item
        ]
        for of_item in trials_of(items, scores)
    ]
    settings = replace(SETTINGS, gate=GateSection(**(gate or {})))
    return computed(items, trials, run_of(truth, scores, 7), settings)


def _looked() -> DiffResult:
    rng, truth = _truth(4, 0.3)
    return looked_at(truth, simulate(rng, truth, 3), seed=1)[0]


def _one_lane() -> DiffResult:
    rng, truth = _truth(5)
    scores = {Lane.NEW: simulate(rng, truth, 3)[Lane.NEW]}
    return diffed(truth, scores)


AWKWARD: dict[str, Callable[[], DiffResult]] = {
    "equal": _run,
    "worse": lambda: _run(0.2),
    "single trials of a weighted sample": lambda: _run(
        0.1, again=False, weight=np.geomspace(1, 20, N), session=np.arange(N) // 4
    ),
    "most new trials diverged": lambda: _run(0.05, lost=0.6),
    "new trials crashed": lambda: _run(0.1, lost=0.3, errors=True),
    "the old version differs from itself": lambda: _run(shift=0.4),
    "scores from 1 to 5": lambda: _run(0.1, scale=True),
    "items decide": lambda: _run(0.3, gate={"max_regressed": "100%", "tolerance": 0.5}),
    "a repeated part": lambda: _run(0.1, repeated=np.arange(N) < 20, plans=True),
    "stopped at a look": _looked,
    "one lane": _one_lane,
}
FORMATS = ("terminal", "markdown", "html")


@functools.cache
def run(name: str) -> DiffResult:
    return AWKWARD[name]()


def table(text: str, format_: str, metric: str) -> list[str]:
    """The cells of a metric's row: old → new, delta, interval, p, improved, regressed."""
    if format_ == "terminal":
        lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
        return next(cells[1:] for cells in lines if cells[0] == metric and len(cells) > 4)
    if format_ == "markdown":
        lines = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in text.splitlines()]
        return next(cells[1:] for cells in lines if cells[0] == metric and len(cells) > 4)
    row = re.search(rf'<th scope="row">{re.escape(metric)}</th>(.*?)</tr>', text, re.S)
    assert row is not None
    cells = re.findall(r'<td class="n[^"]*">(.*?)</td>', row[1], re.S)
    return [html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in cells]


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(text).replace("\\", "").replace("\u00a0", " "))


@pytest.mark.parametrize("name", AWKWARD)
def test_every_figure_of_every_format_is_that_of_the_document(name: str) -> None:
    result = run(name)
    document = json.loads(registry.render(result, "json"))
    for format_ in FORMATS:
        text = registry.render(result, format_, width=200)
        assert plain(document["reason"]) in plain(re.sub(r"<[^>]+>", "", text)), format_
        for metric, figures in document["metrics"].items():
            if figures["delta"] is None:
                continue
            expected = [
                f"{fmt.score(figures['old'])} → {fmt.score(figures['new'])}",
                fmt.change(figures["delta"]),
                fmt.interval(tuple(figures["ci"]) if figures["ci"] else None),
                fmt.p_value(figures["p"]),
                str(figures["improved"]),
                str(figures["regressed"]),
            ]
            cells = [plain(cell) for cell in table(text, format_, metric)]
            assert cells == [plain(cell) for cell in expected], format_
        for verdict, count in document["items"].items() if len(document["lanes"]) > 1 else ():
            if verdict in ("regressed", "improved", "mixed", "inconclusive") and format_ != "html" and count:
                assert f"{count} {verdict}" in plain(text), format_


@pytest.mark.parametrize("name", AWKWARD)
def test_figures_of_one_line_are_over_the_same_items(name: str) -> None:
    result = run(name)
    document = json.loads(registry.render(result, "json"))
    verdicts = Counter(case["verdict"] for case in document["cases"])
    counts = document["items"]
    assert len(document["cases"]) == counts["compared"]
    assert {verdict: counts[verdict] for verdict in verdicts} == verdicts
    for metric, figures in document["metrics"].items():
        of_metric = Counter(
            case["metrics"][metric]["verdict"] for case in document["cases"] if metric in case["metrics"]
        )
        assert all(figures[verdict] == count for verdict, count in of_metric.items() if verdict in figures)
        assert figures["n"] <= figures["covered"] <= counts["compared"]
        by_k = figures["pass_items"]
        if {"old", "new"} <= by_k.keys():
            assert by_k["old"] == by_k["new"]
        scored = [
            case["metrics"][metric]["delta"]
            for case in document["cases"]
            if metric in case["metrics"] and case["metrics"][metric]["delta"] is not None
        ]
        if figures["sample_delta"] is not None:
            assert len(scored) == figures["n"]
            assert sum(scored) / len(scored) == pytest.approx(figures["sample_delta"])
        for low, high in (figures["ci"], figures["bounds"]) if figures["ci"] and figures["bounds"] else ():
            assert low - 1e-9 <= figures["delta"] <= high + 1e-9
        shown = re.search(
            rf"{re.escape(metric)} (\S+) → (\S+) on (\d+)(?: of (\d+))? items?", document["reason"]
        )
        if shown is not None:
            assert shown.groups()[:3] == (f"{figures['old']:.2f}", f"{figures['new']:.2f}", str(figures["n"]))
            assert shown[4] in (None, str(figures["covered"]))
        ends = re.search(
            rf"{re.escape(metric)} [^;]*?interval[^;]*? ([-+]\S+) to ([-+][\d.]+)", document["reason"]
        )
        if ends is not None:
            assert ends.groups() == tuple(f"{end:+.2f}" for end in figures["ci"])
    lanes = document["lanes"]
    for cause in document["causes"]:
        for lane, (times, of) in cause["trials"].items():
            assert times <= of <= lanes[lane]["trials"]
        assert cause["items"] <= counts["compared"]
