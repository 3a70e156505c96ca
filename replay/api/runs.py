"""The runs of a store: lists, runs in progress, series that a metric is followed over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from replaydiff.replay.api.threads import in_thread
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Lane, RunRecord, Trial
from replaydiff.replay.store.connection import open_store

if TYPE_CHECKING:
    from replaydiff.diff.trend import TrendPoint as TrendPoint
    from replaydiff.replay.engine.progress import RunningRun as RunningRun
    from replaydiff.replay.fork.forks import ForkResult, ForkSummary
    from replaydiff.replay.settings import Settings


class Identified(Protocol):
    """A run, or a summary of one."""

    @property
    def id(self) -> str:
        """Return the run's id."""


RunName: TypeAlias = "str | Identified"
"""A run's id, a unique beginning of it, or the run itself: a `Run`, or an entry of `project.runs()`."""


def run_id(run: RunName | None) -> str | None:
    """Return the id of a run that a caller named; None for the latest.

    Raises:
        InputError: it is something else.
    """
    name = run if run is None or isinstance(run, str) else getattr(run, "id", run)
    if name is None or isinstance(name, str):
        return name
    raise InputError(f"a run is named by its id, or by the run itself, not by {type(run).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run of the store."""

    record: RunRecord
    items: int

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self.record.id


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendSeries:
    """Finished runs that a metric can be followed over."""

    name: str
    """`samples`, or the path of the golden set that the runs share."""
    runs: tuple[RunRecord, ...]
    """Oldest first."""


class Runs:
    """The runs of a store: `project.runs()` lists them."""

    def __init__(self, store: Path, settings: Settings) -> None:
        self._store, self._settings = store, settings

    def __call__(self) -> list[RunSummary]:
        """Return the runs, newest first."""
        from replaydiff.replay.store.runs import item_counts, list_runs

        with open_store(self._store, read_only=True) as con:
            items = item_counts(con)
            return [RunSummary(record=run, items=items.get(run.id, 0)) for run in reversed(list_runs(con))]

    def in_progress(self) -> list[RunningRun]:
        """Return the runs in progress, without reading the store, which a run locks."""
        from replaydiff.replay.engine.progress import running

        return running(self._store)

    def pending_trials(self, run: str) -> list[Trial]:
        """Return the trials of a run in progress that ended and are not in the store yet."""
        from replaydiff.replay.engine.journal import waiting

        return list(waiting(self._store, run))

    def series(self) -> list[TrendSeries]:
        """Return the series of runs that a metric can be followed over, that of the latest run first."""
        from replaydiff.diff.trend import series_kind
        from replaydiff.replay.store.runs import list_runs

        with open_store(self._store, read_only=True) as con:
            finished = [run for run in list_runs(con) if run.finished_at is not None]
        names = dict.fromkeys(series_kind(run) for run in reversed(finished))
        return [
            TrendSeries(name=name, runs=tuple(run for run in finished if series_kind(run) == name))
            for name in names
        ]

    def points(
        self, series: TrendSeries, metric: str, lane: str = "new", *, last: int = 12
    ) -> list[TrendPoint]:
        """Return a metric in a lane over the last runs of a series; empty if no run has it.

        Raises:
            UnknownNameError: there is no such lane.
        """
        from replaydiff.diff.trend import trend

        with open_store(self._store, read_only=True) as con:
            return trend(con, series.runs[-last:], metric, Lane.parse(lane), self._settings)

    def forks(self) -> list[ForkSummary]:
        """Return the runs of forks, newest first."""
        from replaydiff.replay.fork import forks

        return forks.forks(self._store)

    def forked(self, run: RunName) -> ForkResult | None:
        """Return what the forks of a stored run did; None where the run is no fork.

        Args:
            run: the run.

        Raises:
            UnknownNameError: there is no such run.
            InputError: the trial that it forked is no longer in the store.
        """
        from replaydiff.replay.fork import forks

        return forks.stored_forks(self._store, run_id(run) or "")

    # The same without blocking the event loop.
    ain_progress = in_thread(in_progress)
    apending_trials = in_thread(pending_trials)
    aseries = in_thread(series)
    apoints = in_thread(points)
    aforks = in_thread(forks)
    aforked = in_thread(forked)
