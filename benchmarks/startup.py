"""How long `replay --help` takes over a bare interpreter's start.

    python benchmarks/startup.py [ROUNDS]

Both commands run in turn, so a change in the machine's speed touches both. Prints medians in milliseconds and
the median of the pairwise differences, which is the figure that counts: the goal is at most 150 ms.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

REPLAY = Path(sys.executable).with_name("replay")


def wall_ms(command: list[str]) -> float:
    """Wall time of one fresh process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1e3


def main(rounds: int) -> None:
    """Measure and print."""
    bare_command, help_command = [sys.executable, "-c", "pass"], [str(REPLAY), "--help"]
    wall_ms(help_command)
    pairs = [(wall_ms(bare_command), wall_ms(help_command)) for _ in range(rounds)]
    bare, shown = (statistics.median(column) for column in zip(*pairs, strict=True))
    over = statistics.median(shown - bare for bare, shown in pairs)
    print(f"python -c pass {bare:6.1f} ms\nreplay --help  {shown:6.1f} ms\ndifference     {over:6.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
