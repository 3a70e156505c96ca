"""`replay plan`: what it promises is what comparisons of that size do."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from replaydiff.diff.compute import compute
from replaydiff.diff.plan import (
    NoiseEstimate,
    estimate_noise,
    expected_share,
    fewest_items,
    items_needed,
    smallest_change,
)
from replaydiff.replay.api.running import SURELY_ENOUGH
from replaydiff.replay.cli import main
from replaydiff.replay.errors import ReplayError
from replaydiff.replay.model import Item, Lane, Trial
from replaydiff.replay.store.connection import open_store
from tests.diff.build import item, settings, store, trial, trials
from tests.stand_ins.full import examples

SPREADS = st.floats(0, 1)


def _seen(folder: Path, items: list[Item], done: list[Trial], metric: str = "tool_calls") -> NoiseEstimate:
    with open_store(store(folder, items, done), read_only=True) as con:
        return estimate_noise(compute(con, "20261120-221305-ab12", settings(folder)), metric)


def _known(between: float, noise: float | None, design: float = 1.0, *, fixed: bool = False) -> NoiseEstimate:
    return NoiseEstimate(
        metric="m",
        items=50,
        between=between,
        noise=noise,
        design=design,
        reach=1.0,
        fixed=fixed,
        trial_usd=None,
    )


def test_the_parts_of_the_variance_are_found_again(tmp_path: Path) -> None:
    """Pass rates 0.9 in both versions but for one item in four, which fell to 0.1."""
    rng = np.random.default_rng(5)
    items, done = [], []
    for number in range(400):
        one = item(f"t{number}")
        items.append(one)
        for lane, rate in ((Lane.OLD, 0.9), (Lane.NEW, 0.1 if number % 4 == 0 else 0.9)):
            done += [trial(one, lane, k, bool(rng.random() < rate)) for k in range(3)]
    known = _seen(tmp_path, items, done)
    assert known.noise == pytest.approx(math.sqrt(0.09), abs=0.02)
    assert known.between == pytest.approx(0.8 * math.sqrt(0.25 * 0.75), abs=0.03)
    assert known.design == 1.0


def test_sessions_that_move_together_inflate_the_variance(tmp_path: Path) -> None:
    items = [item(f"t{n}", session_id=f"s{n // 4}") for n in range(80)]
    done = [
        made for n, one in enumerate(items) for made in trials(one, old="1", new="0" if n // 4 % 2 else "1")
    ]
    known = _seen(tmp_path, items, done)
    assert known.design == pytest.approx(4, abs=0.4)
    assert known.noise is None


def test_the_power_it_promises_is_the_power_there_is() -> None:
    from scipy import stats

    rng, known, wanted, power = np.random.default_rng(1), _known(0.3, 0.2), 0.1, 0.8
    needed = items_needed(known, wanted, 3, confidence=0.95, power=power)
    assert needed is not None
    rounds = 3000
    deltas = wanted + rng.normal(0, 0.3, (rounds, needed))
    for sign in (1, -1):
        deltas += sign * rng.normal(0, 0.2, (rounds, 3, needed)).mean(1)
    found = stats.ttest_1samp(deltas, 0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(power, abs=0.03)


@given(SPREADS, SPREADS, st.floats(0.01, 0.5), st.integers(1, 9), st.booleans())
def test_the_items_it_names_are_the_fewest_that_do(
    between: float, noise: float, wanted: float, trials: int, fixed: bool
) -> None:
    known = _known(between, noise, fixed=fixed)
    needed = items_needed(known, wanted, trials, confidence=0.95, power=0.8)
    assert needed is not None
    assert smallest_change(known, needed, trials, confidence=0.95) <= wanted
    assert needed == 2 or smallest_change(known, needed - 1, trials, confidence=0.95) > wanted


@given(SPREADS, SPREADS, st.integers(5, 500), st.integers(1, 9), st.booleans())
def test_more_items_and_more_trials_never_see_less(
    between: float, noise: float, items: int, trials: int, fixed: bool
) -> None:
    known = _known(between, noise, fixed=fixed)
    here = smallest_change(known, items, trials, confidence=0.95)
    assert smallest_change(known, items + 1, trials, confidence=0.95) < here
    assert smallest_change(known, items, trials + 1, confidence=0.95) <= here
    assert smallest_change(known, items, trials, confidence=0.95, power=0.9) > here


@given(SPREADS, SPREADS, st.integers(5, 500), st.integers(2, 9))
def test_fixed_items_show_no_less_than_drawn_ones(
    between: float, noise: float, items: int, trials: int
) -> None:
    drawn, fixed = (
        smallest_change(_known(between, noise, fixed=one), items, trials, confidence=0.95)
        for one in (False, True)
    )
    assert fixed <= drawn


def test_the_command_prints_the_table_and_the_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [item(f"t{n}") for n in range(20)]
    done = [
        trial(one, lane, k, not (n % 5 == 0 and lane == Lane.NEW), cost_usd=0.01)
        for n, one in enumerate(items)
        for lane in (Lane.OLD, Lane.NEW)
        for k in range(2)
    ]
    path = store(tmp_path, items, done)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert _run("--db", str(path), "plan", "--effect", "0.1", "--trials", "3", "--no-aa") == 0
    text = capsys.readouterr().out
    assert "tool_calls in run 20261120-221305-ab12, 20 items" in text
    assert "a golden set: with several trials an item, only their noise counts" in text
    assert "   50   0.06 $3.00\n" in text
    assert "to detect a change of 0.10\n  3 trials: 31 items, about $1.86" in text
    assert _run("--db", str(path), "plan", "--effect", "0.1", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["trials"] for one in document["needed"]] == [1, 3, 5]
    assert document["table"][0]["cost_usd"] == pytest.approx(20 * 1 * 3 * 0.01)
    assert _run("--db", str(path), "plan", "--effect", "0.1", "--candidates", "3", "--json") == 0
    several = json.loads(capsys.readouterr().out)
    assert several["table"][0]["cost_usd"] == pytest.approx(20 * 1 * 5 * 0.01)
    assert several["needed"][0]["items"] > document["needed"][0]["items"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--effect", "0"], "--effect must be above 0, not 0"),
        (["--metric", "tone"], "there is no metric 'tone'"),
        (["nope-run-id"], "there is no run 'nope-run-id'"),
    ],
)
def test_what_cannot_be_planned_is_said(
    args: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [item(f"t{n}") for n in range(6)]
    path = store(tmp_path, items, [made for one in items for made in trials(one, old="1", new="1")])
    assert _run("--db", str(path), "plan", *args) == 2
    assert sentence in capsys.readouterr().err


def test_too_little_to_plan_from(tmp_path: Path) -> None:
    items = [item(f"t{n}") for n in range(4)]
    done = [made for one in items for made in trials(one, old="1", new="1")]
    with pytest.raises(
        ReplayError, match="has 4 items with a tool_calls score in both lanes; a plan needs 5"
    ):
        _seen(tmp_path, items, done)


def _run(*args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(args)
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("trials", "old", "fixed", "fewest"),
    [(1, 1, False, 72), (3, 6, False, 72), (1, 1, True, 46), (3, 3, True, 23)],
)
def test_the_fewest_items_that_can_be_ship(trials: int, old: int, fixed: bool, fewest: int) -> None:
    found = fewest_items(trials, old, 0.05, fixed=fixed, confidence=0.95)
    assert found == pytest.approx(fewest, abs=0 if fewest == 72 else 2)
    assert fewest_items(trials, old, 0.1, fixed=fixed, confidence=0.95) < found


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999, 0.9999999])
@pytest.mark.parametrize("allowed", [0.2, 0.05])
def test_a_run_of_surely_enough_items_needs_no_interval(allowed: float, confidence: float) -> None:
    fewest = fewest_items(1, 2, allowed, fixed=False, confidence=confidence)
    assert fewest * allowed < SURELY_ENOUGH


@hypothesis_settings(max_examples=examples(6, 100))
@given(st.floats(0.05, 0.4), st.floats(0.05, 0.5), st.integers(60, 400))
def test_a_larger_loss_is_found_with_fewer_calls(between: float, noise: float, items: int) -> None:
    known = _known(between, noise)
    shares = [
        expected_share(known, items, 3, loss, tolerance=0.05, confidence=0.95) for loss in (0.1, 0.3, 0.9)
    ]
    assert shares == sorted(shares, reverse=True)
    assert 20 / items <= shares[-1] + 1e-9
    assert shares[0] <= 1 + 1e-9


def test_the_expected_share_is_that_of_simulated_runs() -> None:
    # 200 items of an 85 % agent at a loss of 0.1 in every item.
    known = _known(0.0, math.sqrt(0.075))
    assert expected_share(known, 200, 3, 0.1, tolerance=0.05, confidence=0.95) == pytest.approx(
        0.25, abs=0.12
    )
