"""Python's search for reference cycles, and when it is put off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
    """Search for cycles only in what is made from here on, until it is left.

    A run makes many objects for each trial, which starts searches; those through everything that is imported
    take a twelfth of the engine's processor time and free nothing.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
