"""What reports call things, and in which order they show them: shared by all formats.

A result with the lane `new` alone is one of `replay check`: its items are held against their expectations, so
`regressed` reads "failed" and `unchanged` reads "passed".
"""

from __future__ import annotations

from collections.abc import Iterator

from replaydiff.diff.result import Counts, DiffResult, ItemMetric, ItemVerdict, MetricDelta, Noise, Verdict
from replaydiff.diff.statistics.split import VarianceSplit
from replaydiff.replay.model import Json, JsonObject, Lane, Run, Trial
from replaydiff.reports import numbers

ORDER = (Verdict.REGRESSED, Verdict.MIXED, Verdict.INCONCLUSIVE, Verdict.IMPROVED, Verdict.UNCHANGED)
"""Verdicts as they are listed everywhere."""

CHANGED = (Verdict.REGRESSED, Verdict.MIXED, Verdict.IMPROVED)
"""Verdicts of items where something certainly changed, in the order in which people want to see them."""

_CHECK = {
    Verdict.REGRESSED: "failed",
    Verdict.UNCHANGED: "passed",
    Verdict.IMPROVED: "passed",
    Verdict.INCONCLUSIVE: "undecided",
}

NOISE = {
    Noise.AA: "noise from the A/A lane",
    Noise.WITHIN_LANE: "noise from repeated trials",
    Noise.UNKNOWN: "noise unknown: single trials",
}


_WORTH_SAYING = 1.05
"""From this design effect on the weights of a sample are told of."""


def is_check(result: DiffResult) -> bool:
    """Whether the result has the new lane alone, held against expectations."""
    return bool(result.lanes) and Lane.OLD not in result.lanes


def verdict(result: DiffResult, value: Verdict) -> str:
    """What this verdict is called in this result."""
    return _CHECK.get(value, str(value)) if is_check(result) else str(value)


def verdict_counts(result: DiffResult) -> list[tuple[Verdict, str, int]]:
    """Each verdict with its name and number of items, in `ORDER`; of a check only those that it knows."""
    shown = (
        (Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.UNCHANGED, Verdict.MIXED, Verdict.IMPROVED)
        if is_check(result)
        else ORDER
    )
    rows = [(value, verdict(result, value), count_of(result.counts, value)) for value in shown]
    return [
        row
        for row in rows
        if not is_check(result) or row[2] or row[0] not in (Verdict.MIXED, Verdict.IMPROVED)
    ]


def count_of(counts: Counts, value: Verdict) -> int:
    """The number of items with this verdict."""
    number = getattr(counts, value.value)
    assert isinstance(number, int)  # noqa: S101 - Counts names its fields as Verdict its values
    return number


def lanes(result: DiffResult) -> list[Lane]:
    """The lanes of the result: old, new, old2."""
    return [lane for lane in (Lane.OLD, Lane.NEW, Lane.OLD2) if lane in result.lanes]


def version_name(version: JsonObject) -> str:
    """A version as people told it: its name, and the commit it stands for."""
    name = _text(version.get("name")) or _text(version.get("kind")) or "–"
    commit = _text(version.get("commit"))
    if commit and not name.endswith(commit[:7]):
        name += f" @ {commit[:7]}"
    return name + (" + changes" if version.get("dirty_hash") else "")


def version_facts(version: JsonObject) -> Iterator[tuple[str, str]]:
    """What else is known of a version, as label and value; no environment values are among them."""
    for key in ("kind", "entrypoint", "git", "commit", "dirty_hash", "path", "python", "condition"):
        if text := _text(version.get(key)):
            yield key.replace("_", " "), text
    args = version.get("args")
    if isinstance(args, dict):
        yield from ((key, _text(value)) for key, value in args.items())
    names = version.get("env_names")
    if isinstance(names, list) and names:
        yield "environment set", ", ".join(map(_text, names))
    packages = version.get("packages")
    if isinstance(packages, dict):
        yield from ((key, _text(value)) for key, value in packages.items())


def run_line(run: Run) -> list[str]:
    """The run in a few words: its id, what was replayed, how often."""
    source = (
        f"sample {run.sample}" if run.sample else f"golden set {run.golden_path}" if run.golden_path else ""
    )
    return [part for part in (f"run {run.id}", source, numbers.plural(run.trials, "trial")) if part]


def compared(result: DiffResult) -> str:
    """How many of the items could be compared."""
    counts = result.counts
    if counts.compared == counts.total:
        return numbers.plural(counts.total, "item")
    return f"{numbers.count(counts.compared)} of {numbers.plural(counts.total, 'item')} compared"


def metric_notes(name: str, metric: MetricDelta, *, brief: bool = False) -> list[str]:
    """What must be known beside a metric's main figures, in short phrases; empty where there is nothing.

    `brief` is for a metric that is one of many and does not decide: whether it can be believed, and no more.
    """
    notes = []
    if name == "judge" or metric.calibration is not None:
        notes.append(_calibration(metric))
    if brief:
        return notes
    if not metric.gated:
        notes.append("does not decide the answer")
    if metric.mde is not None:
        notes.append(f"smallest change this size shows {numbers.score(metric.mde)}")
    if metric.noise is not None:
        notes.append(f"noise of one trial {numbers.score(metric.noise)}")
    if metric.split is not None and metric.split.buy is not None:
        notes.append(_split(metric.split))
    if metric.month is not None:
        notes.append(_month(metric))
    if metric.bounds is not None and metric.bounds != (metric.delta, metric.delta):
        low, high = metric.bounds
        notes.append(f"errors as failures {numbers.change(low)}, as passes {numbers.change(high)}")
    notes.extend(_pass_k(metric))
    return notes


def ranked(item: ItemVerdict) -> list[tuple[str, ItemMetric]]:
    """The item's metrics, those that made the verdict first."""
    weight = {value: index for index, value in enumerate(ORDER)}
    if item.verdict is Verdict.IMPROVED:
        weight[Verdict.IMPROVED] = -1
    return sorted(item.metrics.items(), key=lambda pair: weight[pair[1].verdict])


def reasons(item: ItemVerdict) -> list[tuple[str, str]]:
    """Metric and reason, those that made the verdict first."""
    return [(name, metric.reason) for name, metric in ranked(item) if metric.reason]


def failed_trials(item: ItemVerdict, lane: Lane) -> list[Trial]:
    """The lane's trials that ended in an error: neither a pass nor a fail of the agent's answer."""
    return [graded.trial for graded in item.lanes.get(lane, ()) if graded.trial.status.is_error]


def _split(split: VarianceSplit) -> str:
    """Where the uncertainty comes from, and what of it to buy more of."""
    parts = (
        (split.votes, "votes", "judge"),
        (split.trials, "trials", "agent"),
        (split.items, "items", "items"),
    )
    told = [f"{who} {numbers.share(split.shares[key])}" for sd, key, who in parts if sd is not None]
    return f"uncertainty: {', '.join(told)}; more {split.buy} would narrow it most"


def _calibration(metric: MetricDelta) -> str:
    facts = metric.calibration
    if not facts:
        return "uncalibrated"
    agreement, labels = facts.get("agreement"), facts.get("labels")
    text = "calibrated"
    if isinstance(agreement, int | float):
        text += f": agrees with {numbers.share(float(agreement))}"
        if isinstance(labels, int):
            text += f" of {numbers.count(labels)} labels"
    return text


def _month(metric: MetricDelta) -> str:
    """The estimate for what the sample was drawn from, and what unequal weights cost."""
    text = f"over the population {numbers.change(metric.month)}"
    if metric.month_ci is not None:
        text += f" {numbers.interval(metric.month_ci)}"
    if metric.design_effect is not None and metric.design_effect >= _WORTH_SAYING:
        text += f", where weights cost {numbers.score(metric.design_effect)} times the items"
    return text


def _pass_k(metric: MetricDelta) -> list[str]:
    """pass^k and pass@k, for the largest k that both lanes have."""
    old, new = metric.pass_hat_k.get(Lane.OLD, {}), metric.pass_hat_k.get(Lane.NEW, {})
    k = max(set(old) & set(new) or set(new), default=1)
    if k < 2:
        return []
    told = []
    for name, by_lane in (("all", metric.pass_hat_k), ("any of", metric.pass_at_k)):
        sides = [by_lane.get(lane, {}) for lane in (Lane.OLD, Lane.NEW)]
        figures = [numbers.score(side[k]) for side in sides if k in side]
        if figures:
            told.append(f"{name} {k} trials pass {' → '.join(figures)}")
    return told


def _text(value: Json) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)
