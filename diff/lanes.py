"""What one lane did over the run: how its trials ended, what they cost, how long they took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from replaydiff.diff.result import LaneSummary
from replaydiff.diff.validity import Witness
from replaydiff.replay.model import Status, Trial, Version, VersionKind


@dataclass(slots=True)
class LaneTally:
    """Sums over every trial of a lane, those of unfinished items included: they were paid for."""

    trials: int = 0
    errors: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    latencies: list[float] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None

    def add(self, trial: Trial) -> None:
        """Count one trial."""
        self.trials += 1
        self.statuses[trial.status.value] += 1
        if trial.status.is_error and trial.status is not Status.CANCELLED:
            self.errors += 1
        if trial.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + trial.cost_usd
        if trial.latency_ms is not None and trial.status is Status.OK:
            self.latencies.append(trial.latency_ms)
        if trial.usage is not None:
            self.input_tokens = (self.input_tokens or 0) + trial.usage.input_tokens
            self.output_tokens = (self.output_tokens or 0) + trial.usage.output_tokens

    def summary(self, version: Version, witness: Witness) -> LaneSummary:
        """The lane as reports show it; latencies are of trials that ended `ok`.

        A recording is not a replay: an observed lane has no fidelity and agrees with nothing.
        """
        replayed = version.kind is not VersionKind.OBSERVED
        p50, p95 = (None, None)
        if self.latencies:
            p50, p95 = (float(value) for value in np.quantile(self.latencies, [0.5, 0.95]))
        return LaneSummary(
            version=msgspec.to_builtins(replace(version, env={}), str_keys=True),
            trials=self.trials,
            fidelity=witness.fidelity if replayed else None,
            statuses=dict(sorted(self.statuses.items())),
            cost_usd=self.cost_usd,
            latency_p50_ms=p50,
            latency_p95_ms=p95,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            agreement=witness.agreement if replayed else None,
            diverged=witness.diverged_share if replayed else None,
            misses=witness.missed,
        )
