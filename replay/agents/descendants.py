"""What a process started: the memory of all of it, and what outlives the process.

A process that ends leaves its children to the nearest *subreaper* above it (Linux, prctl(2)). While processes
of agents run, this process is one, so whatever outlives an agent's process is among its own children. What a
process left behind is known by its session, or by a mark in the environment it was started with.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

COLLECT_S = 5.0
"""Seconds between two looks for processes to collect."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(r"^Pss: +(\d+) kB$", re.M)
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


def resident_mb(pid: int) -> float:
    """Return the memory of a process and all its descendants, in megabytes; pages they share count once."""
    return sum(_resident(member) for member in _family(pid)) / 2**20


def _family(pid: int) -> Iterator[int]:
    yield pid
    # What has ended meanwhile has none.
    with contextlib.suppress(OSError):
        for child in _children(pid):
            yield from _family(child)


def _children(pid: int | str) -> list[int]:
    """Return the children of a process.

    Raises:
        OSError: it has ended, or this kernel does not list them.
    """
    return [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]


def _resident(pid: int) -> int:
    try:
        # Proportional: a page that n processes share since a fork counts as 1/n for each.
        [pss] = _PSS.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())
        return int(pss) * 1024
    except PermissionError:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError):
        return 0


class Adoption:
    """The agents' processes that run now, and what others of them left to this process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: a forked process has none of its parent's processes, and is no subreaper."""
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._was_adopting = self._is_adopting = False
        self._collected_at = 0.0

    def add(self, pid: int) -> None:
        """Take in a process that was just started: it leads a session of its own."""
        with self._lock:
            if not self._running and sys.platform == "linux":
                self._was_adopting = _is_subreaper()
                self._is_adopting = _set_subreaper(True)
            self._running.add(pid)

    def remove(self, pid: int) -> None:
        """Let go of a process that has ended, and of which nothing is left."""
        with self._lock:
            self._running.discard(pid)
            if not self._running and self._is_adopting:
                _set_subreaper(self._was_adopting)
                self._is_adopting = False

    def left_by(self, pid: int, mark: bytes) -> list[int]:
        """Return what has outlived an ended process, as far as it can be found now.

        Args:
            pid: the process, which leads its session.
            mark: `NAME=value` in the environment of all that it started.
        """
        if sys.platform != "linux":
            return []
        return [
            candidate
            for candidate in self._candidates() - self._running
            if _session(candidate) == pid or _carries(candidate, mark)
        ]

    def collect_ended(self) -> None:
        """Collect what was left to this process and has ended, while the agents' processes go on.

        Nobody else does, and an agent may leave a process behind in each of ten thousand trials. What other
        code of this process started is not in an agent's session.
        """
        now = time.monotonic()
        if not self._is_adopting or now - self._collected_at < COLLECT_S:
            return
        self._collected_at = now
        with contextlib.suppress(OSError):
            left = set(_children("self")) - self._running
            collect(pid for pid in left if _session(pid) in self._running)

    def _candidates(self) -> set[int]:
        if self._is_adopting:
            with contextlib.suppress(OSError):
                return set(_children("self"))
        # A kernel that has no subreapers, or does not list children, leaves only the list of all processes.
        return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


def collect(pids: Iterable[int]) -> set[int]:
    """Collect those processes that have ended; return the others. One that is not ours counts as ended."""
    left = set()
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                left.add(pid)
    return left


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _is_subreaper() -> bool:
    import ctypes

    flag = ctypes.c_int()
    failed = ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    return not failed and bool(flag.value)


def _set_subreaper(on: bool) -> bool:
    """Return whether the kernel took it."""
    import ctypes

    return not ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


ADOPTION = Adoption()
"""Of this process."""
os.register_at_fork(after_in_child=ADOPTION.reset)
