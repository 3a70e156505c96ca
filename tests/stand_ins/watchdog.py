"""Ends the processes that a test run started when the run itself has ended, however it ended.

A run that is killed runs no teardown, and its servers and agents would live on. Every process inherits the mark
of its run in its environment; a watchdog, which notices the end of the run by the end of its input, kills those
that have it.

Run as `python -m tests.stand_ins.watchdog MARK`; it ends after its standard input does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import uuid
from pathlib import Path

VARIABLE = "REPLAYDIFF_TEST_RUN"


def start() -> None:
    """Mark this process's children to come, and start their watchdog; it lives as long as this process."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    os.environ[VARIABLE] = mark = uuid.uuid4().hex
    read, _write = os.pipe()
    # No objects: nothing closes the pipe or waits for the watchdog before this process ends.
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-S", __file__, mark],
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, read, 0)],
        setsid=True,
    )
    os.close(read)


def marked(mark: str) -> list[int]:
    """Return the processes that have a mark."""
    wanted, found = f"{VARIABLE}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for pid in marked(sys.argv[1]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
