"""How far long work is: a bar on a terminal, now and then a plain line elsewhere, nothing for short work.

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
_REFRESH_S = 0.1
_BAR_FROM = 120
"""Columns from which there is room for a bar beside the figures."""


class Progress(Protocol):
    """The state of some work."""

    @property
    def done(self) -> int:
        """Units that are done."""

    @property
    def total(self) -> int:
        """All units."""

    @property
    def spent_usd(self) -> float:
        """Spent so far, as far as it is known."""


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


class _PlainLines:
    """Plain lines for logs."""

    def __init__(self, what: str, unit: str) -> None:
        self._what, self._unit = what, unit
        self._began = self._printed = time.monotonic()
        self._first: int | None = None

    def update(self, state: Progress) -> None:
        now = time.monotonic()
        if self._first is None:
            # What an earlier process did says nothing about how fast this one is.
            self._first = state.done - 1
        if now - self._printed < FIRST_LINE_S:
            return
        self._printed = now
        rate = (state.done - self._first) / (now - self._began)
        left = (state.total - state.done) / rate
        print(  # noqa: T201 - stderr
            f"{self._what}: {state.done:,} of {state.total:,} {self._unit}, {rate:.1f} a second"
            f"{_more(state)}, about {_duration(left)} left",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        # On a narrow terminal the figures need its room.
        *((BarColumn(),) if console.width >= _BAR_FROM else ()),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}{task.fields[details]}"),
        TimeRemainingColumn(compact=True),
    )
    with RichProgress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=None, rate="", details="")
        began, first, drawn = time.monotonic(), -1, 0.0

        def update(state: Progress) -> None:
            nonlocal first, drawn
            now = time.monotonic()
            if first < 0:
                first = state.done - 1
            if now - drawn < _REFRESH_S and state.done < state.total:
                return
            drawn = now
            rate = (state.done - first) / max(now - began, 1e-9)
            shown.update(
                task,
                completed=state.done,
                total=state.total,
                rate=f"{rate:.1f} {unit}/s",
                details=_more(state),
            )

        yield update


def _more(state: Progress) -> str:
    """What else is known of the work: running, failed, spent, tokens."""
    running, failed, tokens = (getattr(state, name, 0) for name in ("running", "failed", "tokens"))
    parts = [
        f"{running} running" if running else "",
        f"{failed} failed" if failed else "",
        f"${state.spent_usd:.2f}" if state.spent_usd else "",
        f"{_short(tokens)} tokens" if tokens else "",
    ]
    return "".join(f", {part}" for part in parts if part)


def _short(number: int) -> str:
    """`812`, `41k`, `3.2M`."""
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def _duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
