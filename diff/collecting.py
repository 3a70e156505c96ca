"""Python's search for cycles, put off while a diff is worked out."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def put_off() -> Iterator[None]:
    """No search for cycles until it is left, unless there is none anyway.

    Nothing that a diff makes refers back to itself, so a search through the trials of ten thousand items
    frees nothing, and takes a third of the time. What is let go of meanwhile is freed at once as ever.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
