"""What `replay` must keep to on a quiet machine, each bar beside what was measured: one command, one table.

    python benchmarks/bars.py [--rounds 3] [--traces 1000000] [--only BAR …] [--peers DIR]

10,000 trials of an instant agent at 50 against pydantic-evals (installed below DIR, default `.bench`), 10,000
trials of an agent that waits 50 ms at 200 against the ideal, an import of many traces, `replay diff` of 100,000
items, and `replay --help`. Every figure is the median of its rounds, of fresh processes; the import runs once.
Exits with 1 where a bar is missed. On a busy machine only ratios mean something; the last column says how many
processes of other work ran or waited before and after.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import import_100k
from measuring import others, run
from performance import REPLAY, ROOT, ROWS, measure, median, peer_command

IDEAL_S = 10_000 / 200 * 0.05
"""What 10,000 trials of 50 ms take at 200, without any work of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A figure, and its bound."""

    what: str
    measured: float
    bound: float
    unit: str
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


def instant(rounds: int, peers: Path) -> Iterator[Bar]:
    """Yield what 10,000 instant trials take, as multiples of the peer."""
    row = ROWS["run"]
    peer = peer_command("pydantic_evals", peers)
    if peer is None:
        raise SystemExit("pydantic-evals cannot be installed; leave the bar out with --only")
    found = measure(row, rounds, peer, {})
    for name, bound, words in (("cpu_s", 2.0, "processor time"), ("wall_s", 1.3, "wall clock")):
        ratios = [getattr(a, name) / getattr(b, name) for a, b in zip(found.ours, found.theirs, strict=True)]
        what = f"10,000 instant trials at 50, {words} beside pydantic-evals"
        yield Bar(what=what, measured=statistics.median(ratios), bound=bound, unit="×")


def waiting(rounds: int, _peers: Path) -> Iterator[Bar]:
    """Yield what 10,000 trials of 50 ms at 200 take, as a multiple of the ideal."""
    found = measure(ROWS["waiting"], rounds, None, {})
    wall_s = median(found.ours, "wall_s")
    yield Bar(
        what="10,000 trials of 50 ms at 200, wall clock", measured=wall_s / IDEAL_S, bound=1.5, unit="× ideal"
    )


def importing(traces: int) -> Callable[[int, Path], Iterator[Bar]]:
    """Return what measures one import of so many traces."""

    def bars(_rounds: int, _peers: Path) -> Iterator[Bar]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            file = folder / "traces.jsonl"
            import_100k.write(file, traces, "jsonl")
            size = file.stat().st_size / 1e6
            words = ["-m", "replaydiff", "--db", str(folder / "s.duckdb"), "import", "jsonl", str(file)]
            cost = import_100k.run(words, folder)
        what = f"import of {traces:,} traces ({size:,.0f} MB)"
        yield Bar(
            what=f"{what}, a second of processor time",
            measured=size / cost.cpu_seconds,
            bound=15,
            unit="MB",
            at_least=True,
        )
        yield Bar(what=f"{what}, memory of all processes", measured=cost.peak_mb, bound=1000, unit="MB")

    return bars


def diff(rounds: int, _peers: Path) -> Iterator[Bar]:
    """Yield what `replay diff` of 100,000 items takes."""
    found = measure(ROWS["diff-large"], rounds, None, {})
    yield Bar(
        what="diff of 100,000 items, wall clock", measured=median(found.ours, "wall_s"), bound=15, unit="s"
    )
    yield Bar(
        what="diff of 100,000 items, memory", measured=median(found.ours, "memory_mb"), bound=600, unit="MB"
    )


def starting(rounds: int, _peers: Path) -> Iterator[Bar]:
    """Yield what `replay --help` takes."""
    run([REPLAY, "--help"])
    shown = statistics.median(run([REPLAY, "--help"]).wall_s for _ in range(7 * rounds)) * 1000
    yield Bar(what="replay --help, wall clock", measured=shown, bound=150, unit="ms")


def main() -> int:
    """Measure the bars and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ("instant", "waiting", "import", "diff", "help")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--peers", type=Path, default=ROOT / ".bench")
    options = parser.parse_args()
    measures = dict(zip(names, (instant, waiting, importing(options.traces), diff, starting), strict=True))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(f"commit {commit.stdout.strip()}, {time.strftime('%Y-%m-%d %H:%M')}")
    print("| bar | measured | bound | met | others |\n|---|--:|--:|---|---|")
    missed = 0
    for name in options.only:
        before = others()
        for bar in measures[name](options.rounds, options.peers.resolve()):
            sign = "≥" if bar.at_least else "≤"
            missed += not bar.is_met
            print(
                f"| {bar.what} | {bar.measured:.2f} {bar.unit} | {sign} {bar.bound:g} {bar.unit} | "
                f"{'yes' if bar.is_met else '**no**'} | {before:.1f}, {others():.1f} |",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
