"""Versions that are no Python entrypoint, run as a person runs them."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from replaydiff.replay.model import Lane, Status
from tests.agents.running import AGENTS
from tests.commands.conftest import Replay
from tests.engine.project import Project, order
from tests.stand_ins.messages_api import StandIn
from tests.stand_ins.processes import PATIENCE_S

TALKING = f"{sys.executable} {AGENTS / 'talking.py'}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "shop")
    project.settings(f'[agent]\ncommand = "{TALKING} once"\ntools = "endpoint"\n')
    monkeypatch.chdir(project.folder)
    return project


def test_a_killed_engine_leaves_no_program_and_its_run_goes_on(project: Project) -> None:
    shared = project.folder.parent / "shared"
    shared.mkdir()
    hang, starts = shared / "hang", shared / "starts"
    # A time of its own by which the programs are recognized: their process numbers may be those of a namespace.
    waiting = f"sleep 60.{os.getpid()}"
    program = project.folder / "agent.sh"
    # The first trial is replayed before the others, so it must end.
    wait = f'test -e {hang} && test "$(wc -l < {starts})" -gt 1 && {waiting}'
    program.write_text(f"#!/bin/sh\necho started >> {starts}\n{wait}\nexec {TALKING} once\n")
    project.settings("[agent]\ntools = []\n")
    program.chmod(0o755)
    hang.touch()
    project.sample(3)
    process = project.start(
        "run", "--new", "cmd:./agent.sh", "--concurrency", "2", "--sample", "october", TICKETS=str(shared)
    )
    deadline = time.monotonic() + PATIENCE_S
    while not starts.exists() or len(starts.read_text().split()) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # The guard is told of a program right after it was started.
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline += PATIENCE_S
    while _is_running(waiting):
        assert time.monotonic() < deadline, "a program outlived its engine"
        time.sleep(0.02)
    hang.unlink()
    assert project.replay("run", "--resume").code == 0
    assert [trial.final_response for trial in project.trials()] == [
        f"you said {trial.item_id}" for trial in project.trials()
    ]


def _is_running(command: str) -> bool:
    argv = "".join(f"{argument}\0" for argument in command.split()).encode()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if process.read_bytes() == argv:
                return True
    return False


def test_messages_asks_the_models_of_two_versions(
    replay: Replay,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project.traces([order(0, input="Where is order 12345?", model="claude-haiku-4-5", tool_calls=())])
    replay("sample", "--month", "2026-10", "--name", "october")
    with StandIn(remember=True) as stand_in:
        project.settings(
            f"""
[agent]
messages = true
env = {{ ANTHROPIC_BASE_URL = "{stand_in.url}" }}
"""
        )
        done = replay("run", "--old", "messages", "--new", "model=claude-opus-5-5", "--sample", "october")
    assert done.code == 0, done.err
    assert sorted(received.body["model"] for received in stand_in.received) == [
        "claude-haiku-4-5",
        "claude-opus-5-5",
    ]
    assert {trial.lane: trial.status for trial in project.trials()} == {
        Lane.OLD: Status.OK,
        Lane.NEW: Status.OK,
    }
    assert all(trial.usage for trial in project.trials())


def test_an_agent_that_is_not_there_is_said_before_anything_is_stored(
    replay: Replay, project: Project
) -> None:
    project.traces([order(0)])
    replay("sample", "--month", "2026-10", "--name", "october")
    for version, said in (
        ("http://127.0.0.1:9/agent", "nothing answers at 127.0.0.1:9"),
        ("cmd:no-such-program here", "there is no program no-such-program on PATH"),
        ("cmd:./nowhere.sh", f"there is no program ./nowhere.sh in {project.folder}"),
    ):
        done = replay("run", "--new", version, "--sample", "october")
        assert (done.code, said in done.err, project.runs()) == (2, True, []), done.err


def test_a_header_is_taken_from_the_environment_and_never_stored(
    replay: Replay,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project.traces([order(0)])
    replay("sample", "--month", "2026-10", "--name", "october")
    project.settings(
        '[agent]\nurl = "http://127.0.0.1:9/agent"\ntools = []\nheader_env = { Authorization = "AGENT_AUTH" }\n'
    )
    monkeypatch.delenv("AGENT_AUTH", raising=False)
    done = replay("run", "--new", "model=x", "--sample", "october")
    assert "its header Authorization is taken from AGENT_AUTH, which is not set" in done.err
