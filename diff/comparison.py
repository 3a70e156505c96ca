"""What the figures of a comparison are about, and the estimate of one metric's mean change.

A golden set is its own population: its cases are fixed, and only the noise of trials counts. Where no version
was tried twice that noise is unknown, and the spread of the changes over items stands in for it. A sample
stands for the population it was drawn from: items count by their weight, and those that hang together (one
session, one task, one question) are one cluster. Where a sample is a large part of its population, the
variance is that of both at once: with f the part that was drawn, (1 − f) of the population's variance and f
of that of fixed items (the finite-population correction; Cochran 1977, §2.6).

Trials without a score are neither failures nor left out. The interval's lower end is that of the mean change
with every such trial at the new version's cost, its upper end that with every one in its favour: the bounds
of Horowitz & Manski (2000), each end with its own sampling error. Imbens & Manski (2004) shorten such
intervals to cover the true value rather than the bounds; here each end decides by itself, so each keeps the
full confidence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from replaydiff.diff.blocks import Patterns
from replaydiff.diff.clusters import ItemClusters, clusters_of
from replaydiff.diff.reading import RunData
from replaydiff.diff.result import Block, GradedTrial, MetricDelta, Repeat
from replaydiff.diff.statistics import noise, paired, trials
from replaydiff.diff.statistics.lanes import noise_between
from replaydiff.diff.statistics.neighbours import grouped_neighbours
from replaydiff.diff.stopping import LookLevels
from replaydiff.diff.verdicts import ItemScores, Scale, each_once, without_rounding
from replaydiff.replay.messages import canonical_args
from replaydiff.replay.model import Item, Lane, RunRecord, SampleRecord, VersionKind

_LARGE_PART = 0.05
"""From this part of a population on a sample is corrected for it (Cochran 1977, §2.6)."""

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The compared data and the population it represents. Built once per pair of lanes."""

    run: RunRecord
    sample: SampleRecord | None
    """What the items were drawn as; None for a golden set."""
    read: RunData
    clusters: ItemClusters
    confidence: float
    """Of each interval: with several candidates, so that all hold together."""
    candidates: int = 1
    """New lanes of the run: so many comparisons with one old lane."""
    copied: bool = False
    """Whether the trials of a lane are copies of one; see `trials_are_copies`."""
    look: LookLevels | None = None
    """How sure each end of the interval must be; None where the run does not stop early."""
    recorded_once: bool = False
    """Whether the old version is a recording of each item: no repeat shows how much it varies."""

    @classmethod
    def of(
        cls,
        run: RunRecord,
        sample: SampleRecord | None,
        read: RunData,
        *,
        confidence: float,
        candidates: int = 1,
        look: LookLevels | None = None,
    ) -> Comparison:
        """Compare the lanes `old` and `new`, one of `candidates` in the run, at a look."""
        return cls(
            run=run,
            sample=sample,
            read=read,
            clusters=clusters_of(block.item for block in read.blocks),
            confidence=paired.simultaneous(confidence, candidates),
            candidates=candidates,
            copied=trials_are_copies(read.patterns),
            look=look,
            recorded_once=_is_recorded_once(run, read),
        )

    @property
    def tails(self) -> Ends:
        """Return the one-sided levels of an interval's lower and upper end."""
        if self.look is not None:
            return self.look.ship, self.look.hold
        return (1 - self.confidence) / 2, (1 - self.confidence) / 2

    @property
    def has_both_lanes(self) -> bool:
        """Return whether an old and a new version are compared at all."""
        return {Lane.OLD, Lane.NEW} <= self.run.lanes.keys()

    @property
    def hides_links(self) -> bool:
        """Return whether it is a sample whose traces may belong together without any id that says so."""
        return self.sample is not None and self.clusters.may_hide_links

    @property
    def drawn(self) -> float:
        """Return the part of the population that the items are, 0 to 1: 1 for a golden set.

        The cases that a look has seen are drawn from the golden set, since their order is random.
        """
        if self.recorded_once:
            # The noise of the old version's only trial is unknown, and the spread over items includes it.
            return 0.0
        if self.sample is None:
            return 1.0 if self.look is None else min(1.0, self.look.part)
        traces = len(self.read.blocks) + self.merged
        part = traces / self.sample.population if self.sample.population else 0.0
        return min(1.0, part) if part >= _LARGE_PART else 0.0

    @property
    def merged(self) -> int:
        """Return how many sampled traces are no item, since they share a value that pairs them."""
        merged = self.run.settings.get("merged")
        return merged if isinstance(merged, int) and len(self.read.blocks) == self.read.items else 0

    def weight(self, item: Item) -> float:
        """Return the weight of an item: how many traces it represents, and 1 in a golden set."""
        return 1.0 if self.sample is None else item.weight

    def grouped(self, items: Sequence[Item], values: Sequence[float]) -> paired.Clusters:
        """Return a value of each item, weighted, by what links items."""
        numbers = [self.clusters.numbers[item.id] for item in items]
        return paired.weighted_clusters(values, list(map(self.weight, items)), numbers)


def _is_recorded_once(run: RunRecord, read: RunData) -> bool:
    old = run.lanes.get(Lane.OLD)
    if old is None or old.kind is not VersionKind.OBSERVED or len(run.lanes) == 1:
        return False
    return all(len(block.lanes.get(Lane.OLD, ())) <= 1 for block in read.patterns.blocks)


def estimate(
    comparison: Comparison,
    items: Sequence[Item],
    samples: Sequence[ItemScores],
    scale: Scale,
    null: noise.Null | None,
) -> MetricDelta:
    """Return the mean change over these items, and how far it is known: the other figures are still to come.

    Args:
        comparison: what the items stand for.
        items: those the metric applies to.
        samples: their scores, in the same order.
        scale: the range of the scores.
        null: the noise of one trial; None where it is unknown.
    """
    if not comparison.has_both_lanes:
        return _single_lane(comparison, items, samples)
    scored = _Scores.of(comparison, items, each_once(lambda sample: sample.scored, samples))
    worst, best = scored, scored
    if any(each_once(lambda sample: sample.has_gap, samples)):
        worst, best = (
            _Scores.of(
                comparison, items, each_once(partial(ItemScores.against, sign=sign, scale=scale), samples)
            )
            for sign in (1, -1)
        )
    low = worst.interval(comparison, scale.reach)
    high = low if worst is best else best.interval(comparison, scale.reach)
    return MetricDelta(
        n=len(scored.changes),
        old=paired.weighted_mean(each_once(_mean, scored.old), scored.weights),
        new=paired.weighted_mean(each_once(_mean, scored.new), scored.weights),
        delta=scored.mean,
        sample_delta=without_rounding(_mean(scored.changes)) if scored.changes else None,
        se=scored.standard_error(comparison.drawn),
        se_planned=scored.planned_error(comparison),
        ci=None
        if low is None or high is None or not scored.changes
        # No change is larger than the range of the scores.
        else (max(low[0], -scale.reach), min(high[1], scale.reach)),
        p=(p := scored.p(comparison)),
        # Of fixed items `p` already permutes trials.
        p_any=p if comparison.drawn >= 1 else scored.p_any(comparison),
        mde=scored.smallest_effect(comparison, null, scale.reach),
        bounds=None if worst.mean is None or best.mean is None else (worst.mean, best.mean),
        design_effect=None if comparison.sample is None else paired.design_effect(scored.weights),
        independent=scored.independent(comparison),
        covered=len(worst.changes),
    )


def against_itself(comparison: Comparison, items: Sequence[Item], samples: Sequence[ItemScores]) -> Repeat:
    """Return the old version's repeat against its first lane, over the items that were repeated."""
    lanes = _Scores.of(comparison, items, each_once(lambda sample: (sample.old, sample.again), samples))
    se, p = lanes.standard_error(comparison.drawn) or 0.0, lanes.p_any(comparison)
    parts = [
        (len(sample.again) / len(sample.before), comparison.weight(item))
        for item, sample in zip(items, samples, strict=True)
        if sample.before and sample.new
    ]
    repeated = paired.weighted_mean([part for part, _ in parts], [weight for _, weight in parts])
    return Repeat(
        n=len(lanes.changes),
        delta=lanes.mean,
        p=p,
        se=se,
        noise=noise_between(lanes.mean or 0.0, se, repeated or 0.0),
        differs=p is not None and p <= 1 - comparison.confidence,
    )


def _single_lane(comparison: Comparison, items: Sequence[Item], samples: Sequence[ItemScores]) -> MetricDelta:
    """Return the mean of a lane that is compared with no second one."""
    means = {
        lane: [
            (mean, comparison.weight(item))
            for item, sample in zip(items, samples, strict=True)
            if (mean := sample.new_mean if lane == Lane.NEW else sample.old_mean) is not None
        ]
        for lane in (Lane.OLD, Lane.NEW)
    }
    old, new = (
        paired.weighted_mean([mean for mean, _ in pairs], [weight for _, weight in pairs])
        for pairs in means.values()
    )
    count = max(map(len, means.values()))
    return MetricDelta(n=count, old=old, new=new, independent=count, covered=count)


@dataclass(frozen=True, kw_only=True)
class _Scores:
    """The items that have scores of both versions."""

    old: list[tuple[float, ...]]
    """Of each item, the old version's scores and its repeat's."""
    new: list[tuple[float, ...]]
    weights: list[float]
    clusters: list[int]
    changes: list[float]

    @classmethod
    def of(
        cls,
        comparison: Comparison,
        items: Sequence[Item],
        scores: Sequence[tuple[tuple[float, ...], tuple[float, ...]]],
    ) -> _Scores:
        paired = [(item, pair) for item, pair in zip(items, scores, strict=True) if pair[0] and pair[1]]
        pairs = [pair for _, pair in paired]
        changes = each_once(lambda pair: without_rounding(_mean(pair[1]) - _mean(pair[0])), pairs)
        return cls(
            old=[old for old, _ in pairs],
            new=[new for _, new in pairs],
            weights=[comparison.weight(item) for item, _ in paired],
            clusters=_clusters(comparison, [item for item, _ in paired], changes),
            changes=changes,
        )

    @cached_property
    def mean(self) -> float | None:
        mean_change = paired.weighted_mean(self.changes, self.weights)
        return None if mean_change is None else without_rounding(mean_change)

    @cached_property
    def grouped(self) -> paired.Clusters:
        return paired.weighted_clusters(self.changes, self.weights, self.clusters)

    @cached_property
    def fixed(self) -> paired.Clusters | None:
        return trials.fixed_items(self.old, self.new, self.weights) if self.changes else None

    def independent(self, comparison: Comparison) -> int:
        """Return how many observations the items are: all of fixed items, whose trials alone vary."""
        if comparison.drawn >= 1 and self.fixed is not None:
            return len(self.changes)
        return len(set(self.clusters))

    def interval(self, comparison: Comparison, reach: float) -> Ends | None:
        """Combine both parts' intervals, each end as far from the mean as their variances say."""
        mean, drawn = self.mean, comparison.drawn
        fixed = self.fixed if drawn else None
        if mean is None:
            return None
        ends_of = partial(paired.interval, tails=comparison.tails, reach=reach)
        of_trials = None if fixed is None else ends_of(fixed)
        if of_trials is None:
            drawn = 0.0
        of_items = of_trials if of_trials and drawn >= 1 else ends_of(self.grouped)
        if of_items is None:
            return None
        if drawn < 1 and comparison.sample is not None:
            of_items = paired.with_unseen(of_items, self.grouped, tails=comparison.tails, reach=reach)
        low, high = (
            math.sqrt((1 - drawn) * (end - mean) ** 2 + drawn * (trials_end - mean) ** 2)
            for end, trials_end in zip(of_items, of_trials or of_items, strict=True)
        )
        return mean - low, mean + high

    def standard_error(self, drawn: float) -> float | None:
        fixed = self.fixed if drawn else None
        error_of_trials = None if fixed is None else paired.standard_error(fixed)
        if error_of_trials is not None and drawn >= 1:
            return error_of_trials
        spread = paired.standard_error(self.grouped)
        if spread is None or error_of_trials is None:
            return spread
        return math.sqrt((1 - drawn) * spread**2 + drawn * error_of_trials**2)

    def planned_error(self, comparison: Comparison) -> float | None:
        """Return the standard error that all planned items will leave; None where no more are planned."""
        look = comparison.look
        if look is None:
            return None
        se = self.standard_error(min(1.0, comparison.drawn / look.part))
        return None if se is None else se * math.sqrt(look.part)

    def p(self, comparison: Comparison) -> float | None:
        """Permute trials for fixed items, and the signs of the changes for sampled ones."""
        if comparison.drawn >= 1 and self._repeated:
            return trials.permutation(self.old, self.new, self.weights, seed=comparison.run.seed)
        return paired.sign_flip(self.grouped, seed=comparison.run.seed)

    def p_any(self, comparison: Comparison) -> float | None:
        """Permute trials; with single trials this equals permuting the signs of the changes."""
        if self._repeated:
            return trials.permutation(self.old, self.new, self.weights, seed=comparison.run.seed)
        return self.p(comparison)

    @property
    def _repeated(self) -> bool:
        return any(len(scores) > 1 for scores in (*self.old, *self.new))

    def smallest_effect(self, comparison: Comparison, null: noise.Null | None, reach: float) -> float | None:
        """Combine the smallest effect of the drawn part and of the remainder, as their variances are."""
        if not self.changes:
            return None
        drawn = comparison.drawn if null is not None else 0.0
        spread = math.fsum(1 / len(old) + 1 / len(new) for old, new in zip(self.old, self.new, strict=True))
        of_trials = (null.noise if null else 0.0) * math.sqrt(spread) / len(self.changes) * reach
        effect_of_trials = trials.smallest_fixed_effect(
            of_trials,
            min(sum(map(len, self.old)), sum(map(len, self.new))),
            confidence=comparison.confidence,
            reach=reach,
        )
        grouped = self.grouped
        sizes = grouped.sizes
        effect_of_items = paired.smallest_effect(
            paired.standard_error(grouped),
            float(sizes.sum() ** 2 / np.sum(sizes**2)),
            trials_se=of_trials,
            confidence=comparison.confidence,
            reach=reach,
        )
        if drawn >= 1:
            return effect_of_trials
        if effect_of_items is None or not drawn or effect_of_trials is None:
            return effect_of_items
        return math.sqrt((1 - drawn) * effect_of_items**2 + drawn * effect_of_trials**2)


def _clusters(comparison: Comparison, items: Sequence[Item], changes: Sequence[float]) -> list[int]:
    """Return the cluster of each item: neighbours in time where no id links traces and they change together.

    Whether they do is tested with the changes themselves, so that each metric has clusters of its own.
    """
    numbers = [comparison.clusters.numbers[item.id] for item in items]
    times = [item.started_at for item in items if item.started_at is not None]
    if not comparison.hides_links or len(times) < len(items):
        return numbers
    order = sorted(range(len(items)), key=lambda position: (times[position], items[position].id))
    groups = grouped_neighbours(changes, order)
    return groups if groups and len(set(groups)) < len(set(numbers)) else numbers


_COPIES = 3
"""So many items, at least, that differ between lanes and never within one."""
_NO_CHANCE = 0.005
"""From this chance on such items are no copies."""
_Trace = tuple[Hashable, Hashable, Hashable, tuple[tuple[str, float], ...]]


def trials_are_copies(patterns: Patterns) -> bool:
    """Return whether the trials of a lane repeat each other, and the two lanes of old differ.

    A cache or a seed of the lane does that: three trials are then one, and to count them as three makes every
    difference between lanes look certain. Without the lane `old2` it cannot be seen; see `may_be_copies`.
    """
    copied = 0
    fewest_trials: Counter[int] = Counter()
    for block, times in patterns.counted():
        sides = [_traces(block, lane) for lane in (Lane.OLD, Lane.OLD2)]
        fewest = min(len(block.lanes.get(lane, ())) for lane in (Lane.OLD, Lane.OLD2))
        if not all(sides) or fewest < 2 or len(sides[0] | sides[1]) == 1:
            continue
        copied += times * (len(sides[0]) == len(sides[1]) == 1)
        fewest_trials[fewest] += times
    # A fair coin is the likeliest to show this by chance.
    expected = sum(times * 2 / 4**fewest / (1 - 2 / 4**fewest) for fewest, times in fewest_trials.items())
    return copied >= _COPIES and _poisson_tail(copied, expected) < _NO_CHANCE


def _poisson_tail(count: int, mean: float) -> float:
    """Return the chance of a count this high or higher."""
    term = below = math.exp(-mean)
    for fewer in range(1, count):
        term *= mean / fewer
        below += term
    return 1 - below


def may_be_copies(patterns: Patterns) -> bool:
    """Return whether no trial differs from others of its lane and item, while items change both ways.

    Copies look like that, and an agent without chance in it does, too.
    """
    higher = lower = 0
    for block, times in patterns.counted():
        sides = [_traces(block, lane) for lane in (Lane.OLD, Lane.NEW)]
        if (
            max(map(len, sides)) > 1
            or min(len(block.lanes.get(lane, ())) for lane in (Lane.OLD, Lane.NEW)) < 2
        ):
            return False
        if all(sides):
            old, new = (dict(next(iter(side))[-1]) for side in sides)
            changes = [new[name] - old[name] for name in old.keys() & new.keys()]
            higher += times * any(change > 0 for change in changes)
            lower += times * any(change < 0 for change in changes)
    return higher > 0 and lower > 0 and higher + lower >= _COPIES


def _traces(block: Block, lane: Lane) -> set[_Trace]:
    """Return what the trials of a lane did, errors aside: one element where all did the same."""
    return {_trace_of(graded) for graded in block.lanes.get(lane, ()) if not graded.trial.status.is_error}


def _trace_of(graded: GradedTrial) -> _Trace:
    """Return what a trial did, its scores included."""
    trial = graded.trial
    calls = tuple((served.call.name, canonical_args(served.call.args)) for served in trial.served)
    scores = tuple(
        sorted((name, grade.score) for name, grade in graded.grades.items() if grade.score is not None)
    )
    return trial.status, trial.final_response, calls, scores


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
