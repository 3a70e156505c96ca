"""One run of `replay demo` for all tests that look at one: it is what they cost most by."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from replaydiff.replay.demo.stand_in import HOST
from tests.stand_ins import processes

REPLAY = (sys.executable, "-m", "replaydiff")
SECRET = "sk-ant-a-real-key"
USUAL_REASON = "worse by more than 0.05"
"""Why the demo's answer is HOLD.

Which of the six trials of the old version fall to which of its lanes depends on timing. For 3 of 100 orders of them
the lanes differ so far that the change of the mean is not beyond that, and HOLD names the items that regressed.
"""
ATTEMPTS = 3

GUARD = """
import os, socket

def _guarded(connect):
    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
            with open(os.environ["GUARD_LOG"], "a") as log:
                log.write(f"{address}\\n")
            raise OSError("no network in this test")
        return connect(self, address)
    return guarded

socket.socket.connect = _guarded(socket.socket.connect)
socket.socket.connect_ex = _guarded(socket.socket.connect_ex)
"""


@dataclass(frozen=True)
class DemoRun:
    """A demo that was run."""

    folder: Path
    """Where; the tests of the demo go on in it."""
    untouched: Path
    """A copy of its `replay-demo` as the demo left it."""
    port: int
    done: subprocess.CompletedProcess[str]


def environment(folder: Path) -> dict[str, str]:
    """A person's environment: a real key, another store, proxies; and a guard in every Python process."""
    guard = folder / "guard"
    guard.mkdir(exist_ok=True)
    (guard / "sitecustomize.py").write_text(GUARD)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "REPLAY"))}
    return {
        **kept,
        "PYTHONPATH": str(guard),
        "GUARD_LOG": str(folder / "connections.txt"),
        "HOME": str(folder),
        "ANTHROPIC_API_KEY": SECRET,
        "REPLAY_DB": str(folder / "elsewhere.duckdb"),
        "REPLAY_JUDGE_MODEL": "claude-fable-5-1",
        "HTTP_PROXY": "http://192.0.2.1:9",
        "HTTPS_PROXY": "http://192.0.2.1:9",
        "COLUMNS": "100",
    }


def replay(folder: Path, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`replay ARGS` in that environment."""
    return processes.replay(cwd or folder, *args, env=environment(folder))


def run(folder: Path) -> DemoRun:
    """Run the demo."""
    # Other demos may run at the same time, and this one's stand-in is wanted again later.
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder / "replay-demo", ignore_errors=True)
        done = subprocess.run(
            [*REPLAY, "demo", "--port", str(port)],
            cwd=folder, env=environment(folder), capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "\nHOLD" in done.stdout, done.stdout
        if USUAL_REASON in " ".join(done.stdout.split()):
            break
    else:
        raise AssertionError(f"{ATTEMPTS} demos without {USUAL_REASON!r}:\n{done.stdout}")
    untouched = folder / "untouched" / "replay-demo"
    shutil.copytree(folder / "replay-demo", untouched, symlinks=True)
    return DemoRun(folder, untouched, port, done)
