"""Real trajectories, where a folder of them is at hand: REPLAY_TEST_REAL_DATA=/path/to/data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.importers.reading import traces

FOLDER = os.environ.get("REPLAY_TEST_REAL_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="REPLAY_TEST_REAL_DATA names no folder")


@pytest.mark.parametrize(
    ("source", "name", "count", "calls"),
    [
        ("openai", "tau-airline-gpt-4o-tasks-00-24.openai.jsonl", 100, 621),
        ("jsonl", "tau2-airline-base-vs-ft.traces.jsonl", 40, 295),
        ("jsonl", "tau2-retail-base-vs-ft.traces.jsonl", 80, 591),
        ("openai", "openai-finetune", 61, 487),
    ],
)
def test_traces_and_tool_calls_come_out_exactly(source: str, name: str, count: int, calls: int) -> None:
    found = traces(source, Path(FOLDER or "") / name)
    assert len({trace.trace_id for trace in found}) == count
    assert sum(len(trace.tool_calls) for trace in found) == calls
    assert all(call.answered for trace in found for call in trace.tool_calls)
