"""The examples are run as their pages say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replaydiff.replay.model import Lane, Trial
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.item_trials import iter_trials
from replaydiff.replay.store.runs import latest_run
from tests.commands.conftest import Replay

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def commands(page: Path) -> list[list[str]]:
    """The `replay` commands of a page."""
    return [
        shlex.split(line)[1:] for line in re.findall(r"^    (replay .*)$", page.read_text(), re.MULTILINE)
    ]


def trials(folder: Path) -> dict[tuple[str, Lane], Trial]:
    with open_store(folder / ".replay" / "replay.duckdb", read_only=True) as con:
        run = latest_run(con)
        assert run is not None
        return {(trial.item_id, trial.lane): trial for trial in iter_trials(con, run.id)}


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
@pytest.mark.slow
def test_the_agent_in_node(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "node-agent"
    shutil.copytree(EXAMPLES / "node-agent", folder)
    monkeypatch.chdir(folder)
    # The trace that failed in production fails again, and that is no failure of the run: it is data.
    codes = [replay(*command).code for command in commands(folder / "README.md")]
    assert codes == [0, 0, 3, 3]
    found = trials(folder)
    assert len(found) == 8
    assert found["where-1001", Lane.NEW].final_response == "Order 1001 is shipped."
    hasty, careful = found["cancel-1002", Lane.OLD], found["cancel-1002", Lane.NEW]
    assert hasty.final_response == "Done: order 1002 is cancelled."
    assert [(served.call.name, served.rule.value) for served in hasty.served] == [
        ("get_order_status", "tape"),
        ("cancel_order", "tape"),
    ]
    assert careful.final_response == "Order 1002 is packed. Shall I really cancel it?"
    failed = found["failed-1003", Lane.NEW]
    assert (failed.status.value, failed.reason) == (
        "agent_error",
        "Error: the shop did not answer (agent.mjs:15)",
    )


def test_the_agent_behind_http(replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    folder = tmp_path / "examples" / "http-agent"
    monkeypatch.chdir(folder)
    said = tmp_path / "said.txt"
    with said.open("w") as stdout:
        service = subprocess.Popen([sys.executable, "agent.py", "0"], stdout=stdout)
    try:
        while "port" not in said.read_text():
            time.sleep(0.01)
        address = f"http://127.0.0.1:{said.read_text().split()[-1]}/agent"
        for command in commands(folder / "README.md"):
            assert replay(*(address if word.startswith("http://") else word for word in command)).code in (
                0,
                3,
            )
    finally:
        service.kill()
        service.wait()
    found = trials(folder)
    assert found["where-1001", Lane.NEW].final_response == "Order 1001 is shipped."
    assert [served.rule.value for served in found["where-1001", Lane.NEW].served] == ["tape"]
    failed = found["failed-1003", Lane.NEW]
    assert (failed.status.value, failed.reason) == (
        "agent_error",
        "500 RuntimeError: the shop did not answer",
    )
