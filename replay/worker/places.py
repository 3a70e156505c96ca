"""The places of tools: whatever takes one during a trial is refused before it runs.

A place is a name of a module, class or object by which a patch point or tool object leads to a function. What
the places hold is compared with what they held before the trial, just before any code runs for the first time
in this process: the code of whatever took a place may be the next to run.

From Python 3.12 on the interpreter reports each code once. Before, a profile function reports every call, and
slows them down: there a process is watched only if code of the agent looks as if it replaced a tool.
"""

from __future__ import annotations

import dis
import gc
import operator
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replaydiff.replay.worker import imports, kinds, processes
else:
    imports = sys.modules["_replaydiff_worker_imports"]
    kinds = sys.modules["_replaydiff_worker_kinds"]
    processes = sys.modules["_replaydiff_worker_processes"]

Step = tuple[Any, str]
"""A module, class or object, and the name of what it holds."""

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 - as in main.py
_PYTHON = ("<", os.path.dirname(os.path.realpath(os.__file__)) + os.sep)  # noqa: PTH120
"""Where the code of Python's own modules is, and of what they make."""
_CHANGEABLE = 1 << 9
"""The flag of types that Python code made."""
_NEW_CLASS = {"__class__", "__dict__", "__getattribute__", "__getattr__"}
"""What leads an object's names elsewhere when it is set."""
_SETTERS = {"__dict__", "__setattr__", "exec", "globals", "object", "patch", "setattr", "vars"}
"""What sets a name that stands in a text."""
_STORES = ("STORE_ATTR", "STORE_GLOBAL")


class Places:
    """What the places of tools held when the trial began."""

    def __init__(self, check: Callable[[types.CodeType], None]) -> None:
        """Make it ready; nothing is compared yet.

        Args:
            check: called with the code that is about to run where a place holds something new; raises where
                that is no tool that is answered.
        """
        self._check = check
        self._reads: list[tuple[Callable[[Any], Any], Any]] = []
        self._held: list[Any] = []
        self._steps: list[Step] = []
        self._names: set[str] = set()
        self._trials: set[int] = set()
        self._busy = threading.local()
        self._seen: set[types.CodeType] = set()
        self._modules = 0
        self._has_changed = False
        self._is_reported = False
        self._may_change = False

    @property
    def needs_profile(self) -> bool:
        """Whether calls must be reported by a profile function."""
        return self._may_change and not self._is_reported

    def keep(self, steps: list[Step]) -> None:
        """Compare with what these places hold now, from now on."""
        if len(steps) != len(self._steps) or not self._is_kept():
            # Two places may share a name of a class.
            reads = {
                (id(holder), what): (get, key)
                for owner, name in steps
                for holder, what, get, key in _reads(owner, name)
            }
            self._reads = list(reads.values())
            self._held = [get(key) for get, key in self._reads]
            self._steps, self._names = steps, {name for _, name in steps}
        if sys.version_info >= (3, 12):
            if self._steps and not self._is_reported:
                self._report()
        elif self._steps and not self._may_change and len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._may_change = any(_may_set(code, self._names) for code in _agents_codes())

    def renew(self) -> None:
        """Compare with what the same places hold now."""
        self.keep(self._steps)

    def begin(self, trial: int) -> None:
        """Compare while the agent runs this trial."""
        self._trials.add(trial)

    def end(self, trial: int) -> None:
        """Compare no longer for this trial."""
        self._trials.discard(trial)

    def unwatched(self, work: Callable[[], None]) -> None:
        """Do this and compare nothing in this thread: while it patches, the worker runs Python's modules."""
        was_busy, self._busy.is_set = getattr(self._busy, "is_set", False), True
        try:
            work()
        finally:
            self._busy.is_set = was_busy

    def starts(self, code: types.CodeType) -> bool:
        """Compare just before this code runs; return whether it need not be reported again.

        Raises:
            BaseException: something took a tool's place.
        """
        if code in self._seen or code.co_filename.startswith(_OWN):
            return True
        if processes.TRIAL.get() not in self._trials or getattr(self._busy, "is_set", False):
            # What runs between trials is the worker and what it uses of Python, beside the agent's threads.
            return code.co_filename.startswith(_PYTHON)
        self._busy.is_set = True
        try:
            if not self._is_kept():
                self._has_changed = True
                self._seen.clear()
                self._check(code)
        finally:
            self._busy.is_set = False
        if not self._has_changed:
            self._seen.add(code)
        return not self._has_changed

    def _is_kept(self) -> bool:
        try:
            return all(map(operator.is_, [get(key) for get, key in self._reads], self._held))
        except Exception:
            return False

    def _report(self) -> None:
        """Have the interpreter report code that begins."""
        monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - not in Python 3.11, on which this is checked
        number = next((one for one in (4, 3, 1, 0) if monitoring.get_tool(one) is None), None)
        if number is None:
            return
        monitoring.use_tool_id(number, "replaydiff")

        def started(code: types.CodeType, _: int) -> Any:
            return monitoring.DISABLE if self.starts(code) else None

        monitoring.register_callback(number, monitoring.events.PY_START, started)
        monitoring.set_events(number, monitoring.events.PY_START)
        self._is_reported = True


def _reads(owner: Any, name: str) -> Iterator[tuple[Any, str, Callable[[Any], Any], Any]]:
    """Yield where Python looks a name up: whose and which name it is, how it is read, and with which key."""
    if isinstance(owner, type):
        yield from _in_classes(owner, name)
        return
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        own = None
    if isinstance(own, dict):
        yield owner, name, own.get, name
    yield owner, "its class", type, owner
    for cls in kinds.bases_of(type(owner)):
        if cls.__flags__ & _CHANGEABLE:
            yield cls, "__getattribute__", kinds.namespace_of(cls).get, "__getattribute__"
        slot = kinds.namespace_of(cls).get(name)
        if type(slot) is types.MemberDescriptorType:
            yield owner, f"the slot {name}", slot.__get__, owner
    yield from _in_classes(type(owner), name)


def _in_classes(cls: type, name: str) -> Iterator[tuple[Any, str, Callable[[Any], Any], Any]]:
    for base in kinds.bases_of(cls):
        namespace = kinds.namespace_of(base)
        if base.__flags__ & _CHANGEABLE:
            yield base, name, namespace.get, name
        if name in namespace:
            return


def _agents_codes() -> Iterator[types.CodeType]:
    """Yield the code of all functions that are neither Python's nor of an installed package."""
    known: dict[str, bool] = {}
    for function in gc.get_objects():
        if type(function) is types.FunctionType:
            file = function.__code__.co_filename
            if file not in known:
                known[file] = not file.startswith("<") and not imports.is_library(file)
            if known[file]:
                yield function.__code__


def _may_set(code: types.CodeType, names: set[str]) -> bool:
    """Whether this code, or code within it, looks as if it set one of these names of something."""
    used = set(code.co_names)
    if used & _SETTERS and any(text.rpartition(".")[2] in names for text in _texts(code.co_consts)):
        return True
    makes = code.co_name in ("__init__", "__post_init__")
    wanted = _NEW_CLASS if makes else names | _NEW_CLASS
    if used & wanted and any(
        one.opname in _STORES and one.argval in wanted for one in dis.get_instructions(code)
    ):
        return True
    return any(_may_set(const, names) for const in code.co_consts if isinstance(const, types.CodeType))


def _texts(consts: Iterable[Any]) -> Iterator[str]:
    for const in consts:
        if isinstance(const, str):
            yield const
        elif isinstance(const, tuple):
            yield from _texts(const)
