"""What only `make full` runs: the rows of a matrix that take the same code path as its representatives."""

from __future__ import annotations

import os

import pytest

FULL = bool(os.environ.get("REPLAYDIFF_TEST_FULL"))
full = pytest.mark.full
"""Mark of tests and parameters that other runs leave out."""


def examples(usual: int, in_full: int) -> int:
    """The number of examples or repetitions: few in every run, many in a full one."""
    return in_full if FULL else usual
