"""What the store shows of a run's item, and of a metric over runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.diff.trend import TrendPoint as TrendPoint
    from replaydiff.replay.model import Grade, Item, Lane, ModelCall, Trial
    from replaydiff.replay.store.traces import Listed

TraceSummary: TypeAlias = "Listed"
"""A trace as `replay traces` lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedItem:
    """An item of a run, with its trials."""

    run: str
    item: Item
    trials: tuple[Trial, ...]
    grades: tuple[Grade, ...]
    """Grades that are stored: those of the judge."""
    model_calls: tuple[ModelCall, ...]
    """What the trials asked their models, where that was recorded."""
    origin: Trial | None = None
    """The trial that these were forked from; None where the run is no fork."""


def replayed_item(
    con: DuckDBPyConnection, name: str, run_id: str, lane: Lane | None, trial: int | None
) -> ReplayedItem:
    """Return an item of a run (empty: the latest), with its trials in one lane or of one number, or all."""
    from replaydiff.replay.store.grades import iter_grades
    from replaydiff.replay.store.model_calls import model_calls_of
    from replaydiff.replay.store.runs import EXPERIMENT, chosen_run, get_item
    from replaydiff.replay.store.trials import trials_of

    run = chosen_run(con, run_id)
    item = get_item(con, run.id, name)
    trials = tuple(
        trial_of_item
        for trial_of_item in trials_of(con, run.id, item.id)
        if lane in (None, trial_of_item.lane) and trial in (None, trial_of_item.index + 1)
    )
    grades = tuple(grade for grade in iter_grades(con, run.id) if grade.item_id == item.id)
    shown = {(trial_of_item.lane, trial_of_item.index) for trial_of_item in trials}
    calls = tuple(call for call in model_calls_of(con, run.id, item.id) if (call.lane, call.trial) in shown)
    origin = None
    if EXPERIMENT in run.settings:
        from replaydiff.replay.fork.forks import forked_from

        origin = forked_from(con, run)
    return ReplayedItem(run=run.id, item=item, trials=trials, grades=grades, model_calls=calls, origin=origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A metric over runs."""

    metric: str
    lane: str
    series: str
    """What the runs have in common: their golden set, or that they are of monthly samples."""
    points: tuple[TrendPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "metric": self.metric,
            "lane": self.lane,
            "of": self.series,
            "runs": [asdict(point) | {"beyond_trials": point.beyond_trials} for point in self.points],
        }
