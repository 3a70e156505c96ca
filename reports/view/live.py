"""A run that goes on, read from the files it keeps beside the store: the store itself stays the run's own.

A trial is in the journal before it is in the store, and the journal is emptied once a batch has been
moved. What was seen there is kept here in short, so a page that was opened early shows all of it.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from replaydiff.replay.engine.journal import waiting
from replaydiff.replay.engine.tally import Told, running
from replaydiff.replay.model import Lane, Rule, Status, Trial
from replaydiff.replay.terminal.plain import one_line
from replaydiff.reports import format as fmt

_MOST_RUNS = 4
_SHOWN = 60
"""Of the latest trials."""

_Key = tuple[str, Lane, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialLine:
    """What is kept of a trial."""

    item: str
    lane: Lane
    index: int
    status: Status
    said: str
    path: str
    calls: int
    from_tape: int
    latency_ms: float | None
    cost_usd: float | None


@dataclass(slots=True)
class _SeenTrials:
    trials: dict[_Key, _TrialLine] = field(default_factory=dict)
    """In the order in which they came."""


class LiveRuns:
    """What was seen of the runs that go on."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._runs: dict[str, _SeenTrials] = {}

    def told(self, run: str) -> Told | None:
        """How far a run is; None where it does not go on now. The run by a unique beginning of its id."""
        found = [one for one in running(self._store) if one.run.startswith(run)]
        return found[0] if len(found) == 1 else None

    def look(self, told: Told) -> dict[str, Any]:
        """What a page shows of a run, as plain JSON values."""
        with self._lock:
            seen = self._runs.setdefault(told.run, _SeenTrials())
            while len(self._runs) > _MOST_RUNS:
                self._runs.pop(next(iter(self._runs)))
            for trial in waiting(self._store, told.run):
                key = (trial.item_id, trial.lane, trial.index)
                if key not in seen.trials:
                    seen.trials[key] = _short(trial)
            trials = list(seen.trials.values())
        return {
            "run": told.run,
            "done": told.done,
            "total": told.total,
            "failed": told.failed,
            "spent": fmt.dollars(told.spent_usd) if told.spent_usd else "",
            "seen": len(trials),
            "lanes": [
                _lane(lane, trials)
                for lane in sorted({one.lane for one in trials}, key=lambda lane: lane.order)
            ],
            "latest": [_row(one) for one in trials[: -_SHOWN - 1 : -1]],
        }


def _short(trial: Trial) -> _TrialLine:
    return _TrialLine(
        item=one_line(trial.item_id, 80),
        lane=trial.lane,
        index=trial.index,
        status=trial.status,
        said=one_line(trial.reason or trial.final_response or "", 160),
        path=one_line(" > ".join(served.call.name for served in trial.served), 120) or "–",
        calls=len(trial.served),
        from_tape=sum(served.rule is Rule.TAPE for served in trial.served),
        latency_ms=trial.latency_ms,
        cost_usd=trial.cost_usd,
    )


def _lane(lane: Lane, trials: list[_TrialLine]) -> list[str]:
    own = [one for one in trials if one.lane == lane]
    calls = sum(one.calls for one in own)
    took = [one.latency_ms for one in own if one.latency_ms is not None]
    paid = [one.cost_usd for one in own if one.cost_usd is not None]
    ended = Counter(one.status for one in own)
    return [
        str(lane),
        " · ".join(f"{fmt.count(number)} {status}" for status, number in ended.most_common()),
        fmt.share(sum(one.from_tape for one in own) / calls if calls else None),
        fmt.duration(median(took) if took else None),
        fmt.dollars(sum(paid) if paid else None),
    ]


def _row(one: _TrialLine) -> dict[str, str]:
    return {
        "item": one.item,
        "lane": str(one.lane),
        "trial": str(one.index + 1),
        "status": one.status.value,
        "tone": "improved"
        if one.status is Status.OK
        else "regressed"
        if one.status.is_error
        else "inconclusive",
        "path": one.path,
        "said": one.said,
        "took": fmt.duration(one.latency_ms),
        "cost": fmt.dollars(one.cost_usd),
    }
