"""Agents on ordinary packages start, their tools are answered, and nothing real happens: `make ordinary`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replaydiff.replay.model import Status
from tests.agents.running import calls, item, recorded, run
from tests.containment.effects import Outside
from tests.ordinary.agents import AGENTS, GEVENT, PATCHED_BY_GEVENT, module

PYTHON = os.environ.get("REPLAYDIFF_ORDINARY_PYTHON")
pytestmark = pytest.mark.skipif(PYTHON is None, reason="runs by `make ordinary`")
TAPE = [recorded("lookup", "answered", order_id="7")]
ANSWERED = (Status.OK, "answered", [("lookup", {"order_id": "7"}, "tape")])


@pytest.mark.parametrize(
    ("agents", "first_line"),
    [(AGENTS, ""), (PATCHED_BY_GEVENT, GEVENT)],
    ids=["as it is", "patched by gevent"],
)
def test_ordinary_agents_are_answered(tmp_path: Path, agents: dict[str, str], first_line: str) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    outside = Outside(tmp_path / "outside")
    (folder / "app.py").write_text(module(agents, first_line))
    (folder / "canary.py").write_text(outside.canary)
    outcomes = run(
        "app:run",
        *(item(str(number), *TAPE) for number in range(len(agents))),
        folder=folder,
        tools=("app:lookup",),
        python=PYTHON,
        concurrency=1,
        timeout_s=60.0,
        boundary="auto",
    )
    outside.close()
    failed = []
    for name, outcome in zip(agents, outcomes, strict=True):
        is_answered = (outcome.status, outcome.final_response, calls(outcome)) == ANSWERED
        blocked = ", ".join(event.what for event in outcome.blocked)
        print(f"{name:28} {'answered' if is_answered else outcome.status}  {blocked}")
        failed += [] if is_answered else [(name, outcome.reason or outcome.final_response)]
    print(f"{len(agents) - len(failed)} of {len(agents)} answered; effects: {len(outside.effects())}")
    assert not failed
    assert outside.effects() == []
