"""One walk over a run: items and their trials, side by side, and every grade of them.

What the trials of an item have in common is held in memory once. Mostly that is nearly all: a replay is
answered from the tape, so the results of its calls are the recorded ones, over and over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from replaydiff.diff.graders.base import free_grades
from replaydiff.replay.model import Grade, Item, Run, ServedCall, ToolCall, Trial
from replaydiff.replay.settings import Settings
from replaydiff.replay.store.runs import iter_items
from replaydiff.replay.store.trials import iter_trials

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_encode = msgspec.json.Encoder().encode


def by_item(con: DuckDBPyConnection, run: Run) -> Iterator[tuple[Item, list[Trial]]]:
    """Every item of the run with its trials; both come by position, so one walk pairs them."""
    groups = groupby(iter_trials(con, run.id), key=lambda trial: trial.item_id)
    waiting = next(groups, None)
    for item in iter_items(con, run.id):
        if waiting is not None and waiting[0] == item.id:
            shared = _Shared(item, run)
            yield item, [shared.trial(trial) for trial in waiting[1]]
            waiting = next(groups, None)
        else:
            yield item, []


def computed_grades(con: DuckDBPyConnection, run: Run, settings: Settings) -> Iterator[Grade]:
    """The grades of a run that cost nothing and so are stored nowhere."""
    for item, trials in by_item(con, run):
        for trial in trials:
            yield from free_grades(item, trial, settings).values()


class _Shared:
    """The values of one item and its trials so far; an equal one of a later trial becomes the same object."""

    def __init__(self, item: Item, run: Run) -> None:
        self._item = item
        self._run = run
        self._calls: dict[str, list[ToolCall]] = {}
        for call in item.tape:
            self._calls.setdefault(call.name, []).append(call)
        response = item.recorded_response
        self._texts = {} if response is None else {response: response}

    def trial(self, trial: Trial) -> Trial:
        response = trial.final_response
        return replace(
            trial,
            run_id=self._run.id,
            item_id=self._item.id,
            final_response=None if response is None else self._texts.setdefault(response, response),
            served=tuple(self._served(served) for served in trial.served),
        )

    def _served(self, served: ServedCall) -> ServedCall:
        call = served.call
        known = self._calls.setdefault(call.name, [])
        same = next((other for other in known if _equal(other, call)), None)
        if same is None:
            known.append(call)
            return served
        if same != call:
            same = replace(call, args=same.args, result=same.result)
        own = self._item.trace_id
        return ServedCall(
            call=same,
            rule=served.rule,
            from_trace_id=own if served.from_trace_id == own else served.from_trace_id,
            note=served.note,
        )


def _equal(one: ToolCall, other: ToolCall) -> bool:
    """Whether two calls have the very same arguments and result."""
    if one.args != other.args or one.result != other.result:
        return False
    # `1 == 1.0 == True` in Python, and not in JSON, which also has an order of keys.
    return _encode((one.args, one.result)) == _encode((other.args, other.result))
