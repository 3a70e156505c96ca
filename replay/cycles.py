"""Python's search for reference cycles, and when it is put off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SEARCH_AFTER = 50_000
"""Objects more than were freed since the last search, after which another one begins; Python's own is 700."""


def search_rarely() -> None:
    """Search for cycles less often from here on, as fits a process that runs one command and ends.

    What is imported and read stays until the end, so the searches that it starts free nothing.
    """
    first, *others = gc.get_threshold()
    # With a threshold of 0 there is no search.
    if 0 < first < SEARCH_AFTER:
        gc.set_threshold(SEARCH_AFTER, *others)


@contextmanager
def no_cycle_search() -> Iterator[None]:
    """Search for no cycles until it is left, unless there is no search anyway.

    Nothing that a diff or its report makes refers back to itself, so a search through the trials of ten
    thousand items frees nothing and takes a third of the time. What is no longer needed is freed at once as
    ever.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            # Whatever is new counts as old: else it would be searched as soon as anything else is made.
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@contextmanager
def newer_cycles_only() -> Iterator[None]:
    """Search for cycles only in what is made from here on, and less often, until it is left.

    A run makes many objects for each trial, an import for each trace, which starts searches; those through
    everything that is imported free nothing, and take a twelfth of the engine's processor time.
    """
    if gc.get_freeze_count():
        yield
        return
    before = gc.get_threshold()
    gc.freeze()
    search_rarely()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
