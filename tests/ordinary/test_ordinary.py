"""Agents on ordinary packages start, and their tools are answered: `make ordinary`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replaydiff.replay.model import Status
from tests.agents.running import calls, item, recorded, run
from tests.ordinary.agents import PATCHED_BY_GEVENT, PLAIN, source

PYTHON = os.environ.get("REPLAYDIFF_ORDINARY_PYTHON")
pytestmark = pytest.mark.skipif(PYTHON is None, reason="runs by `make ordinary`")
TAPE = [recorded("lookup", "answered", order_id="7")]


def check(folder: Path, names: tuple[str, ...], *, with_gevent: bool) -> None:
    (folder / "app.py").write_text(source(with_gevent=with_gevent))
    items = [item(name, *TAPE) for name in names]
    outcomes = run(
        "app:run", *items, folder=folder, tools=("app:lookup",), python=PYTHON, concurrency=1, timeout_s=60.0
    )
    failed = {
        name: (outcome.status.value, outcome.reason, outcome.final_response)
        for name, outcome in zip(names, outcomes, strict=True)
        if outcome.status is not Status.OK or outcome.final_response != "answered" or len(calls(outcome)) != 1
    }
    assert not failed


def test_ordinary_agents_are_answered(tmp_path: Path) -> None:
    check(tmp_path, PLAIN, with_gevent=False)


def test_agents_that_gevent_patches_are_answered(tmp_path: Path) -> None:
    check(tmp_path, PATCHED_BY_GEVENT, with_gevent=True)
