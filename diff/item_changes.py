"""How each item changed, where its recording is not known to be right: what triage orders items by.

The gravest change counts (`ItemChangeKind`): a call that writes is missing, extra, or goes to another object;
it has other arguments; reads differ; the answer differs. A change is what the new version does in a
larger share of its trials than the old one does. Where the old version alone left the recording, the item is
nearer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, product

from replaydiff.diff.behaviour import RecordingRules
from replaydiff.diff.blocks import trials_of
from replaydiff.diff.result import Block, ItemChange, ItemChangeKind
from replaydiff.diff.side_effects import EffectDifference, effect_changes
from replaydiff.replay.model import Lane, Trial
from replaydiff.replay.terminal.text import listed

_MOSTLY = 0.5


def read_variation(blocks: Sequence[Block], agreement: RecordingRules) -> dict[str, float]:
    """Return how often two old trials of one item call a tool that reads a different number of times.

    Args:
        blocks: the items with their trials.
        agreement: how trials are compared with recordings.

    Returns:
        Tool → mean share of pairs over the items that have two old trials; without tools that never vary.
    """
    totals: defaultdict[str, float] = defaultdict(float)
    repeated = 0
    for block in blocks:
        pairs = _repeats(*(_read_counts(block, lane, agreement) for lane in (Lane.OLD, Lane.OLD2)))
        repeated += bool(pairs)
        for name in {name for pair in pairs for counts in pair for name in counts}:
            totals[name] += _differing(name, pairs)
    return {name: total / repeated for name, total in totals.items() if total}


def item_change(
    block: Block, agreement: RecordingRules, variation: Mapping[str, float] | None = None
) -> ItemChange | None:
    """Return how the behaviour of an item changed by its calls; None where it did not.

    Args:
        block: the item with its trials.
        agreement: how trials are compared with recordings.
        variation: how often reads vary by themselves, as `read_variation` returns it.
    """
    old = [*_ended(block, Lane.OLD), *_ended(block, Lane.OLD2)]
    new = _ended(block, Lane.NEW)
    if not old or not new:
        return None
    before, after = (_effects(block, trials, agreement) for trials in (old, new))
    shares = {change: after[change] / len(new) - before[change] / len(old) for change in {*before, *after}}
    away = sorted((change.kind, -share, change.tool) for change, share in shares.items() if share > 0)
    if away:
        kind, share, tool = away[0]
        change = EffectDifference(kind, tool)
        counts = f"new {after[change]} of {len(new)} trials, old {before[change]} of {len(old)}"
        return ItemChange(kind=kind, share=-share, what=change.text, counts=counts)
    if reads := _reads(block, agreement, variation or {}):
        return reads
    nearer = min(((share, change) for change, share in shares.items() if share < 0), default=None)
    if nearer is None:
        return None
    share, change = nearer
    counts = f"old {before[change]} of {len(old)} trials, new {after[change]} of {len(new)}"
    return ItemChange(
        kind=ItemChangeKind.NEARER, share=-share, what=f"less often {change.text}", counts=counts
    )


def _ended(block: Block, lane: Lane) -> list[Trial]:
    return [trial for trial in trials_of(block, lane) if not trial.status.is_error]


def _effects(block: Block, trials: Sequence[Trial], agreement: RecordingRules) -> Counter[EffectDifference]:
    """Count the trials that show each difference from what the recording changed."""
    return Counter(
        change
        for trial in trials
        for change in set(effect_changes(block.item, trial, agreement.effects, agreement.settings))
    )


def _reads(block: Block, agreement: RecordingRules, variation: Mapping[str, float]) -> ItemChange | None:
    """Return which tools that only read are called more or less often, beyond what the old version varies."""
    old, repeat, new = (_read_counts(block, lane, agreement) for lane in (Lane.OLD, Lane.OLD2, Lane.NEW))
    repeats, crossed = _repeats(old, repeat), list(product((*old, *repeat), new))
    names = {name for counts in (*old, *repeat, *new) for name in counts}
    shares = {
        name: _differing(name, crossed) - max(_differing(name, repeats), variation.get(name, 0.0))
        for name in names
    }
    changed = sorted(name for name, share in shares.items() if share >= _MOSTLY)
    if not changed:
        return None
    dropped = [name for name in changed if not any(counts[name] for counts in new)]
    text = f"no longer calls {listed(dropped)}" if dropped else f"calls {listed(changed)} more or less often"
    return ItemChange(kind=ItemChangeKind.READS, share=max(shares[name] for name in changed), what=text)


def _differing(name: str, pairs: Sequence[tuple[Counter[str], Counter[str]]]) -> float:
    """Return the share of pairs of trials that call a tool a different number of times; 0 without pairs."""
    return sum(first[name] != second[name] for first, second in pairs) / len(pairs) if pairs else 0.0


_Counts = Counter[str]
"""How often a trial calls each tool that only reads."""


def _read_counts(block: Block, lane: Lane, agreement: RecordingRules) -> list[_Counts]:
    return [
        Counter(
            served.call.name for served in trial.served if not agreement.effects.changes(served.call.name)
        )
        for trial in _ended(block, lane)
    ]


def _repeats(old: Sequence[_Counts], repeat: Sequence[_Counts]) -> list[tuple[_Counts, _Counts]]:
    """Return the pairs of old trials that show how the old version varies, of both lanes where it has two."""
    return list(product(old, repeat)) if repeat else list(combinations(old, 2))
