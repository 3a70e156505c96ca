"""Causes: what the new version does more or less often than the old one, over all trials of a run.

Every behaviour (`diff.actions`) is counted by lane. The old version's trials are those of `old` and of its
repeat `old2` together; the test compares them with the new ones within each item (`trials.stratified`), so an
agent that always acts so on some items shows no difference, and only the noise of trials counts. A behaviour
seen in one item alone is that item's own matter and no cause; items of one session or task count as one.

A run describes hundreds of behaviours. Those that could not reach the level in any arrangement of their
trials are left out first (Tarone 1990, "A modified Bonferroni method for discrete data"), the others are
corrected by Holm: a person decides on each cause, so that *any* false one counts (the family-wise error), and
behaviours depend on each other in every way. Two versions that are alike show a cause in at most 5 % of runs
(`benchmarks/false_causes.py`), also over all looks of a run that may end early. `old2` is the control, too: a
cause must set the new version apart from either old lane by more than the two differ.

Behaviours that describe nearly the same trials are one cause, named by the one that explains most.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replaydiff.diff.actions import ActionReader, Behaviour, counts
from replaydiff.diff.blocks import trials_of
from replaydiff.diff.comparison import Comparison
from replaydiff.diff.result import Block, Cause, CauseExample, CauseState
from replaydiff.diff.statistics import noise, trials
from replaydiff.replay.model import Lane, Status
from replaydiff.replay.settings import Settings

SAME_TRIALS = 0.8
"""Two behaviours whose trials overlap by this share (Jaccard 1901) are one cause."""
_FEWEST_ITEMS = 2
_EXAMPLES = 3
_ALSO = 3
_STATES = (CauseState.REJECTED, CauseState.OPEN, CauseState.ACCEPTED)

Done = Mapping[str, Sequence[frozenset[Behaviour]]]
"""By lane, what each trial of an item did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """The causes of a run, and which items their accepted ones explain."""

    found: tuple[Cause, ...] = ()
    """Rejected ones first, then open, then accepted; within one those of the largest difference."""
    accepted: frozenset[str] = frozenset()
    """The ids of accepted behaviours."""
    done: Mapping[int, Done] = field(default_factory=dict)
    """Pattern (`diff.blocks`) → what its trials did; left empty where nothing is accepted."""

    def explained(self, metric: str) -> frozenset[int]:
        """Return the patterns whose every change that this metric can see is accepted."""
        if not self.accepted:
            return frozenset()
        return frozenset(number for number, done in self.done.items() if self._explains(metric, done))

    def _explains(self, metric: str, done: Done) -> bool:
        before = [*done.get(Lane.OLD, ()), *done.get(Lane.OLD2, ())]
        if not before:
            return False
        ever, always = frozenset[Behaviour]().union(*before), before[0].intersection(*before)
        changes = [
            {one.named(more=True) for one in acted - ever if one.concerns(metric)}
            | {one.named(more=False) for one in always - acted if one.concerns(metric)}
            for acted in done.get(Lane.NEW, ())
        ]
        return any(changes) and all(change <= self.accepted for change in changes)


def find_causes(comparison: Comparison, settings: Settings, decided: Mapping[str, CauseState]) -> Causes:
    """Find what the new version does otherwise.

    Args:
        comparison: the lanes `old`, `new` and, where it ran, `old2`.
        settings: how arguments are compared.
        decided: what people decided before, by the ids of behaviours.

    Returns:
        The causes; none where there are not two versions.
    """
    if not comparison.has_both_lanes:
        return Causes()
    reader = ActionReader(settings)
    patterns = comparison.read.patterns
    done = [_one_each(reader.of_block(block), comparison.copied) for block in patterns.blocks]
    counted = _Counted.of(done, comparison)
    looks = 1 if comparison.look is None else comparison.look.of
    significant = counted.significant(1 - comparison.confidence, looks)
    found = [counted.cause(group, decided) for group in counted.merged(significant)]
    accepted = frozenset(name for name, state in decided.items() if state is CauseState.ACCEPTED)
    return Causes(
        found=tuple(sorted(found, key=lambda one: (_STATES.index(one.state), -one.difference, one.id))),
        accepted=accepted,
        done={
            number: acted
            for number, (block, acted) in enumerate(zip(patterns.blocks, done, strict=True))
            if accepted and not _has_error(block)
        },
    )


def _has_error(block: Block) -> bool:
    """Whether a trial ended in an error: what it would have done is unknown, so nothing explains it."""
    return any(one.trial.status.is_error for lane in block.lanes.values() for one in lane)


def _one_each(done: Done, copied: bool) -> Done:
    """Where the trials of a lane are copies of one another, the first one counts."""
    return {lane: acted[:1] for lane, acted in done.items()} if copied else done


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    """A behaviour that differs between the versions."""

    behaviour: Behaviour
    more: bool
    p: float
    trials: frozenset[tuple[int, int]]
    """The new trials that differ, as item and trial: with it, or (not `more`) without it where old has it."""


_Times = tuple[int, int, int]
"""How many trials of `old`, `old2` and `new`."""


def _counts_by_behaviour(done: Done) -> tuple[dict[Behaviour, _Times], _Times]:
    """How many trials of an item show each behaviour, and how many trials there are."""
    old, again, new = (done.get(lane, ()) for lane in (Lane.OLD, Lane.OLD2, Lane.NEW))

    def times(behaviour: Behaviour) -> _Times:
        return (
            sum(behaviour in acted for acted in old),
            sum(behaviour in acted for acted in again),
            sum(behaviour in acted for acted in new),
        )

    shown = {behaviour for acted in (*old, *again, *new) for behaviour in acted}
    return {behaviour: times(behaviour) for behaviour in shown}, (len(old), len(again), len(new))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """How often each behaviour occurs, by item and lane."""

    blocks: Sequence[Block]
    done: Sequence[Done]
    comparison: Comparison
    by_item: Mapping[Behaviour, Mapping[int, _Times]]
    """Behaviour → item → its trials that show it; items without it are left out."""
    sizes: Sequence[_Times]
    """The trials of each item that count."""

    @classmethod
    def of(cls, done: Sequence[Done], comparison: Comparison) -> _Counted:
        """Count over all items; `done` is what the trials of each pattern did."""
        read = comparison.read
        counted = read.patterns.spread([_counts_by_behaviour(lanes) for lanes in done])
        by_item: dict[Behaviour, dict[int, _Times]] = defaultdict(dict)
        for place, (times_by_behaviour, _) in enumerate(counted):
            for behaviour, times in times_by_behaviour.items():
                by_item[behaviour][place] = times
        return cls(
            blocks=read.blocks,
            done=read.patterns.spread(done),
            comparison=comparison,
            by_item=by_item,
            sizes=[size for _, size in counted],
        )

    def strata(self, behaviour: Behaviour) -> list[trials.Stratum]:
        """Old and old2 together against new, by item."""
        found = []
        for place, (old, again, new) in self.by_item[behaviour].items():
            sizes = self.sizes[place]
            found.append((old + again, sizes[0] + sizes[1], new, sizes[2]))
        return found

    def rates(self, behaviour: Behaviour) -> tuple[list[tuple[int, int]], float]:
        """Counts and trials of `old`, `old2` and `new`, and how much more often the new version does it."""
        totals = [sum(size[lane] for size in self.sizes) for lane in range(3)]
        times = [sum(row[lane] for row in self.by_item[behaviour].values()) for lane in range(3)]
        before = (times[0] + times[1]) / max(1, totals[0] + totals[1])
        return list(zip(times, totals, strict=True)), times[2] / max(1, totals[2]) - before

    def significant(self, level: float, looks: int) -> list[_Tested]:
        """The behaviours that differ beyond chance, and from either old lane.

        Each of several looks gets the same part of the level (Bonferroni), so that any number of them may be
        taken; p is multiplied by their number.
        """
        level /= looks
        candidates = sorted(
            (one for one in self.by_item if self._shared(one)), key=lambda one: (one.rank, one.parts)
        )
        least = {one: trials.least_p(self.strata(one)) for one in candidates}
        tests = 1
        while sum(p <= level / tests for p in least.values()) > tests:
            tests += 1
        tested = [one for one in candidates if least[one] <= level / tests]
        found = []
        p_values = noise.holm([trials.stratified(self.strata(one)) for one in tested])
        for behaviour, p in zip(tested, p_values, strict=True):
            difference = self.rates(behaviour)[1]
            if p <= level and difference and self._beyond_repeat(behaviour, difference):
                more = difference > 0
                found.append(
                    _Tested(
                        behaviour=behaviour,
                        more=more,
                        p=min(1.0, p * looks),
                        trials=self._trials(behaviour, more),
                    )
                )
        return found

    def _shared(self, behaviour: Behaviour) -> bool:
        """Whether it varies in several items that are not one session or task."""
        clusters = {
            self.comparison.clusters[self.blocks[place].item.id]
            for place, times in self.by_item[behaviour].items()
            if 0 < sum(times) < sum(self.sizes[place])
        }
        return len(clusters) >= _FEWEST_ITEMS

    def _beyond_repeat(self, behaviour: Behaviour, difference: float) -> bool:
        """Whether the new version differs from each old lane, by more than these differ from each other."""
        (old, old_of), (again, again_of), (new, new_of) = self.rates(behaviour)[0]
        if not old_of or not again_of:
            return True
        rates = old / old_of, again / again_of
        nearest = min(abs(new / new_of - rate) for rate in rates)
        same_side = all((new / new_of - rate) * difference > 0 for rate in rates)
        return same_side and nearest > abs(rates[0] - rates[1])

    def _trials(self, behaviour: Behaviour, more: bool) -> frozenset[tuple[int, int]]:
        return frozenset(
            (place, index)
            for place, (old, again, _) in self.by_item[behaviour].items()
            if more or old + again
            for index, acted in enumerate(self.done[place].get(Lane.NEW, ()))
            if (behaviour in acted) is more
        )

    @staticmethod
    def merged(tested: Sequence[_Tested]) -> list[list[_Tested]]:
        """Groups of behaviours that describe nearly the same trials, the one that explains most first."""
        groups: list[list[_Tested]] = []
        for one in sorted(tested, key=lambda one: (not one.more, one.behaviour.rank)):
            for group in groups:
                both = len(one.trials & group[0].trials)
                if both >= SAME_TRIALS * len(one.trials | group[0].trials):
                    group.append(one)
                    break
            else:
                groups.append([one])
        return groups

    def cause(self, group: Sequence[_Tested], decided: Mapping[str, CauseState]) -> Cause:
        """The cause that a group is; `decided` on its first behaviour."""
        first = group[0]
        lanes, difference = self.rates(first.behaviour)
        has_repeat = Lane.OLD2 in self.comparison.run.lanes
        return Cause(
            id=first.behaviour.named(more=first.more),
            text=_sentence(first) + self._lengths(first),
            items=len({place for place, _ in first.trials}),
            trials={
                lane: lanes[at]
                for at, lane in ((0, Lane.OLD), (1, Lane.OLD2), (2, Lane.NEW))
                if lane != Lane.OLD2 or has_repeat
            },
            p=min(one.p for one in group),
            state=_state(group, decided),
            examples=self._examples(first),
            also=tuple(_sentence(one) for one in group[1 : 1 + _ALSO]),
            covers=_decided_together(group),
            item_ids=frozenset(self.blocks[place].item.id for place, _ in first.trials),
            difference=abs(difference),
        )

    def _lengths(self, tested: _Tested) -> str:
        """Of answers that got longer or shorter, by how much in the items that show it."""
        if not tested.behaviour.is_length:
            return ""
        lengths: dict[bool, list[int]] = {True: [], False: []}
        for block in (self.blocks[place] for place in {place for place, _ in tested.trials}):
            for lane in block.lanes:
                lengths[lane.is_new] += [
                    len(one.final_response or "") for one in trials_of(block, lane) if one.status is Status.OK
                ]
        old, new = (statistics.median(lengths[is_new]) for is_new in (False, True))
        return f" (median {old:.0f} → {new:.0f} characters)"

    def _examples(self, tested: _Tested) -> tuple[CauseExample, ...]:
        """The items that show it most clearly and little else, each with two trials to look at."""
        sign = 1 if tested.more else -1
        clear, others = {}, {}
        for place in {place for place, _ in tested.trials}:
            others[place] = sum(
                len(frozenset[Behaviour]().union(*self.done[place].get(lane, ())))
                for lane in (Lane.OLD, Lane.NEW)
            )
            old, again, new = self.by_item[tested.behaviour][place]
            sizes = self.sizes[place]
            clear[place] = sign * (new / max(1, sizes[2]) - (old + again) / max(1, sizes[0] + sizes[1]))
        places = sorted(clear, key=lambda place: (-clear[place], others[place], self.blocks[place].item.id))[
            :_EXAMPLES
        ]
        return tuple(
            CauseExample(
                item=self.blocks[place].item.id,
                old=self._index(place, Lane.OLD, tested, shows=not tested.more),
                new=self._index(place, Lane.NEW, tested, shows=tested.more),
            )
            for place in places
        )

    def _index(self, place: int, lane: Lane, tested: _Tested, *, shows: bool) -> int | None:
        """The index of a typical trial of a lane that shows the behaviour or does not, else of the first.

        Typical is what most such trials of the lane did; of those the first.
        """
        counted = [one for one in trials_of(self.blocks[place], lane) if counts(one)]
        wanted = [
            (did, trial.index)
            for trial, did in zip(counted, self.done[place].get(lane, ()), strict=False)
            if (tested.behaviour in did) is shows
        ]
        if not wanted:
            return counted[0].index if counted else None
        typical = Counter(did for did, _ in wanted).most_common(1)[0][0]
        return next(index for did, index in wanted if did == typical)


def _sentence(tested: _Tested) -> str:
    return tested.behaviour.text if tested.more else tested.behaviour.text_of_less


def _decided_together(group: Sequence[_Tested]) -> tuple[str, ...]:
    """The ids of a cause's behaviours. A length beside others is left out: alone, it may have any reason."""
    return tuple(
        one.behaviour.named(more=one.more)
        for place, one in enumerate(group)
        if place == 0 or not one.behaviour.is_length
    )


def _state(group: Sequence[_Tested], decided: Mapping[str, CauseState]) -> CauseState:
    """What was decided; a rejected behaviour of the group rejects it."""
    states = [decided.get(name, CauseState.OPEN) for name in _decided_together(group)]
    return CauseState.REJECTED if CauseState.REJECTED in states else states[0]
