"""Every way to start a Python process, from a real worker: the tool is answered there, or never called."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaydiff.replay.model import Status
from tests.agents.running import calls, item, recorded, run
from tests.containment.descendants import POINTS, STARTS, TOOLS, source
from tests.containment.test_shapes import CANARY, real_calls

NAMES = ("cancel", "cancel_async", "stop", "refund")
TAPE = [recorded(name, "answered", order_id="7") for name in NAMES for _ in range(2)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "canary.py").write_text(CANARY.format(file=str(tmp_path / "real")))
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "started.py").write_text(source())
    return tmp_path


@pytest.mark.slow
def test_tools_are_answered_in_every_process_that_the_agent_starts(folder: Path) -> None:
    numbers = [number for number, start in enumerate(STARTS) if not start.refused]
    items = [item(f"start_{number}", *TAPE) for number in numbers]
    outcomes = run("started:run", *items, folder=folder, tools=POINTS, concurrency=1, timeout_s=60.0)
    failed = {
        f"{STARTS[number].group}: {STARTS[number].name}": (
            outcome.status,
            outcome.reason,
            outcome.final_response,
        )
        for number, outcome in zip(numbers, outcomes, strict=True)
        if outcome.status is not Status.OK or outcome.final_response != "answered" or not calls(outcome)
    }
    assert not failed, "\n".join(f"{name}: {found}" for name, found in failed.items())
    assert real_calls(folder) == []


def test_processes_in_which_tools_cannot_be_answered_are_refused(folder: Path) -> None:
    numbers = [number for number, start in enumerate(STARTS) if start.refused]
    items = [item(f"start_{number}", *TAPE) for number in numbers]
    outcomes = run("started:run", *items, folder=folder, tools=POINTS, concurrency=1)
    for number, outcome in zip(numbers, outcomes, strict=True):
        assert outcome.status is Status.AGENT_ERROR, STARTS[number]
        assert STARTS[number].refused in str(outcome.reason)
    assert real_calls(folder) == []
