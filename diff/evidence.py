"""The facts that the rules of `diff.decide` test, the answer that they give, and the next command."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from replaydiff.diff.comparison import Comparison
from replaydiff.diff.expectations import is_quarantined
from replaydiff.diff.result import (
    Answer,
    Cause,
    CauseState,
    Counts,
    ItemVerdict,
    MetricDelta,
    Slice,
    Verdict,
)
from replaydiff.diff.slices import BrokenPart
from replaydiff.diff.stopping import plan_of
from replaydiff.replay.model import Item, Lane, Mode, RunRecord, VersionKind
from replaydiff.replay.settings import CasesSection, GateSection

_ENOUGH_TRIALS = 3


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

    @cached_property
    def gated(self) -> Mapping[str, MetricDelta]:
        """The metrics that decide, by name."""
        return {name: metric for name, metric in self.metrics.items() if metric.gated}

    @property
    def open_causes(self) -> list[Cause]:
        """The causes on which nobody decided yet."""
        return [cause for cause in self.causes if cause.state is CauseState.OPEN]

    @property
    def harmed(self) -> list[Slice]:
        """The slices that are significantly worse and that nobody accepted."""
        return [cause.part for cause in self.open_causes if cause.part is not None]

    @property
    def left(self) -> list[Item]:
        """At a look: the items that were not seen, those in quarantine aside."""
        if self.comparison.look is None:
            return []
        return [item for item in self.comparison.read.waiting if not is_quarantined(item)]

    @property
    def run(self) -> RunRecord:
        """The run that is answered for."""
        return self.comparison.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The answer."""

    answer: Answer
    reason: str
    """One sentence."""
    next: str
    """The next command to type."""
    rule: str
    """The name of the rule that gave it."""


def ungraded(evidence: Evidence) -> str:
    """Which lanes have no grade of any metric."""
    graded = {
        lane
        for item in evidence.items
        for lane, done in item.lanes.items()
        if any(one.grades for one in done)
    }
    missing = [str(lane) for lane in evidence.run.lanes if lane not in graded]
    return (
        f"nothing was graded in lane {' and '.join(missing)}" if graded and missing else "nothing was graded"
    )


def calls_any_tool(evidence: Evidence) -> bool:
    """Whether any item was recorded with a tool call, or any of its trials makes one."""
    return any(
        item.item.tape or any(one.trial.served for done in item.lanes.values() for one in done)
        for item in evidence.items
    )


def show_item(evidence: Evidence) -> str:
    """Look at the first item of the list; without any, at the report."""
    run = shlex.quote(evidence.run.id)
    if evidence.items:
        return f"replay show {shlex.quote(evidence.items[0].item.id)} --run {run}"
    return f"replay report {run}"


def show_cause(evidence: Evidence, cause: Cause | None) -> str:
    """Look at an item that shows the cause; at the first item where none does."""
    if cause is None or not cause.examples:
        return show_item(evidence)
    return f"replay show {shlex.quote(cause.examples[0].item)} --run {shlex.quote(evidence.run.id)}"


def after_ship(evidence: Evidence) -> str:
    """After SHIP: what got better becomes a case, so that it stays better."""
    run = shlex.quote(evidence.run.id)
    better = [i for i in evidence.items if i.verdict is Verdict.IMPROVED and i.item.case_id is None]
    if better:
        return (
            f"replay promote {' '.join(shlex.quote(i.item.id) for i in better[:5])} --run {run} --expect new"
        )
    return f"replay report {run} --format html -o report.html"


def more_trials(evidence: Evidence) -> str:
    """The same items again, with enough trials to know the noise."""
    run = evidence.run
    source = (
        f"--sample {shlex.quote(run.sample)}"
        if run.sample
        else f"--cases {shlex.quote(run.golden_path or '')}"
    )
    steps = run.mode is Mode.STEP
    names = {}
    for lane, placeholder in ((Lane.OLD, "OLD"), (Lane.NEW, "NEW")):
        version = run.lanes.get(lane)
        # A recording cannot be repeated: only a version that runs can have more trials.
        fixed = version is None or (version.kind is VersionKind.OBSERVED and not steps)
        names[lane] = placeholder if fixed or version is None else shlex.quote(version.name)
    trials = max(_ENOUGH_TRIALS, run.trials * 2 if run.trials >= _ENOUGH_TRIALS else 0)
    versions = f"--old {names[Lane.OLD]} --new {names[Lane.NEW]}"
    mode = " --mode step" if steps else ""
    return f"replay run{mode} {source} {versions} --trials {trials} --aa{_continued(run)}"


def _continued(run: RunRecord) -> str:
    """What makes the next run spend the error that this one left."""
    return "" if plan_of(run) is None else f" --until-known --continue {shlex.quote(run.id)}"


def more_items(evidence: Evidence, metric: MetricDelta) -> str:
    """What narrows an interval: trials while they are few and can be repeated, then items."""
    run, sample = evidence.run, evidence.comparison.sample
    recorded = all(version.kind is VersionKind.OBSERVED for version in run.lanes.values())
    few = run.trials < _ENOUGH_TRIALS and not recorded
    if few or sample is None or metric.ci is None:
        return more_trials(evidence)
    ends, allowed = metric.ci, evidence.gate.tolerance
    if metric.changed_ci is not None:
        ends, allowed = metric.changed_ci, evidence.gate.max_changed
    half = (ends[1] - ends[0]) / 2
    # An interval's width falls with the square root of the items; where none changed, a little faster than
    # with their number.
    alike = not (metric.changed if metric.changed_ci is not None else metric.se)
    needed = evidence.counts.compared * (half / max(allowed, 1e-3)) ** (1 if alike else 2)
    size = min(math.ceil(needed / 10 + alike) * 10, sample.population)
    if size <= sample.size:
        return more_trials(evidence)
    month = f" {sample.month}" if sample.month else ""
    by = "".join(f" --by {shlex.quote(field)}" for field in sample.by)
    where = f" --where {shlex.quote(sample.where)}" if sample.where else ""
    name = shlex.quote(f"{sample.name}-{size}")
    drawn = f"--month{month}{where}{by} --seed {sample.seed} --size {size} --name {name}"
    if not {Lane.OLD, Lane.NEW} <= run.lanes.keys() or (plan_of(run) is None and not recorded):
        return f"replay sample {drawn}"
    old, new = (shlex.quote(run.lanes[lane].name) for lane in (Lane.OLD, Lane.NEW))
    return f"replay compare {drawn} --old {old} --new {new}{_repeats(run, recorded)}{_continued(run)}"


def _repeats(run: RunRecord, recorded: bool) -> str:
    """How a run repeats its versions, or pairs recordings, which it cannot repeat."""
    if not recorded:
        return f" --trials {run.trials} {'--aa' if Lane.OLD2 in run.lanes else '--no-aa'}"
    field = run.settings.get("pair_by")
    return f" --pair-by {shlex.quote(field)}" if isinstance(field, str) else ""
