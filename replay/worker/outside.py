"""See what an agent does besides its tools: connections to other machines, and processes that it starts.

A helper that no setting names runs for real. It cannot be answered, but it can be shown: while the first
trials run, each connection that is not to a model and each process is kept with the line of the agent that
led to it, and so is a connection that is opened while the agent is imported: trials may use it. Nothing is
refused. What an agent's own threads do, and files that it writes, are not seen.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

    from replaydiff.replay.worker import calls, tool
else:
    calls = sys.modules["_replaydiff_worker_calls"]
    tool = sys.modules["_replaydiff_worker_tool"]

STARTING = {"subprocess.Popen": 1, "os.system": 0, "os.exec": 1, "os.posix_spawn": 1}
"""Events of a process that begins, and which of their arguments says what."""
ABOUT_THE_MACHINE = {"platform", "uuid", "ctypes.util"}
"""Modules that start programs to find out where they are."""
_LONGEST = 60
"""Characters of a command that are shown."""


class Outside:
    """What the trials that are observed now have done besides their tools."""

    def __init__(self, expected: Iterable[str]) -> None:
        """Observe nothing yet.

        Args:
            expected: hosts that an agent reaches by itself, those of its models; `*` is any text without a
                dot.
        """
        self._expected = [_pattern(host) for host in expected]
        self._folder = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
        self._found: dict[int, dict[str, str]] = {}
        self._before: dict[str, str] = {}
        """What was seen before the first trial."""
        self._has_begun = self._has_looked_up = False
        self._host: object = None
        """What was looked up last in a thread that belongs to no trial, as asyncio does it."""

        sys.addaudithook(self._heard)

    def begin(self, trial: int) -> None:
        """Observe a trial."""
        self._found[trial] = {} if self._has_begun else dict(self._before)
        self._has_begun = True

    def end(self, trial: int) -> dict[str, str]:
        """Observe a trial no longer; return what it did, each with its place in the agent's code."""
        return self._found.pop(trial, {})

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if self._has_begun and not self._found:
            return
        if event == "socket.getaddrinfo":
            self._has_looked_up = True
            if calls.TRIAL.get() is None:
                self._host = args[0]
            self._connects(args[0])
        elif event == "socket.connect" and isinstance(args[1], tuple):
            # An address that was looked up in the trial has been seen by its name.
            self._connects(self._host if self._has_looked_up else args[1][0])
        elif event in STARTING and self._has_begun:
            # What is imported may start programs to find out about the machine.
            self._keep(f"starts {_command(args[STARTING[event]])}")

    def _connects(self, host: Any) -> None:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
        plain = name.lower().rstrip(".")
        if not _is_near(name) and not any(known.fullmatch(plain) for known in self._expected):
            self._keep(f"connects to {name}")

    def _keep(self, what: str) -> None:
        trial = calls.TRIAL.get()
        found = None if trial is None else self._found.get(trial)
        if not self._has_begun:
            what, found = f"{what} when it is imported", self._before
        if found is not None and what not in found and not tool.is_live():
            place = self._place(sys._getframe(2))
            if place is not None:
                found[what] = place

    def _place(self, frame: FrameType | None) -> str | None:
        """Return the line of the agent that led here; None if it asks about the machine, or none did."""
        while frame is not None:
            if frame.f_globals.get("__name__") in ABOUT_THE_MACHINE:
                return None
            file = frame.f_code.co_filename
            if file.startswith(self._folder) and "site-packages" not in file:
                return f"{file[len(self._folder) :]}:{frame.f_lineno}"
            frame = frame.f_back
        return None


def _pattern(host: str) -> re.Pattern[str]:
    """Return a pattern of hosts; a star that crossed dots would cover strangers' names under the domain."""
    return re.compile(re.escape(host.lower()).replace(r"\*", "[^.]*"))


def _is_near(host: str) -> bool:
    """Return whether a host is this machine."""
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _command(given: Any) -> str:
    words = given if isinstance(given, (list, tuple)) else [given]
    text = " ".join(
        os.fsdecode(word) if isinstance(word, (str, bytes, os.PathLike)) else str(word) for word in words
    )
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
