"""`replay trend`: a change beyond the noise is named, one within it is not."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from replaydiff.diff.trend import ControlChart
from replaydiff.replay.cli import main
from replaydiff.replay.model import Lane, RunRecord, SampleRecord, Trial
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.samples import write_sample
from replaydiff.replay.store.trials import write_trials
from tests.diff.build import CALLS, WHEN, item, trial, version


def _runs(folder: Path, rates: list[list[float]], trials: int = 3, *, samples: bool = False) -> Path:
    """A store with one run for each list of pass rates, an item each, an hour apart."""
    path, rng = folder / "s.duckdb", np.random.default_rng(3)
    with open_store(path) as con:
        for number, row in enumerate(rates):
            items = [item(f"{number if samples else 0}-{n}") for n in range(len(row))]
            at = WHEN + timedelta(hours=number)
            run = RunRecord(
                id=f"2026112{number}-000000-aaa{number}", created_at=at, finished_at=at, trials=trials, seed=1,
                lanes={Lane.NEW: version()}, sample=f"month-{number}" if samples else None,
                golden_path=None if samples else "cases/golden.jsonl",
            )  # fmt: skip
            if samples:
                write_sample(
                    con,
                    SampleRecord(
                        name=f"month-{number}", created_at=at, month=None, where=None, by=(),
                        size=len(row), seed=1, population=len(row),
                    ),
                    [],
                )  # fmt: skip
            create_run(con, run, items)
            done = [
                trial(one, Lane.NEW, k, calls=CALLS if rng.random() < rate else CALLS[:1])
                for one, rate in zip(items, row, strict=True)
                for k in range(trials)
            ]
            write_trials(con, [_of(run.id, made) for made in done])
    return path


def _of(run_id: str, made: Trial) -> Trial:
    from dataclasses import replace

    return replace(made, run_id=run_id)


def _trend(path: Path, *args: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["--db", str(path), "trend", *args])
    return int(ended.value.code or 0)


def _points(path: Path, capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, object]]:
    assert _trend(path, "--json", *args) == 0
    points: list[dict[str, object]] = json.loads(capsys.readouterr().out)["runs"]
    return points


def test_a_fall_is_named_and_noise_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steady, fallen = [0.8] * 40, [0.8] * 20 + [0.0] * 20
    path = _runs(tmp_path, [*[steady] * 5, *[fallen] * 4])
    points = _points(path, capsys)
    drifts = [point["drift"] for point in points]
    assert drifts[:5] == [None] * 5
    assert "down" in drifts[5:7]
    assert drifts.count(None) == 8, "the level it fell to is the new reference"
    assert points[5]["beyond_trials"]
    assert _trend(path) == 0
    text = capsys.readouterr().out
    assert text.startswith("tool_calls of lane new, cases/golden.jsonl\n")
    assert f"against the runs since {points[0]['run']}; " in text
    assert text.count("◀") == 1
    assert "run-to-run noise, trials and days together: 0.0" in text


def test_a_bad_day_is_no_drift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All cases of one run are worse: more than trials make, and less than days may."""
    steady, bad = [0.8] * 60, [0.68] * 60
    path = _runs(tmp_path, [steady, steady, bad, steady, steady], trials=5)
    points = _points(path, capsys)
    assert [point["drift"] for point in points] == [None] * 5
    assert any(point["beyond_trials"] for point in points[2:4])
    assert _trend(path) == 0
    text = capsys.readouterr().out
    assert "◁" in text
    assert "no run drifted" in text


@pytest.mark.parametrize("day", [0.0, 0.04])
def test_false_drift_is_as_rare_as_stated_whatever_the_days_do(day: float) -> None:
    """At 95 % of one run against another, a day effect of 0.04 made a fifth of all runs drift."""
    rng = np.random.default_rng(4)
    followed = false = 0
    for _ in range(60):
        chart = ControlChart(0.8)
        for level in 0.8 + np.hypot(0.03, day) * rng.standard_normal(60):
            followed += 1
            false += chart.add(float(level), 0.03**2)[0] is not None
    assert false / followed < 1 / 100


def test_a_step_is_found_within_a_few_runs_and_the_chart_starts_anew() -> None:
    rng = np.random.default_rng(5)
    delays, means = [], []
    for _ in range(40):
        chart = ControlChart(0.8)
        levels = 0.8 + 0.03 * rng.standard_normal(40)
        levels[8:] -= 0.2
        found = [
            number for number, level in enumerate(levels) if chart.add(float(level), 0.03**2)[0] == "down"
        ]
        delays.append(found[0] - 7)
        means.append(chart.mean)
    assert min(delays) >= 1
    assert np.median(delays) <= 3
    assert np.median(means) == pytest.approx(0.6, abs=0.02)


def test_levels_that_never_vary_still_have_the_noise_of_trials() -> None:
    chart = ControlChart(1.0)
    for _ in range(50):
        assert chart.add(1.0, 0.02**2) == (None, False)
    assert chart.noise(0.02**2) >= 0.02
    assert chart.limit(0.02**2) > 3 * 0.02


def test_one_version_that_never_changes_drifts_about_as_often_as_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = list(np.random.default_rng(11).beta(4, 1, 30))
    path = _runs(tmp_path, [rates] * 10)
    points = _points(path, capsys)
    assert sum(point["drift"] is not None for point in points) <= 2


def test_runs_that_never_flipped_are_no_proof_of_no_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = _points(_runs(tmp_path, [[1.0] * 8, [1.0] * 8]), capsys)
    assert points[1]["limit"] > 0  # type: ignore[operator]


def test_monthly_samples_hold_other_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _runs(tmp_path, [*[[0.9] * 50] * 3, [0.2] * 50, [0.2] * 50], samples=True)
    points = _points(path, capsys)
    assert [point["of"] for point in points] == [f"month-{number}" for number in range(5)]
    drifts = [point["drift"] for point in points]
    assert (drifts[:3], drifts.count("down")) == ([None] * 3, 1)


def test_single_trials_say_that_their_noise_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _runs(tmp_path, [[1.0] * 6, [0.0] * 6], trials=1)
    assert _trend(path) == 0
    text = capsys.readouterr().out
    assert "cannot measure noise" in text
    assert "drift" not in text.replace("what is drift", "")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["none.jsonl"], "there is no finished run to follow"),
        (["--metric", "tone"], "no run of cases/golden.jsonl has a tone score in lane new"),
        (["--lane", "old"], "no run of cases/golden.jsonl has a tool_calls score in lane old"),
    ],
)
def test_what_cannot_be_followed_is_said(
    args: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _trend(_runs(tmp_path, [[1.0] * 6]), *args) == 2
    assert sentence in capsys.readouterr().err


def test_what_falls_a_little_at_a_time_is_drift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = [[1.0] * (60 - fallen) + [0.0] * fallen for fallen in (0, 0, 0, 2, 4, 6, 8, 10, 12, 14)]
    path = _runs(tmp_path, [[0.5] * 10 + row for row in rates], trials=5)
    points = _points(path, capsys)
    assert points[0]["base"] is None
    assert points[2]["base"] == points[0]["run"]
    assert any(point["slow"] and point["drift"] == "down" for point in points[3:])
    assert _trend(path) == 0
    assert "added up over several runs" in capsys.readouterr().out


def test_an_a_a_lane_tells_the_noise_of_single_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, rng = tmp_path / "s.duckdb", np.random.default_rng(5)
    lanes = (Lane.OLD, Lane.OLD2, Lane.NEW)
    with open_store(path) as con:
        for number in range(2):
            at = WHEN + timedelta(hours=number)
            items = [item(f"i{place}") for place in range(20)]
            run = RunRecord(
                id=f"2026112{number}-000000-aaa{number}", created_at=at, finished_at=at, trials=1, seed=1,
                lanes={lane: version() for lane in lanes}, golden_path="cases/golden.jsonl",
            )  # fmt: skip
            create_run(con, run, items)
            done = [trial(one, lane, 0, bool(rng.random() < 0.8)) for one in items for lane in lanes]
            write_trials(con, [_of(run.id, made) for made in done])
    assert all(point["limit"] for point in _points(path, capsys)[1:])
    assert _trend(path, "--lane", "neu") == 2
    assert "there is no lane 'neu'" in capsys.readouterr().err
