"""The journal of a run: every finished trial is a line in a file as soon as it ends.

The store takes the trials of a second at once, since one at a time costs a hundred times as much; a process
can be killed in between. So each trial is first appended to `journal/RUN.jsonl` beside the store and only
forgotten there once the store has it. Writing a line costs some microseconds and survives `kill -9`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from replaydiff.replay.errors import StoreWriteError
from replaydiff.replay.files import append
from replaydiff.replay.masking import masker
from replaydiff.replay.model import ModelCall, Trial
from replaydiff.replay.store import sql
from replaydiff.replay.store.connection import settle
from replaydiff.replay.store.model_calls import write_model_calls
from replaydiff.replay.store.sql import encode
from replaydiff.replay.store.trials import finished_keys, write_trials

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SETTLE_AFTER = 5000
"""Trials after which the store is made to let go of what it holds in memory."""
_EVERY_S = 1.0
"""Seconds after which trials are moved into the store, where other commands see them."""

_CALL = b'{"model_call":'
"""How the line of a model call begins; those of a trial stand before it."""

_read_trial = sql.decoder(Trial)
_read_call = sql.decoder(ModelCall)
_read_calls = sql.decoder(dict[str, ModelCall])


class Journal:
    """Trials on their way into the store. What an earlier process left in it is moved there first."""

    def __init__(self, store: Path, run_id: str, con: DuckDBPyConnection) -> None:
        """Open the journal of a run.

        Args:
            store: path of the store.
            run_id: the run.
            con: a connection that may write.
        """
        self._con = con
        self._path = path_of(store, run_id)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._masked = masker()
        self._waiting: list[Trial] = []
        self._calls: list[ModelCall] = []
        for trial, calls in _left_in(self._path):
            self._waiting.append(trial)
            self._calls += calls
        self._unsettled = 0
        self._oldest = time.monotonic()
        """When the first of the trials that wait came."""
        self.drain()

    def add(self, trial: Trial, calls: Sequence[ModelCall]) -> None:
        """Keep a finished trial and what was recorded of it.

        Once this returns, the death of this process cannot lose it.

        Raises:
            StoreWriteError: it cannot be written: the disk is full, say. What was kept before stays kept.
        """
        line, redacted_trial, redacted_calls = self._line(trial, calls)
        now = time.monotonic()
        if not self._waiting:
            self._oldest = now
        try:
            append(self._file, line)
        except OSError as error:
            raise StoreWriteError(
                f"the journal {self._path} cannot be written: {error.strerror}; no finished trial is lost",
                hint=f"correct that, then `replay run --resume {trial.run_id}`",
            ) from error
        self._waiting.append(redacted_trial)
        self._calls += redacted_calls
        # Not at once after a pause: who follows the run reads the file.
        if now - self._oldest > _EVERY_S:
            self.drain()

    def _line(self, trial: Trial, calls: Sequence[ModelCall]) -> tuple[bytes, Trial, list[ModelCall]]:
        """Return a trial's part of the file, and the trial and its calls without secrets."""
        texts = [encode(call) for call in calls]
        masked_texts = list(map(self._masked, texts))
        whole = self._masked(text := encode(trial))
        line = (
            b"".join(b"%b%b}\n" % (_CALL, call_text.encode()) for call_text in masked_texts)
            + whole.encode()
            + b"\n"
        )
        return (
            line,
            trial if whole == text else _read_trial(whole),
            list(calls) if masked_texts == texts else [_read_call(call_text) for call_text in masked_texts],
        )

    def drain(self) -> None:
        """Move everything into the store."""
        if self._waiting:
            write_trials(self._con, self._waiting)
            self._unsettled += len(self._waiting)
            self._waiting.clear()
        if self._calls:
            write_model_calls(self._con, self._calls)
            self._calls.clear()
        if self._unsettled >= _SETTLE_AFTER:
            settle(self._con)
            self._unsettled = 0
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Move everything into the store and remove the file. Where that fails, the file keeps it."""
        try:
            self.drain()
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._path.parent.rmdir()
        finally:
            os.close(self._file)


def path_of(store: Path, run_id: str) -> Path:
    """Return the path of a run's journal."""
    return store.absolute().parent / "journal" / f"{run_id}.jsonl"


def waiting(store: Path, run_id: str) -> list[Trial]:
    """Return a run's finished trials that are not in the store yet, for reading from another process."""
    path = path_of(store, run_id)
    return [trial for trial, _ in _left_in(path)] if path.exists() else []


def merge_waiting(con: DuckDBPyConnection, source: Path) -> tuple[int, int]:
    """Write the trials that wait beside another store, of runs that this store has.

    Returns:
        How many trials, and how many requests to models, this store did not have.
    """
    trials: list[Trial] = []
    calls: list[ModelCall] = []
    for (run_id,) in con.execute("SELECT run_id FROM runs").fetchall():
        path = path_of(source, run_id)
        stored_keys = finished_keys(con, run_id) if path.exists() else set()
        for trial, of_trial in _left_in(path) if path.exists() else ():
            if (trial.item_id, str(trial.lane), trial.index) not in stored_keys:
                trials.append(trial)
                calls += of_trial
    write_trials(con, trials)
    write_model_calls(con, calls)
    return len(trials), len(calls)


def _left_in(path: Path) -> Iterator[tuple[Trial, list[ModelCall]]]:
    """Yield the trials of a journal; one that was being written when its process died is left out."""
    calls: list[ModelCall] = []
    with path.open("rb") as file:
        for line in file:
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                if line.startswith(_CALL):
                    calls += _read_calls(line).values()
                    continue
                trial = _read_trial(line)
                yield trial, [call for call in calls if _is_of(call, trial)]
                calls = []


def _is_of(call: ModelCall, trial: Trial) -> bool:
    of_call = (call.run_id, call.item_id, call.lane, call.trial)
    return of_call == (trial.run_id, trial.item_id, trial.lane, trial.index)
