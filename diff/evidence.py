"""The facts that the rules of `diff.decide` test, and the answer that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from replaydiff.diff.behaviour import RecordingRules
from replaydiff.diff.comparison import Comparison
from replaydiff.diff.divergence import UnrequestedWrite
from replaydiff.diff.expectations import is_quarantined
from replaydiff.diff.result import (
    Answer,
    Cause,
    CauseState,
    Counts,
    ItemVerdict,
    Likeness,
    MetricDelta,
    Slice,
)
from replaydiff.diff.slices import BrokenPart
from replaydiff.replay.model import Item, RunRecord
from replaydiff.replay.settings import CasesSection, GateSection


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that the rules test."""

    comparison: Comparison
    metrics: Mapping[str, MetricDelta]
    unknown_noise: frozenset[str]
    """Metrics on which nothing was tried twice."""
    items: Sequence[ItemVerdict]
    """In the order in which a person should look at them."""
    counts: Counts
    distrust: str | None
    gate: GateSection
    cases: CasesSection
    """What must pass where there is one lane."""
    causes: Sequence[Cause] = ()
    """What the new version does otherwise, and the slices that are worse."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Metrics that may not decide, whatever the settings say, each with the reason in a clause."""
    judges: frozenset[str] = frozenset()
    """Metrics that a judge's votes make."""
    broken: Sequence[BrokenPart] = ()
    """Slices that are too rare to be tested and whose every item fails now."""
    likeness: Likeness | None = None
    """How alike answers are that nothing grades; None where all are graded."""
    agreement: RecordingRules | None = None
    """How trials are compared with recordings; None where nobody asked."""
    unrequested: Sequence[UnrequestedWrite] = ()
    """Recorded tools that write and that no trial of a lane asked for."""

    @cached_property
    def gated(self) -> Mapping[str, MetricDelta]:
        """Return the metrics that decide, by name."""
        return {name: metric for name, metric in self.metrics.items() if metric.gated}

    def tolerance(self, name: str) -> float:
        """Return the largest acceptable loss of a metric, in its own unit."""
        return self.gate.tolerance * self.metrics[name].reach

    @property
    def open_causes(self) -> list[Cause]:
        """Return the causes on which nobody decided yet."""
        return [cause for cause in self.causes if cause.state is CauseState.OPEN]

    @property
    def harmed(self) -> list[Slice]:
        """Return the slices that are significantly worse and that nobody accepted."""
        return [cause.part for cause in self.open_causes if cause.part is not None]

    @property
    def unexplained_writes(self) -> list[UnrequestedWrite]:
        """Return the writes that no trial of a lane asked for, without those accepted as a cause."""
        accepted = {
            cause.tools[0] for cause in self.causes if cause.state is CauseState.ACCEPTED and cause.tools
        }
        return [write for write in self.unrequested if not (write.lane.is_new and write.tool in accepted)]

    @property
    def left(self) -> list[Item]:
        """Return, at a look, the items that were not seen, without those in quarantine."""
        if self.comparison.look is None:
            return []
        return [item for item in self.comparison.read.waiting if not is_quarantined(item)]

    @property
    def run(self) -> RunRecord:
        """Return the run that is answered for."""
        return self.comparison.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The answer."""

    answer: Answer
    reason: str
    """One sentence."""
    next: str
    """The next command to type."""


def ungraded(evidence: Evidence) -> str:
    """Return which lanes have no grade of any metric."""
    graded = {
        lane
        for item in evidence.items
        for lane, trials in item.lanes.items()
        if any(trial.grades for trial in trials)
    }
    missing = [str(lane) for lane in evidence.run.lanes if lane not in graded]
    return (
        f"nothing was graded in lane {' and '.join(missing)}" if graded and missing else "nothing was graded"
    )


def calls_any_tool(evidence: Evidence) -> bool:
    """Return whether any item was recorded with a tool call, or any of its trials makes one."""
    return any(
        item.item.tape or any(trial.trial.served for trials in item.lanes.values() for trial in trials)
        for item in evidence.items
    )
