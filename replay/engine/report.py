"""What is told of a run: while it goes on, and when it has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from replaydiff.replay.engine.forecast import Forecast
from replaydiff.replay.model import Lane, RunRecord, Status


class Progress(NamedTuple):
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
    """What `execute` and `resume` leave."""

    run: RunRecord
    statuses: dict[Lane, dict[Status, int]]
    """How all trials of the run ended, observed lanes included."""
    cost_usd: float | None
    """What all replayed trials cost, as far as it is known; None where nothing is."""
    missing: int
    """Trials that were not begun because the budget or the tokens were spent."""
    unpriced: int
    """Trials of this process whose cost is not known."""
    tokens: int = 0
    """What the agents read and wrote in all replayed trials, as far as they say."""
    uncounted: int = 0
    """Trials of this process whose tokens are not known."""
    forecast: Forecast | None = None
    """What was foretold before the trials of this process began; None where nothing was to be run."""
    recorded: dict[Lane, int] | None = None
    """Requests to models that the gateway recorded; None where it did not stand between."""

    unasked: dict[Lane, dict[str, int]] = field(default_factory=dict)
    """Tools with `effect = "write"` that no trial of a lane called, with how often they were recorded."""

    @property
    def paid_usd(self) -> float | None:
        """What the agents cost; nothing where their models were answered from a recording."""
        return 0.0 if self.run.settings.get("replay_model") else self.cost_usd

    @property
    def errors(self) -> int:
        """Trials that ended in an error."""
        return sum(
            count
            for lane in self.statuses.values()
            for status, count in lane.items()
            if status.is_error and status is not Status.CANCELLED
        )
