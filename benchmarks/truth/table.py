"""What the scripts of simulations share: their options, and rows that say what did not hold."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for on the command line."""

    quick: bool
    runs: int
    only: str
    """Rows whose first words hold this."""


def options(about: str, *, runs: int, quick: int) -> Options:
    """Read `--quick`, `--runs` and `--only`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help=f"{quick} simulated runs a row, fewer rows")
    parser.add_argument("--runs", type=int, help=f"simulated runs a row (default {runs})")
    parser.add_argument("--only", default="", help="rows whose first words hold this")
    given = parser.parse_args()
    return Options(quick=given.quick, runs=given.runs or (quick if given.quick else runs), only=given.only)


def error(share: float, runs: int) -> float:
    """Standard error of a share seen in so many runs, where `share` is the true one."""
    return float((share * (1 - share) / runs) ** 0.5)


def finish(rows: Iterable[tuple[str, bool]], show: Callable[[str], None] = print) -> None:
    """Print rows as they come, and end with 1 where any did not hold."""
    held = True
    for text, kept in rows:
        show(text)
        sys.stdout.flush()
        held &= kept
    sys.exit(0 if held else 1)
