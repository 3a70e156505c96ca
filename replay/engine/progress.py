"""Report the progress and the end of a run, in this process and to others.

A run holds the store for itself. So it also writes a small file `running/RUN.json` beside the store, locked
for as long as the run is in progress, and removes it at the end. What a killed process left there is not
locked, and not shown.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from replaydiff.replay.engine.forecast import Forecast
from replaydiff.replay.files import acquire, is_locked
from replaydiff.replay.model import Blocked, Lane, RunRecord, Status
from replaydiff.replay.store.trials import Failure

REPAIRABLE = (Status.INFRA_ERROR, Status.CRASHED, Status.TIMEOUT)
"""Statuses that may say more of the moment than of the agent."""


class RunProgress(NamedTuple):
    """How far a run is."""

    done: int
    """Trials that have finished, earlier ones of a resumed run included."""
    total: int
    failed: int
    """Trials of this process that ended in an error."""
    spent_usd: float
    """As far as prices are known."""
    running: int = 0
    """Trials in flight."""
    tokens: int = 0
    """What all of them have read and written, as far as agents say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What executing and resuming a run leave."""

    run: RunRecord
    statuses: dict[Lane, dict[Status, int]]
    """How all trials of the run ended, observed lanes included."""
    cost_usd: float | None
    """What all replayed trials cost, as far as it is known; None where nothing is."""
    missing: int
    """Trials that were not begun because the budget or the tokens had no room for them."""
    unpriced: int
    """Trials of this process whose cost is not known."""
    judge_usd: float = 0.0
    """The part of the budget that was left to the judge."""
    tokens: int = 0
    """What the agents read and wrote in all replayed trials, as far as they say."""
    uncounted: int = 0
    """Trials of this process whose tokens are not known."""
    forecast: Forecast | None = None
    """What was foretold before the trials of this process began; None where nothing was to be run."""
    recorded: dict[Lane, int] | None = None
    """Requests to models that the gateway recorded; None where it did not stand between."""

    blocked: dict[Lane, dict[Blocked, int]] = field(default_factory=dict)
    """What boundaries kept from happening, by lane, with the number of trials."""
    failures: list[Failure] = field(default_factory=list)
    """The most frequent reasons for which trials have no result."""
    unasked: dict[Lane, dict[str, int]] = field(default_factory=dict)
    """Tools with `effect = "write"` that no trial of a lane called, with how often they were recorded."""

    @property
    def paid_usd(self) -> float | None:
        """Return what the agents cost; nothing where their models were answered from a recording."""
        return 0.0 if self.run.settings.get("replay_model") else self.cost_usd

    @property
    def errors(self) -> int:
        """Return the number of trials that ended in an error."""
        return sum(
            count
            for lane in self.statuses.values()
            for status, count in lane.items()
            if status.is_error and status is not Status.CANCELLED
        )


_SIZE = 512
"""Bytes of the file: always as many, so that one write replaces all of it."""


class RunningRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in progress, as its file shows it."""

    run: str
    done: int
    total: int
    failed: int
    spent_usd: float


class ProgressFile:
    """Writes the progress file of one run. A failure to write is ignored, because it must not end the run."""

    def __init__(self, store: Path, run_id: str) -> None:
        self._run = run_id
        self._path = _folder(store) / f"{run_id}.json"
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = acquire(self._path, wait=False)

    def write(self, progress: RunProgress) -> None:
        """Write down how far the run is."""
        if self._file is None:
            return
        state = RunningRun(
            run=self._run,
            done=progress.done,
            total=progress.total,
            failed=progress.failed,
            spent_usd=progress.spent_usd,
        )
        with contextlib.suppress(OSError):
            os.pwrite(self._file, msgspec.json.encode(state).ljust(_SIZE), 0)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
                self._path.parent.rmdir()
            os.close(self._file)
            self._file = None


def running(store: Path) -> list[RunningRun]:
    """Return the runs that go on in this store now, by id."""
    running_runs = []
    for path in sorted(_folder(store).glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError), path.open("rb") as file:
            if is_locked(file.fileno()):
                running_runs.append(msgspec.json.decode(file.read(), type=RunningRun))
    return running_runs


def _folder(store: Path) -> Path:
    return store.absolute().parent / "running"
