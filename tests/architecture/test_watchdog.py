"""What a killed test run leaves behind: nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.stand_ins.processes import PATIENCE_S

RUN = """
import subprocess, sys, time
from tests.stand_ins import watchdog

watchdog.start()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_a_test_started_ends_with_the_run(number: signal.Signals) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", RUN], cwd=root, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        child = Path("/proc", run.stdout.readline().strip())
        assert child.exists()
        run.send_signal(number)
        run.wait(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while _lives(child):
            assert time.monotonic() < deadline, "the child outlived the run"
            time.sleep(0.05)


def _lives(process: Path) -> bool:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
