"""Detect tools that run in a trial without passing a patch point.

Two things are signs of it: an unpatched function of the agent's own code with the name of a recorded tool,
and any function that is given the name of a recorded tool and an object with its arguments. The engine stops
a run on them only for a tool of which no call has reached it (`replay/engine/probe.py`).

A profile function sees every call, which slows a trial in Python down; so only the first trials are watched.
"""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import calls, failures
else:
    failures = sys.modules["_replaydiff_worker_failures"]
    calls = sys.modules["_replaydiff_worker_calls"]

_PATHS = sysconfig.get_paths()
_LIBRARY = tuple(path + os.sep for path in (_PATHS["stdlib"], _PATHS["platstdlib"]))
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_WORKER = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 - as in main.py


class Watch:
    """What the trials that are watched now have called."""

    def __init__(self, starts: Callable[[CodeType], bool]) -> None:
        """Watch nothing yet.

        Args:
            starts: called with code that begins; returns whether it need not be called with it again.
        """
        self._starts = starts
        self._folder = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
        self._tools: dict[int, Mapping[str, list[str]]] = {}
        self._signs: dict[int, dict[str, str]] = {}
        self._skipped: dict[CodeType, bool] = {}

    def begin(self, trial: int, tools: Mapping[str, list[str]]) -> None:
        """Watch a trial.

        Args:
            trial: its number.
            tools: names of recorded tools, each with the names of its recorded arguments; none to watch only
                for code that begins.
        """
        self._tools[trial], self._signs[trial] = tools, {}
        _profile(self._seen)

    def end(self, trial: int) -> dict[str, str]:
        """Watch a trial no longer; return the tools that seem to have run, each with the place."""
        if trial not in self._tools:
            return {}
        del self._tools[trial]
        if not self._tools:
            _profile(None)
        return self._signs.pop(trial)

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call":
            return
        self._starts(code)
        if self._is_skipped(code):
            return
        trial = calls.TRIAL.get()
        tools = self._tools.get(trial) if trial is not None else None
        if trial is None or tools is None:
            return
        name = code.co_name if code.co_name in tools and self._is_own(code) else _requested_tool(frame, tools)
        if name is not None:
            file = code.co_filename
            place = file[len(self._folder) :] if file.startswith(self._folder) else file
            self._signs[trial].setdefault(name, f"{code.co_name} ({place}:{code.co_firstlineno})")

    def _is_skipped(self, code: CodeType) -> bool:
        """Whether calls of this code say nothing: the standard library's, the worker's, patched code."""
        found = self._skipped.get(code)
        if found is None:
            file = code.co_filename
            library = file.startswith(_LIBRARY) and not any(part in file for part in _INSTALLED)
            found = library or file.startswith(("<", _WORKER)) or code in failures.PATCHED
            self._skipped[code] = found
        return found

    def _is_own(self, code: CodeType) -> bool:
        file = code.co_filename
        return file.startswith(self._folder) and not any(part in file for part in _INSTALLED)


def _profile(function: Any) -> None:
    """Have every thread call this at each call; threads that run already only from Python 3.12 on."""
    getattr(threading, "setprofile_all_threads", threading.setprofile)(function)
    sys.setprofile(function)


def _requested_tool(frame: FrameType, tools: Mapping[str, list[str]]) -> str | None:
    """Return the tool whose name and arguments this call was given; None where it was not."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    if count < 2:
        return None
    given = frame.f_locals
    values = [given[name] for name in code.co_varnames[:count] if name in given]
    name = next((value for value in values if type(value) is str and value in tools), None)
    if name is None:
        return None
    recorded = set(tools[name])
    for value in values:
        if isinstance(value, dict) and (recorded & set(value) if recorded else not value):
            return name
    return None
