"""What the user adds: patterns by name, and a hook in Python.

Both may be slow on a text that nobody foresaw, and an end user may have written it. So both have a time
limit, and a text on which it passes is not stored.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from importers.base import RedactionError
from importers.redact.found import Found
from replay.errors import SettingsError

SECONDS = 2.0
"""How long the user's patterns, and the hook, may take for one text."""

Finder = Callable[[str], Iterable[Found]]
_WORD = re.compile(r"[A-Z][A-Z0-9_]*")


def pattern_finder(patterns: Mapping[str, str]) -> Finder:
    """A finder of the user's own patterns; where one has a group, the group is what is replaced.

    Raises:
        SettingsError: a pattern is no regular expression, or its name can be no token.
    """
    compiled: list[tuple[str, re.Pattern[str]]] = []
    for name, pattern in patterns.items():
        if not _WORD.fullmatch(name):
            raise SettingsError(
                f"[import.redact] patterns: {name!r} can be no word of a token; use capitals, like CUSTOMER"
            )
        try:
            compiled.append((name, re.compile(pattern)))
        except re.error as error:
            raise SettingsError(
                f"[import.redact] patterns.{name} is no regular expression: {error}"
            ) from None

    def find(text: str) -> Iterator[Found]:
        for name, pattern in compiled:
            with _limited(f"the pattern {name} of [import.redact]"):
                matches = list(pattern.finditer(text))
            for match in matches:
                group = 1 if pattern.groups and match[1] is not None else 0
                if match[group]:
                    yield Found(match.start(group), match.end(group), name, match[group])

    return find


def hook_finder(hook: str, root: Path) -> Finder:
    """A finder of the user's function: text in, (start, end, WORD) of each piece to be replaced out.

    Raises:
        SettingsError: there is no such function.
    """
    function = _load(hook, root)

    def find(text: str) -> Iterator[Found]:
        try:
            with _limited(f"the hook {hook} of [import.redact]"):
                answer = list(function(text))
        except RedactionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the user's code does, the text is not stored
            raise RedactionError(
                f"the hook {hook} of [import.redact] failed: {type(error).__name__}: {error}"
            ) from None
        for piece in answer:
            yield _piece(piece, hook, text)

    return find


def _piece(piece: object, hook: str, text: str) -> Found:
    match piece:
        case (int(start), int(end), str(kind)) if 0 <= start < end <= len(text) and _WORD.fullmatch(kind):
            return Found(start, end, kind, text[start:end])
    raise RedactionError(
        f"the hook {hook} of [import.redact] gave {piece!r}; it must give (start, end, WORD) within the text"
    )


def _load(hook: str, root: Path) -> Callable[[str], Sequence[Any]]:
    place, _, name = hook.rpartition(":")
    if not place or not name:
        raise SettingsError(
            f"[import.redact] hook = {hook!r} names no function; write module:function or ./file.py:function"
        )
    try:
        module = _file_module(root / place) if place.endswith(".py") else _module(place, root)
        function = getattr(module, name)
    except Exception as error:  # noqa: BLE001 - the user's module may raise anything
        raise SettingsError(f"[import.redact] hook = {hook!r} cannot be loaded: {error}") from None
    if not callable(function):
        raise SettingsError(f"[import.redact] hook = {hook!r} is no function")
    return function  # type: ignore[no-any-return]


def _module(name: str, root: Path) -> ModuleType:
    # A module beside replay.toml is found as well as an installed one.
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(root))


def _file_module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"replay_redact_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _limited(what: str) -> Iterator[None]:
    """Stop what takes too long; outside the main thread, where nothing can be stopped, let it run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise RedactionError(f"{what} took longer than {SECONDS:g} s on a text")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
