"""A clock that jumps forth and back changes no result, and hides neither the last run nor the last decision."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

import replaydiff as rd
from replaydiff.cases.triage.decisions import Decisions
from replaydiff.replay import clock
from replaydiff.replay.model import Action, Item
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import latest_decision
from tests.api.project import make


def _set(monkeypatch: pytest.MonkeyPatch, hours: list[float]) -> None:
    """Have each look at the clock be off by another of these hours."""
    offsets = random.Random(7)

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(hours=offsets.choice(hours))

        @classmethod
        def fromtimestamp(cls, timestamp: float, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(timestamp, tz) + timedelta(hours=offsets.choice(hours))

    monkeypatch.setattr(clock, "datetime", Jumping)


def test_a_run_under_a_jumping_clock_gives_the_same_and_the_last_one_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, traces=6)
    project = rd.open(tmp_path)
    project.import_(tmp_path / "traces.jsonl")
    project.sample(month="2026-10", size=6, name="october")
    steady = project.run("october", old="v1", new="v2").diff().to_dict()
    _set(monkeypatch, [-20.0, -1.0, 0.0])
    run = project.run("october", old="v1", new="v2")
    assert project.diff().to_dict()["run"]["id"] == run.id
    jumped = run.diff().to_dict()
    for part in ("answer", "causes", "items"):
        assert jumped[part] == steady[part]
    assert project.resume(run.id).diff().answer == run.diff().answer


def test_the_last_decision_counts_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, item = tmp_path / "store.duckdb", Item(id="t1", input="where is it", trace_id="t1")
    open_store(store).close()
    decisions = Decisions(store, tmp_path / "golden.jsonl", "Ada")
    for hours in (0.0, -1.0, -2.0, 3.0, -30.0):
        _set(monkeypatch, [hours])
        decisions.dismiss([item], None, f"as wanted, {hours}")
        with open_store(store) as con:
            latest = latest_decision(con, "t1")
        assert latest is not None
        assert latest.reason == f"as wanted, {hours}"
    assert decisions.undo() is not None
    with open_store(store) as con:
        undone = latest_decision(con, "t1")
    assert undone is not None
    assert undone.action is Action.UNDO
