"""What the user adds: patterns by name, and a hook in Python.

Both may be slow on a text that nobody foresaw, and an end user may have written it. So both have a time
limit, and a text on which it passes is not stored.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from replaydiff.importers.base import RedactionError
from replaydiff.importers.redact.finders import Finding
from replaydiff.replay.errors import SettingsError
from replaydiff.replay.functions import load_function

SECONDS = 2.0
"""How long the user's patterns, and the hook, may take for one text."""

Finder = Callable[[str], Iterable[Finding]]
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

    def find(text: str) -> Iterator[Finding]:
        for name, pattern in compiled:
            with _limited(f"the pattern {name} of [import.redact]"):
                matches = list(pattern.finditer(text))
            for match in matches:
                group = 1 if pattern.groups and match[1] is not None else 0
                if match[group]:
                    yield Finding(match.start(group), match.end(group), name, match[group])

    return find


def hook_finder(hook: str, root: Path) -> Finder:
    """A finder of the user's function: text in, (start, end, WORD) of each piece to be replaced out.

    Raises:
        SettingsError: there is no such function.
    """
    function = load_function(hook, root, "[import.redact] hook")

    def find(text: str) -> Iterator[Finding]:
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


def _piece(piece: object, hook: str, text: str) -> Finding:
    match piece:
        case (int(start), int(end), str(kind)) if 0 <= start < end <= len(text) and _WORD.fullmatch(kind):
            return Finding(start, end, kind, text[start:end])
    raise RedactionError(
        f"the hook {hook} of [import.redact] gave {piece!r}; it must give (start, end, WORD) within the text"
    )


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
