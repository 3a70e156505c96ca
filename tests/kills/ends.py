"""Ends a command at random moments, and counts what is lost, paid twice, or different in the end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replaydiff.replay.store.connection import open_store
from tests.stand_ins.processes import PATIENCE_S, start


@dataclass
class Bench:
    """A project in which a job is done, and what it paid for."""

    folder: Path
    paid: Callable[[], Counter[str]]
    environment: dict[str, str] = field(default_factory=dict)
    sent: Callable[[], Any] = lambda: None
    """What the job wrote elsewhere."""


@dataclass(frozen=True)
class Job:
    """A command that pays."""

    bench: Callable[[Path], Any]
    """A context manager: a new project in a folder, with its servers."""
    first: tuple[str, ...]
    again: tuple[str, ...]
    """The command that continues it."""
    figures: Callable[[Path], Any]
    """What the finished project contains."""
    in_flight: int
    """Paid answers that may be on their way at one moment."""


@dataclass
class Outcome:
    """What became of a job under many ends."""

    ends: int = 0
    finished: int = 0
    twice: int = 0
    lost: int = 0
    different: int = 0
    other_codes: list[str] = field(default_factory=list)

    def add_end(self, code: int, printed: str, number: signal.Signals) -> None:
        """Count an end by a signal, and keep what it printed if it did not end as it should."""
        self.ends += 1
        if code != (-9 if number == signal.SIGKILL else 130) or "Traceback" in printed:
            self.other_codes.append(f"{code}: {printed[-600:]}")

    def is_clean(self, job: Job) -> bool:
        """Return whether nothing was lost or different, and nothing paid twice beyond what was in flight."""
        within = self.twice <= self.ends * job.in_flight
        return within and not (self.lost or self.different or self.other_codes)


def disturbed(
    job: Job, number: signal.Signals, kills: int, home: Path, chance: random.Random
) -> tuple[Outcome, Counter[str]]:
    """End a job at random moments until there were `kills` ends; return the outcome and what one round pays."""
    with job.bench(home / "undisturbed") as bench:
        begun = time.monotonic()
        code, err = _run(job, bench, None, number)
        assert code == 0, err
        seconds = time.monotonic() - begun
        wanted, paid = (job.figures(bench.folder), bench.sent()), bench.paid()
    outcome = Outcome()
    while outcome.ends < kills:
        folder = home / f"round-{outcome.finished}"
        with job.bench(folder) as bench:
            is_whole = True
            while True:
                after = chance.uniform(0.0, seconds) if outcome.ends < kills else None
                begun = time.monotonic()
                code, err = _run(job, bench, after, number)
                if code == 0:
                    # The first run of all takes longest; a moment after the end would end nothing.
                    seconds = min(seconds, time.monotonic() - begun) if is_whole else seconds
                    break
                is_whole = False
                outcome.add_end(code, err, number)
                if len(outcome.other_codes) > kills:
                    return outcome, paid
            here = bench.paid()
            outcome.finished += 1
            outcome.twice += (here - paid).total()
            outcome.lost += (paid - here).total()
            outcome.different += (job.figures(bench.folder), bench.sent()) != wanted
        shutil.rmtree(folder)
    return outcome, paid


def _run(job: Job, bench: Bench, after: float | None, number: signal.Signals) -> tuple[int, str]:
    """Do or continue the job, and end it after some seconds."""
    run = _run_of(bench.folder)
    words = job.first if run is None else [run if word == "RUN" else word for word in job.again]
    process = start(bench.folder, *words, env={**os.environ, **bench.environment})
    try:
        process.wait(timeout=PATIENCE_S if after is None else after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    return process.wait(), err


def _run_of(folder: Path) -> str | None:
    """The run that was begun, if one was."""
    path = folder / ".replay" / "replay.duckdb"
    if not path.exists():
        return None
    with open_store(path, read_only=True) as con:
        found: list[tuple[str]] = con.execute("SELECT run_id FROM runs").fetchall()
    assert len(found) <= 1
    return found[0][0] if found else None
