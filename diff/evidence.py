"""The facts that the rules of `diff.decide` test, the answer that they give, and the next command."""

from __future__ import annotations

import math
import shlex
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
    Verdict,
)
from replaydiff.diff.slices import BrokenPart
from replaydiff.diff.stopping import plan_of
from replaydiff.replay.model import Item, Lane, RunRecord, VersionKind
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


def show_item(evidence: Evidence) -> str:
    """Return the command that shows the first item of the list; without items, the report."""
    run = shlex.quote(evidence.run.id)
    if evidence.items:
        return f"replay show {shlex.quote(evidence.items[0].item.id)} --run {run}"
    return f"replay report {run}"


def show_recorded(evidence: Evidence, tool: str) -> str:
    """Return the command that shows the first item recorded with a call of a tool."""
    item = next(
        (verdict.item for verdict in evidence.items if tool in {call.name for call in verdict.item.tape}),
        None,
    )
    if item is None:
        return show_item(evidence)
    return f"replay show {shlex.quote(item.id)} --run {shlex.quote(evidence.run.id)}"


def show_cause(evidence: Evidence, cause: Cause | None) -> str:
    """Return the command that shows an item with the cause; the first item where none has it."""
    if cause is None or not cause.examples:
        return show_item(evidence)
    return f"replay show {shlex.quote(cause.examples[0].item)} --run {shlex.quote(evidence.run.id)}"


def after_ship(evidence: Evidence) -> str:
    """Return the command after SHIP: what got better becomes a case, so that it stays better."""
    run = shlex.quote(evidence.run.id)
    better = [i for i in evidence.items if i.verdict is Verdict.IMPROVED and i.item.case_id is None]
    if better:
        return (
            f"replay promote {' '.join(shlex.quote(i.item.id) for i in better[:5])} --run {run} --expect new"
        )
    return f"replay report {run} --format html -o report.html"


def with_control(evidence: Evidence) -> str:
    """Return the command that decides the same traces again, with the lane that shows chance."""
    run = evidence.run
    versions = [f"--old {shlex.quote(run.lanes[Lane.OLD].name)}"]
    versions += [f"--new {shlex.quote(version.name)}" for lane, version in run.lanes.items() if lane.is_new]
    sample = shlex.quote(run.sample or "")
    return f"replay run --mode step --sample {sample} {' '.join(versions)} --trials {run.trials} --aa"


def more_trials(evidence: Evidence) -> str:
    """Return the command for twice as many trials of the same items; present ones stay."""
    if _is_recorded(evidence.run):
        return show_item(evidence)
    return f"{_continued(evidence.run)} --trials {2 * evidence.run.trials}"


def more_items(evidence: Evidence, metric: MetricDelta) -> str:
    """Return the command that narrows an interval: more items while there are any, then trials."""
    run, sample = evidence.run, evidence.comparison.sample
    times = _times_needed(evidence, metric)
    if sample is not None and sample.size < sample.population:
        size = min(math.ceil(sample.size * times / 10) * 10, sample.population)
        return f"{_continued(run)} --size {size}"
    # Behaviour that never changed is bounded by the number of items, however often each is tried.
    if _is_recorded(run) or (metric.changed_ci is not None and not metric.changed):
        return f"replay report {shlex.quote(run.id)} --format html -o report.html"
    return f"{_continued(run)} --trials {math.ceil(run.trials * min(times, _MOST_TIMES))}"


_MOST_TIMES = 4.0
"""So many times as many trials, at most, as a run had are proposed for the next one."""
_STRICTER = 1.5
"""How many times as many items it takes at the level of a run that continues another one: (2.4/1.96)²."""
_LIKELY = 3.2
"""Standard errors between no change and the tolerance with which SHIP is likely: 2.4 at the level of a run
that continues another one, and 0.84 for a chance of 80 %."""


def _times_needed(evidence: Evidence, metric: MetricDelta) -> float:
    """Return how many times as many items make an answer likely: at least half as many again."""
    if metric.changed_ci is not None:
        half, limit, varies = metric.changed_ci[1], evidence.gate.max_changed, bool(metric.changed)
    elif metric.ci is None or metric.delta is None:
        return 2.0
    else:
        limit = evidence.gate.tolerance * metric.reach
        half, varies = metric.delta - metric.ci[0], bool(metric.se)
    ratio = half / max(limit, 1e-3)
    # An interval's width falls with the square root of the items; where nothing varies, with their number.
    times = ratio**2 * _STRICTER if varies else ratio * _STRICTER
    if varies and metric.se is not None and metric.changed_ci is None:
        times = (_LIKELY * metric.se / max(limit, 1e-3)) ** 2
    return min(10.0, max(1.5, times))


def _is_recorded(run: RunRecord) -> bool:
    return all(version.kind is VersionKind.OBSERVED for version in run.lanes.values())


def _continued(run: RunRecord) -> str:
    """Return the command that runs the run again with more, its trials kept and its error shared."""
    plan = plan_of(run)
    early = " --until-known" if plan is not None and (len(plan.looks) > 1 or not plan.earlier) else ""
    return f"replay compare --continue {shlex.quote(run.id)}{early}"
