"""The commands that an answer proposes to type next, each of which can be run as it stands."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from replaydiff.diff.evidence import Evidence
from replaydiff.diff.graders.base import JUDGE
from replaydiff.diff.result import Cause, MetricDelta, Verdict
from replaydiff.diff.stopping import plan_of
from replaydiff.replay.model import Lane, RunRecord, VersionKind


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What made a rule apply."""

    words: Mapping[str, str] = field(default_factory=dict)
    """What the rule's sentence names in braces."""
    metric: MetricDelta | None = None
    """The metric that the next command is about."""
    cause: Cause | None = None
    """The cause that the next command is about."""


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command to type after an answer."""

    of: Callable[[Evidence, RuleMatch], str]
    """Returns the command of a run."""
    forms: tuple[str, ...]
    """How the documentation shows what it can be: `replay show ITEM --run RUN`."""


def _command(*forms: str) -> Callable[[Callable[[Evidence, RuleMatch], str]], NextCommand]:
    return lambda function: NextCommand(function, forms)


def _run_id(evidence: Evidence) -> str:
    return shlex.quote(evidence.run.id)


def _show(evidence: Evidence, item: str | None) -> str:
    """Return the command that shows an item, else the first of the list; without items, the report."""
    if item is None and evidence.items:
        item = evidence.items[0].item.id
    if item is None:
        return f"replay report {_run_id(evidence)}"
    return f"replay show {shlex.quote(item)} --run {_run_id(evidence)}"


@_command("replay show ITEM --run RUN")
def show_item(evidence: Evidence, _: RuleMatch) -> str:
    """Show the first item of the list."""
    return _show(evidence, None)


@_command("replay show ITEM --run RUN")
def show_cause(evidence: Evidence, match: RuleMatch) -> str:
    """Show an item with the cause."""
    examples = match.cause.examples if match.cause else ()
    return _show(evidence, examples[0].item if examples else None)


@_command("replay show ITEM --run RUN")
def show_recorded(evidence: Evidence, match: RuleMatch) -> str:
    """Show the first item that was recorded with a call of the tool."""
    tool = match.words["tool"]
    items = (item.item for item in evidence.items if tool in {call.name for call in item.item.tape})
    return _show(evidence, next((item.id for item in items), None))


@_command("replay run --mode step … --aa")
def run_control(evidence: Evidence, _: RuleMatch) -> str:
    """Decide the same traces again, with the lane that shows chance."""
    return f"replay run --mode step {_sample_and_versions(evidence.run)} --trials {evidence.run.trials} --aa"


def _sample_and_versions(run: RunRecord) -> str:
    versions = [f"--old {shlex.quote(run.lanes[Lane.OLD].name)}"]
    versions += [f"--new {shlex.quote(version.name)}" for lane, version in run.lanes.items() if lane.is_new]
    return f"--sample {shlex.quote(run.sample or '')} {' '.join(versions)}"


@_command("replay compare --continue RUN --trials K")
def more_trials(evidence: Evidence, _: RuleMatch) -> str:
    """Run twice as many trials of the same items; present ones stay."""
    if _is_all_recorded(evidence.run):
        return _show(evidence, None)
    return f"{_continued(evidence.run)} --trials {2 * evidence.run.trials}"


@_command(
    "replay run --sample SAMPLE …",
    "replay compare --continue RUN --size N",
    "replay compare --continue RUN --trials K",
)
def more_items(evidence: Evidence, match: RuleMatch) -> str:
    """Narrow an interval: more items while there are any, then trials."""
    run, sample, metric = evidence.run, evidence.comparison.sample, match.metric
    assert metric is not None  # noqa: S101 - a rule with this command names its metric
    times = _times_needed(evidence, metric)
    drawn = 0 if sample is None else min(sample.size, sample.population)
    present = evidence.counts.total + evidence.comparison.merged
    if present < drawn and plan_of(run) is None and not _is_all_recorded(run):
        # Begun with a few calls, to see whether replays work.
        return f"replay run {_sample_and_versions(run)}"
    if sample is not None and sample.size < sample.population:
        size = min(math.ceil(sample.size * times / 10) * 10, sample.population)
        return f"{_continued(run)} --size {size}"
    # Behaviour that never changed is bounded by the number of items, however often each is tried.
    if _is_all_recorded(run) or (metric.changed_ci is not None and not metric.changed):
        return f"replay report {_run_id(evidence)} --format html -o report.html"
    return f"{_continued(run)} --trials {math.ceil(run.trials * min(times, _MOST_TIMES))}"


@_command("replay run --resume RUN")
def resume(evidence: Evidence, _: RuleMatch) -> str:
    """Continue the run."""
    return f"replay run --resume {_run_id(evidence)}"


@_command("replay run --resume", "replay report RUN")
def resume_unfinished(evidence: Evidence, _: RuleMatch) -> str:
    """Continue the run; of one that has finished, show the report."""
    return f"replay report {_run_id(evidence)}" if evidence.run.finished_at else "replay run --resume"


@_command("replay traces")
def list_traces(_: Evidence, __: RuleMatch) -> str:
    """List the traces."""
    return "replay traces"


@_command("replay triage RUN")
def triage(evidence: Evidence, _: RuleMatch) -> str:
    """Go through causes and items."""
    return f"replay triage {_run_id(evidence)}"


@_command("replay calibrate RUN --label", "replay show ITEM --run RUN")
def label(evidence: Evidence, _: RuleMatch) -> str:
    """Label answers of the run; what a model elsewhere scored is labelled elsewhere."""
    if JUDGE in evidence.metrics:
        return f"replay calibrate {_run_id(evidence)} --label"
    return _show(evidence, None)


@_command("replay promote ITEM … --expect new", "replay report RUN")
def keep_improved(evidence: Evidence, _: RuleMatch) -> str:
    """Make cases of what got better, so that it stays better."""
    better = [i.item for i in evidence.items if i.verdict is Verdict.IMPROVED and i.item.case_id is None]
    if better:
        ids = " ".join(shlex.quote(item.id) for item in better[:5])
        return f"replay promote {ids} --run {_run_id(evidence)} --expect new"
    return f"replay report {_run_id(evidence)} --format html -o report.html"


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


def _is_all_recorded(run: RunRecord) -> bool:
    return all(version.kind is VersionKind.OBSERVED for version in run.lanes.values())


def _continued(run: RunRecord) -> str:
    """Return the command that runs the run again with more, its trials kept and its error shared."""
    plan = plan_of(run)
    early = " --until-known" if plan is not None and (len(plan.looks) > 1 or not plan.earlier) else ""
    return f"replay compare --continue {shlex.quote(run.id)}{early}"
