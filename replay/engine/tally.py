"""How far a run is, for who looks from another process: the run holds the store for itself while it goes on.

A small file `running/RUN.json` beside the store, written anew at most twice a second, locked for as long as
the run goes on, and removed at its end. What a killed process left there is not locked, and not shown.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import msgspec

from replaydiff.replay.engine.report import Progress
from replaydiff.replay.locks import acquire, is_locked

_EVERY_S = 0.5
_SIZE = 512
"""Bytes of the file: always as many, so that one write replaces all of it."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says."""

    run: str
    done: int
    total: int
    failed: int
    spent_usd: float


class Tally:
    """Writes the file of one run. Where it cannot, nobody is told: that is no reason for a run to end."""

    def __init__(self, store: Path, run_id: str) -> None:
        self._run, self._told = run_id, float("-inf")
        self._path = _folder(store) / f"{run_id}.json"
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = acquire(self._path, wait=False)

    def tell(self, progress: Progress) -> None:
        """Write down how far the run is, unless that was done a moment ago."""
        now = time.monotonic()
        if self._file is None or (now - self._told < _EVERY_S and progress.done < progress.total):
            return
        self._told = now
        told = Told(
            run=self._run,
            done=progress.done,
            total=progress.total,
            failed=progress.failed,
            spent_usd=progress.spent_usd,
        )
        with contextlib.suppress(OSError):
            os.pwrite(self._file, msgspec.json.encode(told).ljust(_SIZE), 0)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
                self._path.parent.rmdir()
            os.close(self._file)
            self._file = None


def running(store: Path) -> list[Told]:
    """The runs that go on in this store now, by id."""
    found = []
    for path in sorted(_folder(store).glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError), path.open("rb") as file:
            if is_locked(file.fileno()):
                found.append(msgspec.json.decode(file.read(), type=Told))
    return found


def _folder(store: Path) -> Path:
    return store.absolute().parent / "running"
