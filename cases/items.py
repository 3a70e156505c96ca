"""Finding what a person points at: an item of a run, or a trace of the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replaydiff.replay.errors import UnknownNameError
from replaydiff.replay.model import Item, Run, Trial
from replaydiff.replay.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An item, with the run it was found in and its trials there; without a run it is a plain trace."""

    item: Item
    run: Run | None = None
    trials: tuple[Trial, ...] = ()


def find_item(con: DuckDBPyConnection, name: str, run_id: str | None) -> Found:
    """The item of the named run (else of the latest), or the trace of that id.

    Raises:
        UnknownNameError: neither is known.
    """
    from replaydiff.replay.engine.items import item_of_trace
    from replaydiff.replay.model import SampleItem
    from replaydiff.replay.store.runs import get_item, get_run, latest_run
    from replaydiff.replay.store.traces import get_trace
    from replaydiff.replay.store.trials import trials_of

    run = get_run(con, run_id) if run_id else latest_run(con)
    if run is not None:
        try:
            item = get_item(con, run.id, name)
        except UnknownNameError:
            if run_id:
                raise
        else:
            return Found(item=item, run=run, trials=tuple(trials_of(con, run.id, item.id)))
    trace = get_trace(con, name)
    drawn = SampleItem(sample="", trace_id=trace.trace_id, position=0, stratum=trace.tool_path, weight=1.0)
    return Found(item=item_of_trace(trace, drawn))


def better_of(con: DuckDBPyConnection, found: Found, settings: Settings) -> str:
    """The lane that did better on an item, or `recording`; see `cases.promote.better`."""
    from replaydiff.cases.promote import RECORDING, better
    from replaydiff.diff.compute import compute

    if found.run is None:
        return RECORDING
    items = compute(con, found.run.id, settings).items
    return next((better(item) for item in items if item.item.id == found.item.id), RECORDING)
