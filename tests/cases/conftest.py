"""A finished run, for what is sent of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.cli import main
from replaydiff.replay.model import (
    Item,
    Lane,
    Rule,
    SampleItem,
    SampleRecord,
    ServedCall,
    Status,
    ToolCall,
    Trial,
)
from replaydiff.replay.store.runs import create_run
from replaydiff.replay.store.samples import write_sample
from replaydiff.replay.store.trials import write_trials
from tests.stand_ins.stores import open_for_writing
from tests.store.build import WHEN, run

RUN = "20261103-101500-ab12"
Command = Callable[..., tuple[int, str]]
"""Runs `replay` with these arguments in the test's folder; returns its exit code and what it printed."""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line; it never prints a key, which has `very-secret` in it."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(args))
        out, err = capsys.readouterr()
        assert "very-secret" not in out + err
        return int(ended.value.code or 0), out + err

    return call


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A golden set with a call, without calls, and with messages."""
    path = tmp_path / "cases" / "golden.jsonl"
    path.parent.mkdir()
    cases: list[dict[str, Any]] = [
        {"id": "late", "input": "Late", "expected_tool_calls": [{"name": "get_order", "args": {"id": "31"}}]},
        {"id": "weather", "input": "Will it rain?", "expected_tool_calls": []},
        {"id": "ü/1", "messages": [{"role": "user", "content": "Hi"}], "expected_answer": "Ho"},
    ]
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def _call(name: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, result={"ok": True})


@pytest.fixture
def replayed(tmp_path: Path) -> None:
    """A finished run of a sample: the new lane does not call the tool any more, and one trial failed."""
    with open_for_writing(tmp_path / ".replay" / "replay.duckdb") as con:
        items = [
            Item(
                id=f"trace-{n}",
                input=f"question {n}",
                trace_id=f"trace-{n}",
                tape=(_call("search", q=n),),
                recorded_response=f"recorded {n}",
            )
            for n in range(3)
        ]
        sample = SampleRecord(
            name="monthly",
            created_at=WHEN,
            month="2026-10",
            where=None,
            by=(),
            size=3,
            seed=1,
            population=3,
        )
        drawn = [
            SampleItem(sample="monthly", trace_id=item.id, position=place, stratum="-", weight=1.0)
            for place, item in enumerate(items)
        ]
        write_sample(con, sample, drawn)
        create_run(con, run(RUN, sample="monthly", trials=2, finished_at=WHEN), items)
        trials = []
        for place, item in enumerate(items):
            for lane in (Lane.OLD, Lane.NEW):
                for index in range(2):
                    served = (ServedCall(call=item.tape[0], rule=Rule.TAPE),) if lane == Lane.OLD else ()
                    failed = lane == Lane.NEW and place == 2 and index == 1
                    trials.append(
                        Trial(
                            run_id=RUN,
                            item_id=item.id,
                            lane=lane,
                            index=index,
                            status=Status.CRASHED if failed else Status.OK,
                            reason="the worker died" if failed else None,
                            final_response=None if failed else f"{lane} says {place}",
                            served=served,
                            latency_ms=1200.0,
                            started_at=WHEN + timedelta(seconds=place),
                        )
                    )
        write_trials(con, trials)
