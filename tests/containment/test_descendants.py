"""Every way to start a Python process, from a real worker: the tool is answered there, or has no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaydiff.replay.model import Status
from replaydiff.replay.settings import ToolSection
from tests.agents.running import calls, item, recorded, run
from tests.containment.descendants import POINTS, STARTS, TOOLS, source
from tests.containment.effects import Outside
from tests.stand_ins.full import FULL

NAMES = ("cancel", "cancel_async", "stop", "refund")
TAPE = [recorded(name, "answered", order_id="7") for name in NAMES for _ in range(2)]
READS = {name: ToolSection(effect="read") for name in NAMES}
"""Each start calls one of them, whatever was recorded before it."""


@pytest.fixture
def folder(tmp_path: Path, outside: Outside) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "canary.py").write_text(outside.canary)
    (folder / "tools.py").write_text(TOOLS)
    (folder / "started.py").write_text(source())
    return folder


@pytest.mark.slow
def test_tools_are_answered_in_processes_that_the_agent_starts(folder: Path, outside: Outside) -> None:
    numbers = [number for number, start in enumerate(STARTS) if not start.passes]
    items = [item(f"start_{number}", *TAPE) for number in numbers]
    outcomes = run(
        "started:run",
        *items,
        folder=folder,
        tools=POINTS,
        tools_settings=READS,
        concurrency=1,
        timeout_s=60.0,
    )
    failed = {
        f"{STARTS[number].group}: {STARTS[number].name}": (
            outcome.status,
            outcome.reason,
            outcome.final_response,
        )
        for number, outcome in zip(numbers, outcomes, strict=True)
        if outcome.status is not Status.OK or outcome.final_response != "answered" or not calls(outcome)
    }
    assert not failed, "\n".join(f"{name}: {failure}" for name, failure in failed.items())
    assert outside.effects() == []


@pytest.mark.slow
def test_no_process_that_the_agent_starts_has_an_effect(folder: Path, outside: Outside) -> None:
    first_of_group = {start.group: number for number, start in reversed([*enumerate(STARTS)])}
    numbers = range(len(STARTS)) if FULL else sorted(first_of_group.values())
    items = [item(f"start_{number}", *TAPE) for number in numbers]
    run("started:run", *items, folder=folder, tools=POINTS, concurrency=1, timeout_s=20.0, boundary="auto")
    assert outside.effects() == []


AT_IMPORT = """
import concurrent.futures, multiprocessing
from tools import cancel
POOL = concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("METHOD"))
POOL.submit(int).result()
def in_pool(): return POOL.submit(cancel, "7").result()
def run(text): return globals()[text]()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_that_starts_while_the_agent_is_imported_is_answered(
    folder: Path, outside: Outside, method: str
) -> None:
    (folder / "agent.py").write_text(AT_IMPORT.replace("METHOD", method))
    [outcome] = run("agent:run", item("in_pool", *TAPE), folder=folder, tools=POINTS, timeout_s=60.0)
    assert (outcome.final_response, calls(outcome)) == ("answered", [("cancel", {"order_id": "7"}, "tape")])
    assert outside.effects() == []
