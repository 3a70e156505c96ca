"""The words that the sentences of the rules in `diff.decide` name: figures, items, reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from replaydiff.diff.evidence import Conclusion, Evidence
from replaydiff.diff.result import ItemVerdict, Kind, Likeness, MetricDelta
from replaydiff.diff.statistics.distributions import normal_cdf, normal_quantile
from replaydiff.diff.stopping import FUTILITY, LookLevels, chance_of_answer
from replaydiff.replay.model import GradeState, Lane
from replaydiff.replay.terminal.text import listed


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


def at_look(conclusion: Conclusion, evidence: Evidence) -> Conclusion:
    """Return the answer of a run that may stop early with which look this is, and what was saved."""
    look, looks = evidence.comparison.look, evidence.run.looks
    if look is None or not looks:
        return conclusion
    total = evidence.counts.total
    where = f"look {look.number} of {look.of} after {look.items} of {total} items"
    if looks[-1].stopped and look.items < total:
        why = " because neither answer is likely with the rest" if looks[-1].stopped == FUTILITY else ""
        return replace(conclusion, reason=f"{conclusion.reason}; stopped at {where}{why}: "
                       f"{1 - look.items / total:.0%} of the calls saved")  # fmt: skip
    if look.items < total:
        return replace(conclusion, reason=f"{conclusion.reason}; {where}")
    return conclusion


def chance(evidence: Evidence) -> float | None:
    """Return how likely SHIP or HOLD is by the last look of a run that may stop early; None where unknown."""
    look = evidence.comparison.look
    if look is None or not evidence.comparison.has_both_lanes:
        return None
    return chance_of_answer(evidence.gated, look, evidence.gate) if evidence.gated else None


def figures(name: str, metric: MetricDelta, evidence: Evidence) -> str:
    if metric.delta is None or metric.old is None or metric.new is None:
        return f"{name} has no figure"
    if metric.kind is Kind.AGREEMENT:
        shares = f"{metric.old:.0%} → {metric.new:.0%}"
        if metric.effects:
            what = f"does what production did ({listed(metric.effects)})"
        else:
            what = "agrees with production's tool calls"
        return f"{what} in {shares} on {observations(metric, evidence)}"
    text = f"{name} {metric.old:.2f} → {metric.new:.2f} on {observations(metric, evidence)}"
    if metric.ci is None:
        return text
    low, high = metric.ci
    several = "simultaneous " if evidence.comparison.candidates > 1 else ""
    looks = "" if evidence.comparison.look is None else ", adjusted for looks,"
    interval = f"{several}{evidence.gate.confidence:.0%} interval{looks} {low:+.2f} to {high:+.2f}"
    return f"{text} ({interval}{on_scale(metric)})"


def on_scale(metric: MetricDelta) -> str:
    """Return the scale of a metric's scores where it is not 0 to 1, as the end of a clause."""
    mirror = ", lower is better, shown as its mirror image" if metric.mirrored else ""
    if metric.scale_source == "unit":
        return mirror
    low, high = metric.scale
    return f"; scale {low:g} to {high:g}, {metric.scale_source}{mirror}"


def beyond_repeat(metric: MetricDelta, evidence: Evidence) -> str:
    """Return beyond what a share of changed items is counted, as far as it was measured."""
    if metric.alike is not None:
        return (
            f" beyond what alike recordings differ ({metric.alike.differing} of {metric.alike.pairs} pairs "
            "act differently)"
        )
    if Lane.OLD2 in evidence.run.lanes or evidence.run.trials > 1:
        return " beyond the old version's difference from itself"
    return ""


def not_graded(likeness: Likeness | None) -> str:
    """Return what a SHIP says of answers that nothing grades; empty where all are graded."""
    if likeness is None:
        return ""
    return f"; the answers are not graded ({likeness.sentence})"


_FEW = 0.1
"""Up to this share of items without a score, or that share an observation, the first line is brief."""


def observations(metric: MetricDelta, evidence: Evidence) -> str:
    """Return how many items a metric is over, and as how many observations they count if clearly fewer.

    Where the interval is over clearly more items, since it takes those without a score at their worst, it
    says so.
    """
    if metric.covered - metric.n > _FEW * metric.covered and metric.ci is not None:
        return f"{metric.n} of {items(metric.covered)}, the others at their worst"
    if metric.n - metric.independent <= _FEW * metric.n:
        return items(metric.n)
    words = evidence.comparison.clusters.words
    several = words if metric.independent != 1 else words.removesuffix("s")
    return f"{items(metric.n)}, {metric.independent} {several}"


def items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


def _names(items: Sequence[ItemVerdict]) -> str:
    shown = ", ".join(item.item.label for item in items[:3])
    return shown + (", …" if len(items) > 3 else "")


def too_few(name: str, metric: MetricDelta) -> str:
    """Return why a metric has no interval."""
    if metric.n < 2:
        return f"{name} has fewer than two items with a score in both lanes"
    return (
        f"the {metric.n} items of {name} share one session, user, task or input, so they count as one; "
        "sample others as well"
    )


def too_many(
    fell: Sequence[ItemVerdict], rose: Sequence[ItemVerdict], allowed: int, evidence: Evidence
) -> str:
    """Return how many items regressed, more than may, and whether as many improved."""
    if len(fell) == len(rose):
        return (
            f"no net change: {len(rose)} better, {len(fell)} worse ({_names(fell)}), and "
            f"{allowed or 'none'} may regress ([gate] max_regressed = {evidence.gate.max_regressed!r})"
        )
    return f"{items(len(fell))} regressed beyond the noise ({_names(fell)}), and {allowed or 'none'} may"


def balance(fell: Sequence[ItemVerdict], rose: Sequence[ItemVerdict], unknown: Sequence[ItemVerdict]) -> str:
    """Return how many items moved; `unknown` scored lower where the noise of a trial is not known."""
    if unknown and not fell:
        return f"{items(len(unknown))} scored lower in a single trial, which may be noise"
    if not fell:
        return "no item regressed"
    if len(fell) == len(rose):
        return f"no net change: {len(rose)} better, {len(fell)} worse"
    return f"{items(len(fell))} regressed"


def elsewhere(evidence: Evidence) -> str:
    """Return the regressions on metrics that do not decide, so that SHIP never hides them."""
    others = [
        f"{name}, which does not decide, counts "
        + (f"{metric.changed} changed" if metric.kind is Kind.AGREEMENT else f"{metric.regressed}")
        for name, metric in evidence.metrics.items()
        if (metric.changed if metric.kind is Kind.AGREEMENT else metric.regressed) and not metric.gated
    ]
    return f" ({'; '.join(others)})" if others else ""


def failure(name: str, evidence: Evidence) -> str:
    """Return what the grader reported where it failed."""
    for item in evidence.items:
        for trials in item.lanes.values():
            for trial in trials:
                grade = trial.grades.get(name)
                if grade is not None and grade.state is GradeState.ERROR and grade.reason:
                    return f": {grade.reason}"
    return ""


def why_not(evidence: Evidence, name: str) -> str:
    """Return why a metric does not decide, in a clause."""
    if name not in evidence.metrics:
        return f"{name} has no grades in this run"
    return evidence.refusals.get(name) or f"{name} is none of [gate] metrics"
