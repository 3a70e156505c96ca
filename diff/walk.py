"""One walk over a run: items and their trials, side by side, and every grade of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from diff.graders.base import free_grades
from replay.model import Grade, Item, Run, Trial
from replay.settings import Settings
from replay.store.runs import iter_items
from replay.store.trials import iter_trials

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def by_item(con: DuckDBPyConnection, run: Run) -> Iterator[tuple[Item, list[Trial]]]:
    """Every item of the run with its trials; both come by position, so one walk pairs them."""
    groups = groupby(iter_trials(con, run.id), key=lambda trial: trial.item_id)
    waiting = next(groups, None)
    for item in iter_items(con, run.id):
        if waiting is not None and waiting[0] == item.id:
            yield item, list(waiting[1])
            waiting = next(groups, None)
        else:
            yield item, []


def computed_grades(con: DuckDBPyConnection, run: Run, settings: Settings) -> Iterator[Grade]:
    """The grades of a run that cost nothing and so are stored nowhere."""
    for item, trials in by_item(con, run):
        for trial in trials:
            yield from free_grades(item, trial, settings).values()
