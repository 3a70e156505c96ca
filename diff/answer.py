"""Decide SHIP, HOLD or CAN'T TELL, with a reason in one sentence and the next command.

Over the gated metrics (those named in `[gate]`, else all that may decide; an uncalibrated judge never may):

HOLD        a metric's interval lies wholly below 0 and its delta is below −tolerance (and, where several
            metrics decide, its p-value survives Holm over them); or more items regressed beyond the noise
            than `max_regressed` allows
SHIP        every metric's interval ends no lower than −tolerance, and no more items regressed beyond the
            noise than allowed
CAN'T TELL  else; where two metrics that decide contradict each other beyond doubt; and, before anything
            else, where the replay cannot be trusted (`diff.divergence`)

Agreement with recordings that nobody vouches for (`diff.behaviour`) decides only where nothing else may, and
holds nothing: SHIP where the share of items whose behaviour changed, beyond what the old version differs from
itself, is at most `max_changed` at the interval's upper end, else CAN'T TELL.

The interval covers the worst that trials without a score could have been (`diff.comparison`). Where nothing
was tried twice the noise of an item is unknown, so no item counts as regressed and the interval decides. With
a single lane (`replay check`) the share of items that meet their expectation is compared with `threshold`,
that of the items with a tag against the tag's own; items in quarantine do not count (`diff.expectations`).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from replaydiff.diff.behaviour import RECORDING
from replaydiff.diff.evidence import (
    Conclusion,
    Evidence,
    after_ship,
    calls_any_tool,
    differs_from_itself,
    is_worse,
    is_worse_than_repeat,
    more_items,
    more_trials,
    regressions_may_be_shocks,
    show_item,
    ungraded,
)
from replaydiff.diff.expectations import case_verdict, is_quarantined
from replaydiff.diff.graders import tool_calls
from replaydiff.diff.result import Answer, Cause, CauseState, ItemVerdict, Kind, MetricDelta, Verdict
from replaydiff.diff.statistics import noise
from replaydiff.diff.statistics.distributions import normal_cdf, normal_quantile
from replaydiff.diff.stopping import FUTILITY, LookLevels, chance_of_answer
from replaydiff.diff.verdicts import combine
from replaydiff.replay.model import GradeState, Lane, Mode, RunRecord, VersionKind

_GRAVEST = (Answer.HOLD, Answer.CANNOT_TELL, Answer.SHIP)
_NAMED = 2
"""Causes that a reason names."""
_CONTROL = "old is the control: the recorded model, called again"
_NO_CONTROL = "old is a recording, which always agrees with itself, and this run has no control lane"


def by_labels(metric: MetricDelta, look: LookLevels | None = None) -> MetricDelta:
    """Return a judge's figures as its labelled pairs correct them; every other metric as it is.

    The p-value is that of a normal estimate with the corrected interval. What trials without a score could
    have made of the judge's own change widens the interval. At a look both ends are moved to its levels, as
    those of a normal estimate.
    """
    if metric.labels is None:
        return metric
    delta, low, high = metric.labels.corrected
    half = (high - low) / 2
    z = abs(delta) / half * normal_quantile(0.975) if half else 0.0
    if look is not None:
        ship, hold = (normal_quantile(1 - level) / normal_quantile(0.975) for level in (look.ship, look.hold))
        low, high = max(-1.0, delta - ship * (delta - low)), min(1.0, delta + hold * (high - delta))
    if metric.bounds is not None and metric.delta is not None:
        low += min(0.0, metric.bounds[0] - metric.delta)
        high += max(0.0, metric.bounds[1] - metric.delta)
    planned = None if look is None else half / normal_quantile(0.975) * math.sqrt(look.part)
    return replace(
        metric,
        delta=delta,
        ci=(low, high),
        p=2 * normal_cdf(-z),
        se=half / normal_quantile(0.975),
        se_planned=planned,
    )


def decide(evidence: Evidence) -> Conclusion:
    """Apply the rule. A rejected cause is a regression, whatever the figures are; HOLD names its causes."""
    rejected = [cause for cause in evidence.causes if cause.state is CauseState.REJECTED]
    if rejected:
        return Conclusion(
            answer=Answer.HOLD,
            reason=f"{'a cause was' if len(rejected) == 1 else f'{len(rejected)} causes were'} rejected: "
            + "; ".join(f"{cause.text} ({cause.counts})" for cause in rejected[:_NAMED]),
            next=_next_of(rejected[0], evidence),
        )
    given = _decide(evidence)
    run = evidence.run
    if run.has_control:
        given = replace(given, reason=f"{given.reason}; {_CONTROL}")
    elif given.answer is Answer.HOLD and _is_recording_alone(run):
        return _cannot(f"{given.reason}, but {_NO_CONTROL}", more_trials(evidence))
    open_ = [cause for cause in evidence.causes if cause.state is CauseState.OPEN]
    if given.answer is Answer.HOLD and open_:
        named = "; ".join(cause.text for cause in open_[:_NAMED])
        return replace(given, reason=f"{given.reason}; new: {named}")
    return given


def _is_recording_alone(run: RunRecord) -> bool:
    """Whether decisions are compared with what was recorded, and nothing shows what chance does."""
    old = run.lanes.get(Lane.OLD)
    return (
        run.mode is Mode.STEP
        and old is not None
        and old.kind is VersionKind.OBSERVED
        and any(lane.is_new for lane in run.lanes)
    )


def _next_of(cause: Cause, evidence: Evidence) -> str:
    """Look at an item that shows the cause."""
    if not cause.examples:
        return show_item(evidence)
    return f"replay show {shlex.quote(cause.examples[0].item)} --run {shlex.quote(evidence.run.id)}"


def _decide(evidence: Evidence) -> Conclusion:
    if not evidence.counts.compared:
        return _nothing(evidence.run)
    if evidence.distrust:
        return _cannot(evidence.distrust, show_item(evidence))
    gated = {name: metric for name, metric in evidence.metrics.items() if metric.gated}
    if missing := [name for name in evidence.gate.metrics if name not in gated]:
        return _cannot(
            f"{_join(missing)} must decide, but {_why_not(evidence, missing[0])}", show_item(evidence)
        )
    if not gated:
        shown = next(iter(evidence.metrics), None)
        why = _why_not(evidence, shown) if shown else ungraded(evidence)
        return _cannot(f"no metric may decide: {why}", show_item(evidence))
    if hollow := _hollow(evidence, gated):
        return _cannot(hollow, show_item(evidence))
    if len(evidence.run.lanes) == 1:
        return _single_lane(evidence, gated)
    if all(metric.kind is Kind.AGREEMENT for metric in gated.values()):
        return _equivalence(evidence, gated)
    return _compare(evidence, gated)


def at_look(given: Conclusion, evidence: Evidence) -> Conclusion:
    """Return the answer with what a run that may stop early did: which look this is, and what was saved."""
    look, looks = evidence.comparison.look, evidence.run.looks
    if look is None:
        return given
    if not looks:
        return (
            Conclusion(
                answer=Answer.CANNOT_TELL,
                reason=f"{evidence.counts.compared} of {look.planned} items have finished, and the first "
                f"look is after {look.items}",
                next=f"replay run --resume {shlex.quote(evidence.run.id)}",
            )
            if evidence.counts.compared < look.items
            else given
        )
    total = evidence.counts.total
    where = f"look {look.number} of {look.of} after {look.items} of {total} items"
    if looks[-1].stopped and look.items < total:
        why = " because neither answer is likely with the rest" if looks[-1].stopped == FUTILITY else ""
        return replace(given, reason=f"{given.reason}; stopped at {where}{why}: {1 - look.items / total:.0%} "
                       "of the calls saved")  # fmt: skip
    if look.items < total:
        return replace(given, reason=f"{given.reason}; {where}")
    return given


def chance(evidence: Evidence) -> float | None:
    """Return how likely SHIP or HOLD is by the last look of a run that may stop early; None where unknown."""
    look = evidence.comparison.look
    if look is None or not evidence.comparison.has_both_lanes:
        return None
    gated = {name: metric for name, metric in evidence.metrics.items() if metric.gated}
    return chance_of_answer(gated, look, evidence.gate) if gated else None


def _hollow(evidence: Evidence, gated: Mapping[str, MetricDelta]) -> str | None:
    """Why the figures say nothing, whatever they are; None where they may say something."""
    versions = list(evidence.run.lanes.values())
    sampled = all(item.item.case_id is None for item in evidence.items)
    own = sampled and set(gated) <= {tool_calls.NAME, RECORDING}
    if all(version.kind is VersionKind.OBSERVED for version in versions):
        if len(versions) > 1 and len({version.condition for version in versions}) == 1:
            return "both versions are the same recordings; name other traces with observed:CONDITION"
        if len(versions) == 1 and own:
            return "a recording was compared with itself; name a version to replay, or a golden set"
    if own and not calls_any_tool(evidence):
        return (
            "no item has a tool call, recorded or replayed, so agreement with production's tool calls shows "
            "nothing; name what decides: a grader, a judge, a golden set"
        )
    if unscored := next((name for name, metric in gated.items() if not metric.n), None):
        return f"{unscored} must decide, but scored no item{_failure(unscored, evidence)}"
    return None


def _failure(name: str, evidence: Evidence) -> str:
    """What the grader reported where it failed."""
    for item in evidence.items:
        for done in item.lanes.values():
            for trial in done:
                grade = trial.grades.get(name)
                if grade is not None and grade.state is GradeState.ERROR and grade.reason:
                    return f": {grade.reason}"
    return ""


def _nothing(run: RunRecord) -> Conclusion:
    """No item has all its lanes."""
    if any(version.kind is VersionKind.OBSERVED for version in run.lanes.values()):
        return _cannot(
            "no item has a trace in every lane; look at the lanes' conditions and --pair-by", "replay traces"
        )
    return _cannot(
        "no item has finished trials in every lane",
        f"replay report {shlex.quote(run.id)}" if run.finished_at else "replay run --resume",
    )


def _compare(evidence: Evidence, gated: Mapping[str, MetricDelta]) -> Conclusion:
    gate = evidence.gate
    look = evidence.comparison.look
    error = 1 - evidence.comparison.confidence if look is None else 2 * look.hold
    beyond = _beyond_chance(gated, error)
    if contradiction := _contradiction(gated, beyond, evidence):
        return _cannot(contradiction, show_item(evidence))
    for name, metric in gated.items():
        if name not in beyond or metric.ci is None or metric.delta is None:
            continue
        if is_worse(metric, gate.tolerance) and is_worse_than_repeat(metric, gate.tolerance):
            reason = f"{_figures(name, metric, evidence)}: worse by more than {gate.tolerance:g}"
            return Conclusion(answer=Answer.HOLD, reason=reason, next=show_item(evidence))
    certain = [
        name
        for name, metric in gated.items()
        if name not in evidence.unknown_noise and not regressions_may_be_shocks(name, metric, evidence)
    ]
    fell = _with_verdict(evidence.items, certain, Verdict.REGRESSED)
    rose = _with_verdict(evidence.items, certain, Verdict.IMPROVED)
    allowed = gate.allowed_regressions(evidence.counts.compared)
    # Before the last look it takes more than all the planned items may have.
    if len(fell) > (allowed if look is None else gate.allowed_regressions(look.planned)):
        return Conclusion(
            answer=Answer.HOLD, reason=_too_many(fell, rose, allowed, evidence), next=show_item(evidence)
        )
    for name, metric in gated.items():
        if metric.ci is None or metric.delta is None:
            return _cannot(_too_few(name, metric), show_item(evidence))
        if metric.ci[0] < -gate.tolerance:
            return _loss_not_excluded(name, metric, evidence)
    if len(fell) > allowed:
        return _cannot(_too_many(fell, rose, allowed, evidence), show_item(evidence))
    figures = "; ".join(_figures(name, metric, evidence) for name, metric in gated.items())
    unknown = _with_verdict(evidence.items, [*gated.keys() - {*certain}], Verdict.REGRESSED)
    reason = f"{figures}; {_balance(fell, rose, unknown)}{_elsewhere(evidence)}"
    return Conclusion(answer=Answer.SHIP, reason=reason, next=after_ship(evidence))


def _contradiction(
    gated: Mapping[str, MetricDelta], beyond: Collection[str], evidence: Evidence
) -> str | None:
    """A metric that got worse and one that got better, each beyond doubt; None where there are no two."""
    sure = {name: metric for name, metric in gated.items() if name in beyond and metric.ci is not None}
    worse = [name for name, metric in sure.items() if metric.ci and metric.ci[1] < 0]
    better = [name for name, metric in sure.items() if metric.ci and metric.ci[0] > 0]
    if not worse or not better:
        return None
    return (
        f"metrics contradict each other: {_figures(worse[0], gated[worse[0]], evidence)}, and "
        f"{_figures(better[0], gated[better[0]], evidence)}; choose which decides with [gate] metrics"
    )


def _too_few(name: str, metric: MetricDelta) -> str:
    """Why a metric has no interval."""
    if metric.n < 2:
        return f"{name} has fewer than two items with a score in both lanes"
    return (
        f"the {metric.n} items of {name} share one session, task or input, so they count as one; sample "
        "others as well"
    )


def _equivalence(evidence: Evidence, gated: Mapping[str, MetricDelta]) -> Conclusion:
    """Decide whether the versions behave alike, if no reference is known to be right."""
    most, sentences = evidence.gate.max_changed, []
    for name, metric in gated.items():
        if metric.changed_share is None or metric.changed_ci is None:
            return _cannot(_too_few(name, metric), show_item(evidence))
        high = metric.changed_ci[1]
        if high > most:
            return _changed(name, metric, evidence)
        sentences.append(
            f"{_figures(name, metric, evidence)}: behaviour changed in {metric.changed} of "
            f"{_items(metric.n)}, at most {high:.0%} of them beyond the old version's difference from itself "
            f"({most:.0%} may)"
        )
    return Conclusion(answer=Answer.SHIP, reason="; ".join(sentences), next=after_ship(evidence))


def _changed(name: str, metric: MetricDelta, evidence: Evidence) -> Conclusion:
    """CAN'T TELL: behaviour changed, or too few items show that it did not."""
    most = evidence.gate.max_changed
    if not metric.changed:
        return _cannot(
            f"behaviour changed in none of {_items(metric.n)}, and a change in more than {most:.0%} cannot "
            f"be excluded ({_figures(name, metric, evidence)})",
            more_items(evidence, metric),
        )
    open_ = [cause for cause in evidence.causes if cause.state is CauseState.OPEN]
    moved = (
        f"{metric.regressed} moved away from the recording, {metric.improved} towards it, and nothing says "
        "which is right"
    )
    changed = f"behaviour changed in {metric.changed} of {metric.n}"
    if open_:
        causes = f"{len(open_)} cause{'' if len(open_) == 1 else 's'}"
        # Triage asks for each cause; a command that accepted one would answer in the user's favour.
        review = f"replay triage {shlex.quote(evidence.run.id)}"
        return _cannot(f"{changed}: accept or reject {causes} ({moved})", review)
    return _cannot(
        f"{changed} and no cause is shared by several items: {moved}; look at them, or name what does: "
        "[match] trust, a grader, a judge, a golden set",
        show_item(evidence),
    )


def _too_many(
    fell: Sequence[ItemVerdict], rose: Sequence[ItemVerdict], allowed: int, evidence: Evidence
) -> str:
    """More items regressed than may, and whether as many improved."""
    if len(fell) == len(rose):
        return (
            f"no net change: {len(rose)} better, {len(fell)} worse ({_names(fell)}), and "
            f"{allowed or 'none'} may regress ([gate] max_regressed = {evidence.gate.max_regressed!r})"
        )
    return f"{_items(len(fell))} regressed beyond the noise ({_names(fell)}), and {allowed or 'none'} may"


def _balance(fell: Sequence[ItemVerdict], rose: Sequence[ItemVerdict], unknown: Sequence[ItemVerdict]) -> str:
    """How many items moved; `unknown` scored lower where the noise of a trial is not known."""
    if unknown and not fell:
        return f"{_items(len(unknown))} scored lower in a single trial, which may be noise"
    if not fell:
        return "no item regressed"
    if len(fell) == len(rose):
        return f"no net change: {len(rose)} better, {len(fell)} worse"
    return f"{_items(len(fell))} regressed"


def _loss_not_excluded(name: str, metric: MetricDelta, evidence: Evidence) -> Conclusion:
    """CAN'T TELL, and whether it is trials without a score that leave it open."""
    tolerance = evidence.gate.tolerance
    if metric.delta is not None and metric.bounds and metric.delta - metric.bounds[0] > tolerance:
        return _cannot(
            f"trials without a score leave {name} anywhere from {metric.bounds[0]:+.2f} to "
            f"{metric.bounds[1]:+.2f} (headline {metric.delta:+.2f})",
            show_item(evidence),
        )
    repeat = metric.aa
    worse = is_worse(metric, tolerance)
    if repeat is not None and repeat.delta and (worse or differs_from_itself(metric, evidence)):
        chance = f", p {repeat.p:.2g}" if repeat.p is not None else ""
        shows = "prove" if worse else "exclude"
        return _cannot(
            f"the old version differs from itself: {name} changed by {repeat.delta:+.2f} between its two "
            f"lanes{chance}, so {_figures(name, metric, evidence)} does not {shows} a "
            f"loss of more than {tolerance:g}",
            more_trials(evidence),
        )
    open_ = f"{_figures(name, metric, evidence)}: a loss of more than {tolerance:g} cannot be excluded"
    if metric.ci and metric.delta is not None and metric.bounds:
        hidden = metric.delta - metric.bounds[0]
        if hidden and metric.ci[0] + hidden >= -tolerance:
            return _cannot(f"{open_}, since trials without a score may hide it", show_item(evidence))
    return _cannot(open_, more_items(evidence, metric))


def _beyond_chance(gated: Mapping[str, MetricDelta], error: float) -> set[str]:
    """The metrics whose change is not what one of several shows by chance.

    Where one decides, its interval tells. Where several do, one of their intervals leaves out 0 more often by
    chance: the change must also survive Holm over those on which anything changed.
    """
    changed = {
        name: metric.p
        for name, metric in gated.items()
        if metric.p is not None and (metric.se or metric.delta)
    }
    if len(changed) < 2:
        return set(gated)
    corrected = noise.holm([*changed.values()])
    return {name for name, p in zip(changed, corrected, strict=True) if p <= error}


def _elsewhere(evidence: Evidence) -> str:
    """Regressions on metrics that do not decide, so that SHIP never hides them."""
    others = [
        f"{name}, which does not decide, counts "
        + (f"{metric.changed} changed" if metric.kind is Kind.AGREEMENT else f"{metric.regressed}")
        for name, metric in evidence.metrics.items()
        if (metric.changed if metric.kind is Kind.AGREEMENT else metric.regressed) and not metric.gated
    ]
    return f" ({'; '.join(others)})" if others else ""


def _single_lane(evidence: Evidence, gated: Mapping[str, MetricDelta]) -> Conclusion:
    ended = [
        (item, case_verdict(item, names, evidence.cases.case_threshold))
        for item in evidence.items
        if not is_quarantined(item.item) and (names := [name for name in item.metrics if name in gated])
    ]
    left = evidence.left
    parts = [_share_passed("items", [verdict for _, verdict in ended], evidence.cases.threshold, len(left))]
    for tag, threshold in sorted(evidence.cases.thresholds.items()):
        tagged = [verdict for item, verdict in ended if tag in item.item.tags]
        more = sum(tag in item.tags for item in left)
        if tagged or more:
            parts.append(_share_passed(f"items with the tag {tag}", tagged, threshold, more))
    answer, reason = min(parts, key=lambda part: _GRAVEST.index(part[0]))
    return Conclusion(answer=answer, reason=reason, next=show_item(evidence))


def _share_passed(
    what: str, verdicts: Sequence[Verdict], threshold: float, left: int = 0
) -> tuple[Answer, str]:
    """Whether enough of these items passed, and the sentence for it; `left` are still to be replayed."""
    total, passed = len(verdicts) + left, verdicts.count(Verdict.UNCHANGED)
    unclear = verdicts.count(Verdict.INCONCLUSIVE) + left
    share, must = f"{passed} of {total} {what} passed", f"{threshold:.0%}"
    if total and passed / total >= threshold:
        return Answer.SHIP, f"{share}, and {must} must"
    if total and (passed + unclear) / total < threshold:
        return Answer.HOLD, f"{share}, and {must} must"
    return Answer.CANNOT_TELL, f"{share} and {_items(unclear)} could be either, where {must} must pass"


def _cannot(reason: str, next_: str) -> Conclusion:
    return Conclusion(answer=Answer.CANNOT_TELL, reason=reason, next=next_)


def _with_verdict(
    items: Iterable[ItemVerdict], metrics: Sequence[str], verdict: Verdict
) -> list[ItemVerdict]:
    """Items that have this verdict on these metrics together."""
    return [
        item
        for item in items
        if combine(item.metrics[name].verdict for name in metrics if name in item.metrics) is verdict
    ]


def _why_not(evidence: Evidence, name: str) -> str:
    metric = evidence.metrics.get(name)
    if metric is None:
        return f"{name} has no grades in this run"
    return f"{name} is uncalibrated, so its figures do not gate"


def _figures(name: str, metric: MetricDelta, evidence: Evidence) -> str:
    if metric.delta is None or metric.old is None or metric.new is None:
        return f"{name} has no figure"
    if metric.kind is Kind.AGREEMENT:
        shares = f"{metric.old:.0%} → {metric.new:.0%}"
        return f"agrees with production's tool calls in {shares} on {_items(metric.n)}"
    text = f"{name} {metric.old:.2f} → {metric.new:.2f} on {_items(metric.n)}"
    if metric.ci is None:
        return text
    low, high = metric.ci
    several = "simultaneous " if evidence.comparison.candidates > 1 else ""
    looks = "" if evidence.comparison.look is None else ", adjusted for looks,"
    return f"{text} ({several}{evidence.gate.confidence:.0%} interval{looks} {low:+.2f} to {high:+.2f})"


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


def _names(items: Sequence[ItemVerdict]) -> str:
    shown = ", ".join(item.item.label for item in items[:3])
    return shown + (", …" if len(items) > 3 else "")


def _join(names: Sequence[str]) -> str:
    return " and ".join(names)
