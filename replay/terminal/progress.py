"""Show the progress of long work.

A bar on a terminal, now and then a plain line elsewhere, nothing for short work.

Always on stderr, since stdout carries data. Work that ends within `FIRST_LINE_S` prints no line at all, so
short runs in a log or a test are silent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any, Protocol

FIRST_LINE_S = 10.0
"""Seconds between plain lines, and before the first."""
FEWEST, SHORTEST_S = 10, 3.0
"""Units, and seconds, after the first unit from which a rate and the time left can be trusted: the first unit
also waits for what starts once."""
_REFRESH_S = 0.1
_BAR_FROM = 120
"""Columns from which there is room for a bar beside the figures."""


class Progress(Protocol):
    """The state of some work."""

    @property
    def done(self) -> int:
        """Return units that are done."""

    @property
    def total(self) -> int:
        """Return all units."""

    @property
    def spent_usd(self) -> float:
        """Return what was spent so far, as far as it is known."""


Update = Callable[[Progress], None]


@contextmanager
def progress(what: str, unit: str) -> Iterator[Update]:
    """Show the progress of some work (`replaying`, in `trials`) for as long as the context lasts."""
    if sys.stderr.isatty():
        with _bar(what, unit) as update:
            yield update
    elif _in_notebook():
        with _notebook_bar(what, unit) as update:
            yield update
    else:
        yield _PlainLines(what, unit).update


def _in_notebook() -> bool:
    """Return whether this is a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _notebook_bar(what: str, unit: str) -> Iterator[Update]:
    """Show a bar in the output of a notebook's cell; it disappears at the end."""
    ipython: Any = import_module("IPython.display")
    shown = ipython.display(ipython.HTML(""), display_id=True)
    drawn = 0.0

    def update(now: Progress) -> None:
        nonlocal drawn
        moment = time.monotonic()
        if moment - drawn < _REFRESH_S and now.done < now.total:
            return
        drawn = moment
        text = f"{what}: {now.done:,} of {now.total:,} {unit}{_more(now)}"
        shown.update(
            ipython.HTML(f'<progress max="{now.total}" value="{now.done}"></progress> {escape(text)}')
        )

    yield update
    shown.update(ipython.HTML(""))


class _Speed:
    """How fast units are done in this process, measured from the first on."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._first: tuple[float, int] | None = None

    def begin(self, state: Progress, now: float) -> None:
        """Measure from here on, if this is the first state."""
        if self._first is None:
            self._first = (now, state.done)

    def estimate(self, state: Progress, now: float) -> tuple[str, str]:
        """Return the rate and the time left as text, both empty until they can be trusted."""
        began, first = self._first or (now, state.done)
        if state.done - first < FEWEST or now - began < SHORTEST_S:
            return "", ""
        rate = (state.done - first) / (now - began)
        return f", {rate:.1f} {self._unit}/s", f", about {_duration((state.total - state.done) / rate)} left"


class _PlainLines:
    """Plain lines for logs."""

    def __init__(self, what: str, unit: str) -> None:
        self._what, self._unit = what, unit
        self._speed = _Speed(unit)
        self._printed = time.monotonic()

    def update(self, state: Progress) -> None:
        now = time.monotonic()
        self._speed.begin(state, now)
        if now - self._printed < FIRST_LINE_S:
            return
        rate, left = self._speed.estimate(state, now)
        self._printed = now
        print(  # noqa: T201 - stderr
            f"{self._what}: {state.done:,} of {state.total:,} {self._unit}{rate}{_more(state)}{left}",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        # On a narrow terminal the figures need its room.
        *((BarColumn(),) if console.width >= _BAR_FROM else ()),
        MofNCompleteColumn(),
        TextColumn("{task.fields[details]}"),
    )
    with RichProgress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=None, details=unit)
        speed, drawn = _Speed(unit), 0.0

        def update(state: Progress) -> None:
            nonlocal drawn
            now = time.monotonic()
            speed.begin(state, now)
            if now - drawn < _REFRESH_S and state.done < state.total:
                return
            rate, left = speed.estimate(state, now)
            drawn = now
            shown.update(
                task, completed=state.done, total=state.total, details=f"{unit}{rate}{_more(state)}{left}"
            )

        yield update


def _more(state: Progress) -> str:
    """Return further figures of the work: running, failed, spent, tokens."""
    running, failed, tokens = (getattr(state, name, 0) for name in ("running", "failed", "tokens"))
    parts = [
        f"{running} running" if running else "",
        f"{failed} failed" if failed else "",
        f"${state.spent_usd:.2f}" if state.spent_usd else "",
        f"{_short(tokens)} tokens" if tokens else "",
        getattr(state, "note", ""),
    ]
    return "".join(f", {part}" for part in parts if part)


def _short(number: int) -> str:
    """Return `812`, `41k`, `3.2M`."""
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def _duration(seconds: float) -> str:
    """Return `40 s`, `12 min`, `3 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
