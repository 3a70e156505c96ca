"""A project as a person has one: a git repository with an agent, its settings, and a store with traces."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from replaydiff.replay.model import RunRecord, ToolCall, Trace, Trial
from replaydiff.replay.sampling import draw
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.item_trials import iter_trials
from replaydiff.replay.store.runs import get_run, latest_run, list_runs
from replaydiff.replay.store.samples import write_sample
from replaydiff.replay.store.traces import write_traces
from tests.stand_ins.processes import PATIENCE_S, Process, start
from tests.stand_ins.stores import open_for_writing, write_filled

AGENT = """
import os, time


def call(name, args) -> str:
    return "THE REAL TOOL RAN"


def taken(folder):
    for name in os.listdir(folder):
        try:
            os.remove(os.path.join(folder, name))
            return True
        except FileNotFoundError:
            pass
    return False


def run_agent(text, model="small"):
    with open(os.environ["CALLS"], "a") as file:
        file.write(text + "\\n")
    time.sleep(float(os.environ.get("SECONDS_A_TRIAL", "0")))
    tickets = os.environ.get("TICKETS")
    while tickets and not taken(tickets):
        time.sleep(0.05)
    status = call("get_order_status", {"order_id": text})
    return {"final_response": f"VERSION {model}: {status}", "cost_usd": 0.01}
"""
"""Looks up the order it is asked about, and notes that it was called; VERSION is replaced.

With TICKETS, a trial ends once it has taken a file out of that folder.
"""

SETTINGS = """
[agent]
entrypoint = "app.agent:run_agent"
tools = ["app.agent:call"]
"""
WHEN = datetime(2026, 10, 3, 14)


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


class Project:
    """The repository in `folder`, its agent in the revisions that were written, and its store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder.parent / "calls.txt"
        if (folder / ".git").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "--quiet", "--initial-branch", "main")
        (folder / ".gitignore").write_text(".replay/\n__pycache__/\n")
        self.settings(SETTINGS)

    @property
    def store(self) -> Path:
        return self.folder / ".replay" / "replay.duckdb"

    def settings(self, text: str) -> None:
        (self.folder / "replay.toml").write_text(text)

    def write(self, version: str, source: str = AGENT) -> None:
        """Write the agent's code, without a commit."""
        (self.folder / "app").mkdir(exist_ok=True)
        (self.folder / "app" / "__init__.py").touch()
        (self.folder / "app" / "agent.py").write_text(source.replace("VERSION", version))

    def commit(self, version: str, source: str = AGENT) -> None:
        """Write the agent's code and commit it under this tag."""
        self.write(version, source)
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", version)
        git(self.folder, "tag", version)

    def traces(self, traces: Sequence[Trace]) -> None:
        with open_for_writing(self.store) as con:
            write_traces(con, traces)

    def sample(self, size: int, name: str = "october") -> None:
        """Traces `order-0` … with their look-up recorded, and a sample of all of them."""

        def fill(con: DuckDBPyConnection) -> None:
            write_traces(con, [order(number) for number in range(size)])
            drawn = draw(con, name=name, size=size, seed=0)
            write_sample(con, drawn.sample, drawn.items)

        if self.store.exists():
            with open_store(self.store) as con:
                fill(con)
        else:
            write_filled(self.store, (size, name), fill)

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, **self.counting(more.get("TICKETS")), "COLUMNS": "100", **more}

    def counting(self, *paths: str | None) -> dict[str, str]:
        """Return the variables that let the agent note its calls, outside the folder it runs in.

        Args:
            paths: what else it may write to.
        """
        self.calls.touch()
        writable = [str(self.calls), *(path for path in paths if path)]
        return {"CALLS": str(self.calls), "REPLAY_WORLD_WRITABLE": json.dumps(writable)}

    def start(self, *args: str, **more: str) -> Process | subprocess.Popen[str]:
        """`replay ARGS` as a process of its own."""
        return start(self.folder, *args, env=self.environment(**more))

    def replay(self, *args: str, **more: str) -> Done:
        """`replay ARGS` to its end."""
        process = self.start(*args, **more)
        out, err = process.communicate(timeout=PATIENCE_S)
        return Done(process.wait(), out, err)

    def times_called(self) -> int:
        """How often the agent was called so far, in any version."""
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def wait_for_calls(self, number: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.times_called() < number:
            assert time.monotonic() < deadline, "the agent was not called"
            time.sleep(0.01)

    def run(self, run_id: str | None = None) -> RunRecord:
        """A run of the store; the latest without an id."""
        with open_store(self.store, read_only=True) as con:
            found = latest_run(con) if run_id is None else get_run(con, run_id)
        assert found is not None
        return found

    def runs(self) -> list[RunRecord]:
        with open_store(self.store, read_only=True) as con:
            return list_runs(con)

    def trials(self, run_id: str | None = None) -> list[Trial]:
        run = self.run(run_id)
        with open_store(self.store, read_only=True) as con:
            return list(iter_trials(con, run.id))

    def journals(self) -> list[Path]:
        return list(self.store.parent.glob("journal/*"))


def two_revisions(folder: Path) -> Project:
    """A project whose agent has the revisions `v1` and `v2`, copied from one that was made once."""
    shutil.copytree(_two_revisions(), folder)
    return Project(folder)


@functools.cache
def _two_revisions() -> Path:
    home = Path(tempfile.mkdtemp(prefix="replay-tests-"))
    atexit.register(shutil.rmtree, home)
    project = Project(home / "shop")
    project.commit("v1")
    project.commit("v2")
    return project.folder


def ended(process: Process | subprocess.Popen[str], number: signal.Signals) -> Done:
    """Send a signal and wait for the end."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.wait(), out, err)


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def order(number: int, **fields: Any) -> Trace:
    """A trace in which an order was looked up."""
    name = f"order-{number}"
    call = ToolCall(name="get_order_status", args={"order_id": name}, result=f"{name} is shipped")
    return Trace(
        **{
            "trace_id": name,
            "source": "jsonl",
            "started_at": WHEN + timedelta(minutes=number),
            "input": name,
            "final_response": f"{name} is shipped",
            "tool_calls": (call,),
            **fields,
        }
    )


LIMITED = """
import os, time
class RateLimitError(Exception):
    status_code, headers = 429, {"retry-after": "3"}
def call(name, args) -> str: ...
def run_agent(text):
    with open(os.environ["CALLS"], "a") as file:
        file.write(f"{time.time():19.6f}\\n")
        file.flush()
        number = file.tell() // 20
    time.sleep(0.1)
    if number == 8:
        raise RateLimitError
    return call("get_order_status", {"order_id": text})
"""
"""Notes when it was called; the eighth call is refused for three seconds."""


def rests(project: Project, *args: str, **more: str) -> None:
    """Replay in six worker processes, and assert that none of them asks the provider while one is refused."""
    project.commit("limited", LIMITED)
    done = project.replay("run", "--new", "git:limited", "--trials", "2", "--concurrency", "6", *args, **more)
    assert done.code == 0, done.err
    times = [float(line) for line in project.calls.read_text().splitlines()]
    refused = times[7] + 0.1
    # What had begun a moment before is on its way.
    assert [at for at in times if refused + 1 < at < refused + 3] == []
    assert max(times) >= refused + 3
