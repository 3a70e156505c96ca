"""What the scripts of simulations share: their options, rows that say what did not hold, and their results.

A whole table is kept in `benchmarks/results/SCRIPT.json`, from which `make docs` writes it into the pages that
name it; a table of some rows (`--only`) is printed alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


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
    options = parser.parse_args()
    return Options(
        quick=options.quick, runs=options.runs or (quick if options.quick else runs), only=options.only
    )


def error(share: float, runs: int) -> float:
    """Standard error of a share seen in so many runs, where `share` is the true one."""
    return float((share * (1 - share) / runs) ** 0.5)


def finish(rows: Iterable[tuple[str, bool]]) -> None:
    """Print rows as they come, keep them where they are the whole table, and end with 1 where any did not hold."""
    holds, lines = True, []
    for text, is_within in rows:
        print(text, flush=True)
        lines.append(text.rstrip())
        holds &= is_within
    if not any(argument.startswith("--only") for argument in sys.argv):
        _keep(lines)
    sys.exit(0 if holds else 1)


def _keep(lines: list[str]) -> None:
    arguments = ["FOLDER" if Path(argument).is_dir() else argument for argument in sys.argv[1:]]
    script = Path(sys.argv[0])
    kept = {
        "command": " ".join(["python", f"benchmarks/{script.name}", *arguments]),
        "measured": date.today().isoformat(),
        "lines": lines,
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{script.stem}.json").write_text(text, encoding="utf-8")
