"""`replay trend`: a change beyond the noise is named, one within it is not."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from replaydiff.replay.cli import main
from replaydiff.replay.model import Lane, RunRecord, SampleRecord, Trial
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.samples import write_sample
from replaydiff.replay.store.trials import write_trials
from tests.diff.build import WHEN, item, trial, version


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
                trial(one, Lane.NEW, k, bool(rng.random() < rate))
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
    steady, fallen = [0.8] * 40, [0.8] * 30 + [0.0] * 10
    path = _runs(tmp_path, [steady, steady, fallen, fallen])
    points = _points(path, capsys)
    assert [point["drift"] for point in points] == [None, None, "down", None]
    assert _trend(path) == 0
    text = capsys.readouterr().out
    assert text.startswith("tool_calls of lane new, cases/golden.jsonl\n")
    assert "drift down: 20261122-000000-aaa2 is −0.23 against" in text
    assert text.count("◀") == 1


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
    path = _runs(tmp_path, [[0.9] * 50, [0.9] * 50, [0.2] * 50], samples=True)
    points = _points(path, capsys)
    assert [point["of"] for point in points] == ["month-0", "month-1", "month-2"]
    assert [point["drift"] for point in points] == [None, None, "down"]


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
        (["--cases", "x", "--samples"], "--cases and --samples are two series; give one of them"),
        (["--cases", "none.jsonl"], "there is no finished run to follow"),
        (["--metric", "tone"], "no run of cases/golden.jsonl has a tone score in lane new"),
        (["--lane", "old"], "no run of cases/golden.jsonl has a tool_calls score in lane old"),
    ],
)
def test_what_cannot_be_followed_is_said(
    args: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _trend(_runs(tmp_path, [[1.0] * 6]), *args) == 2
    assert sentence in capsys.readouterr().err


def test_what_falls_a_little_at_a_time_is_drift_against_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = [[1.0] * (60 - fallen) + [0.0] * fallen for fallen in (0, 0, 1, 2, 3, 4)]
    path = _runs(tmp_path, [[0.5] * 20 + row for row in rates], trials=5)
    points = _points(path, capsys)
    assert points[1]["base"] is None
    assert points[2]["base"] == points[0]["run"]
    assert any(point["slow"] and point["drift"] == "down" for point in points[3:])
    assert _trend(path) == 0
    assert "gradually" in capsys.readouterr().out


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
