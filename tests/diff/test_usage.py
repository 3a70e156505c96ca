"""Cost, latency and tokens as paired changes; what was never recorded; what stands for the month; slices."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replaydiff.diff.compute import compute
from replaydiff.diff.result import DiffResult, MissKind
from replaydiff.diff.statistics import paired
from replaydiff.diff.statistics.quantiles import quantile_changes
from replaydiff.replay.model import Item, Lane, Rule, SampleRecord, Status, ToolCall, Trial, Usage
from replaydiff.replay.settings import DiffSection
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.samples import write_sample
from replaydiff.reports import phrases
from tests.diff.build import CALLS, RUN_ID, WHEN, filled, item, settings, store, trial


def diffed(folder: Path, items: list[Item], done: list[Trial], **sections: Any) -> DiffResult:
    with filled(folder, items, done) as con:
        return compute(con, RUN_ID, settings(folder, **sections))


def test_what_a_trial_takes_is_averaged_within_items_and_paired(tmp_path: Path) -> None:
    items = [item("a"), item("b"), item("c")]
    done = []
    for number, of in enumerate(items):
        for index in range(2):
            old, new = 100.0 * (number + 1) + 10 * index, 50.0 * (number + 1) + 10 * index
            used = Usage(input_tokens=100, output_tokens=10)
            done.append(trial(of, "old", index, latency_ms=old, cost_usd=0.02, usage=used))
            done.append(trial(of, "new", index, latency_ms=new, cost_usd=0.01 if number else None))
    usage = diffed(tmp_path, items, done).usage
    assert set(usage) == {
        "cost_usd", "latency_ms", "latency_p50_ms", "latency_p95_ms", "calls", "answer_chars", "refusals",
    }  # fmt: skip
    cost, latency = usage["cost_usd"], usage["latency_ms"]
    assert (cost.old, cost.new, cost.items) == (0.02, 0.01, 2)
    assert cost.delta == pytest.approx(-0.01)
    assert (latency.old, latency.new, latency.delta) == (205.0, 105.0, -100.0)
    assert latency.ci is not None
    assert latency.ci[0] < -100 < latency.ci[1]
    assert usage["latency_p50_ms"].old == 205.0
    assert usage["latency_p95_ms"].new == pytest.approx(np.quantile([50, 60, 100, 110, 150, 160], 0.95))


def test_a_trial_that_did_not_end_well_has_no_latency_to_compare(tmp_path: Path) -> None:
    done = [
        trial("a", "old", latency_ms=100.0),
        trial("a", "new", latency_ms=1.0, status=Status.TIMEOUT),
        trial("b", "old", latency_ms=100.0),
        trial("b", "new", latency_ms=90.0),
    ]
    usage = diffed(tmp_path, [item("a"), item("b")], done).usage
    assert (usage["latency_ms"].items, usage["latency_ms"].delta) == (1, -10.0)
    assert usage["latency_ms"].ci is None


def test_a_percentile_that_did_not_change_has_an_interval_around_0_and_one_that_did_has_none() -> None:
    rng = np.random.default_rng(1)
    old = [list(rng.gamma(2, 100, 3)) for _ in range(60)]
    same = [list(rng.gamma(2, 100, 3)) for _ in range(60)]
    keys = list(range(60))
    quiet = quantile_changes(old, same, keys, [0.5])[0]
    assert quiet.ci is not None
    assert quiet.ci[0] < 0 < quiet.ci[1]
    slower = quantile_changes(old, [[2 * value for value in values] for values in old], keys, [0.5])[0]
    assert slower.ci is not None
    assert slower.ci[0] > 0
    assert slower.new == pytest.approx(2 * slower.old)
    assert quantile_changes(old[:1], same[:1], [0], [0.5])[0].ci is None


def test_calls_that_were_never_recorded_are_counted_by_tool_and_kind(tmp_path: Path) -> None:
    again = (*CALLS, CALLS[0])
    other = (ToolCall(name="get_order_status", args={"order_id": "2"}),)
    strange = (ToolCall(name="refund", args={}),)
    done = [
        trial("a", "old"),
        trial("a", "new", calls=again, rules=[Rule.TAPE, Rule.TAPE, Rule.MISS], status=Status.DIVERGED),
        trial("b", "old"),
        trial("b", "new", calls=other, rules=[Rule.MISS], status=Status.DIVERGED),
        trial("c", "old"),
        trial("c", "new", calls=strange, rules=[Rule.MISS], status=Status.DIVERGED),
        trial("d", "old"),
        trial("d", "new", calls=strange, rules=[Rule.MISS], status=Status.DIVERGED),
    ]
    result = diffed(tmp_path, [item(name) for name in "abcd"], done)
    lane = result.lanes[Lane.NEW]
    assert [(miss.tool, miss.kind, miss.calls) for miss in lane.misses] == [
        ("refund", MissKind.TOOL, 2),
        ("get_order_status", MissKind.AGAIN, 1),
        ("get_order_status", MissKind.ARGS, 1),
    ]
    assert (lane.diverged, lane.agreement) == (1.0, 0.0)
    assert (result.lanes[Lane.OLD].diverged, result.lanes[Lane.OLD].agreement) == (0.0, 1.0)
    assert any(
        "no recording answers, most often refund (the recording has no call of this tool)" in said
        for said in result.warnings
    )


def test_items_are_cut_by_what_production_said_of_them_and_by_fields_of_the_user(tmp_path: Path) -> None:
    items, done = [], []
    for number in range(24):
        free = number % 2 == 0
        of = item(
            f"i{number:02}",
            environment="prod" if number < 12 else "staging",
            release="2.1" if number < 3 else "2.0",
            started_at=datetime(2026, 9 + number // 12, 3),
            metadata={"user": {"plan": "free" if free else "gold"}, "deep": [1]},
        )
        items.append(of)
        done += [trial(of, "old"), trial(of, "new", passed=not free)]
    fields = DiffSection(slice_by=("metadata.user.plan", "metadata.deep", "metadata.nothing"))
    parts = diffed(tmp_path, items, done, diff=fields).slices
    assert parts[0].by == "metadata.user.plan"
    assert (parts[0].value, parts[0].items, parts[0].regressed) == ("free", 12, 12)
    # Twelve of twelve fell; the p-value counts all slices tested: those in which enough items changed.
    assert parts[0].p == pytest.approx(2 / 2**12 * sum(part.p is not None for part in parts))
    # The two months are the same items as the two environments.
    assert {(part.by, part.value) for part in parts} == {
        ("metadata.user.plan", "free"),
        ("metadata.user.plan", "gold"),
        ("environment", "prod"),
        ("environment", "staging"),
        ("release", "2.0"),  # the three of 2.1 are no slice
    }


def test_the_population_decides_and_tells_what_its_weights_cost(tmp_path: Path) -> None:
    items = [item(f"i{number}", weight=9.0 if number < 10 else 1.0) for number in range(40)]
    done = [one for n, of in enumerate(items) for one in (trial(of, "old"), trial(of, "new", passed=n >= 10))]
    drawn = SampleRecord(
        name="oct", created_at=WHEN, month="2026-10", where=None, by=(), size=40, seed=7, population=12_000
    )
    path = store(tmp_path, items, done, sample="oct", golden_path=None)
    with open_store(path) as con:
        write_sample(con, drawn, [])
        metric = compute(con, RUN_ID, settings(tmp_path)).metrics["tool_calls"]
    assert metric.sample_delta == -0.25
    assert metric.delta == pytest.approx(-0.75)
    assert (metric.old, metric.new) == (1.0, pytest.approx(0.25))
    assert metric.ci is not None
    assert metric.ci[0] < -0.75 < metric.ci[1] < -0.25
    assert metric.design_effect == pytest.approx(40 * (10 * 81 + 30) / 120**2)


def test_an_interval_over_very_many_clusters_is_that_of_the_normal_distribution() -> None:
    rng = np.random.default_rng(2)
    values = rng.lognormal(0, 1, 3000)
    grouped = paired.clusters(list(values), list(range(3000)))
    ci, se = paired.interval(grouped, reach=1.0), paired.standard_error(grouped)
    assert ci is not None
    assert se is not None
    assert (ci[0] + ci[1]) / 2 == pytest.approx(values.mean(), abs=0.3 * se)
    assert (ci[1] - ci[0]) / 2 == pytest.approx(1.96 * se, rel=0.06)


@pytest.mark.parametrize(
    ("outcomes", "at"),
    [
        ([[True, False, False]], {1: 1 / 3, 2: 2 / 3, 3: 1.0}),
        ([[False] * 3, [True] * 3], {1: 0.5, 2: 0.5, 3: 0.5}),
        ([[True, False], [False]], {1: 0.25, 2: 1.0}),
        ([], {}),
    ],
)
def test_pass_at_k_is_the_chance_of_one_pass_among_k(
    outcomes: list[list[bool]], at: dict[int, float]
) -> None:
    assert paired.pass_at_k(outcomes) == pytest.approx(at)


def test_shorter_answers_and_refusals_are_described(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(5)]
    done = [trial(one, "old", final_response="x" * 100) for one in items]
    done += [
        trial(one, "new", calls=CALLS[1:], final_response="I can't help with that." + "x" * 37)
        for one in items
    ]
    result = diffed(tmp_path, items, done)
    found = {name: (change.old, change.new) for name, change in result.usage.items()}
    assert found["answer_chars"] == (100, 60)
    assert found["calls"] == (2, 1)
    assert found["refusals"] == (0, 1)
    rows = {row.label: row.change for row in phrases.usage_rows(result)}
    assert rows["characters of the answer"].endswith("(−40\u00a0%)")
