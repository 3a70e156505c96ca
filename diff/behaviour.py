"""Compare an agent's behaviour with a recording that is not trusted.

Somebody vouches for what a case expects, for a recording that `[match] trust` covers, and for one that was
corrected by hand. Any other recording only shows what production did. A version that acts otherwise may be
better or worse, so likeness to it (*agreement*) can show that behaviour changed, and never that it got worse.

How much an item's behaviour changed is the share of pairs of an old and a new trial that act differently,
less the share of pairs of two old trials that do (of `old` against `old2` where there is an A/A lane). Two
trials act alike when their tool calls match by the rules of `[match]`. A trial that errored is taken to act
differently where that is the worst case, and is left out of the estimate.

An argument that is *free text* (a summary, a message) is worded anew in every trial. It is found by that: its
texts differ between trials of one version on several items. It does not count in agreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from replaydiff.diff.blocks import Patterns, regraded_lanes
from replaydiff.diff.comparison import Comparison
from replaydiff.diff.graders import tool_calls
from replaydiff.diff.reading import RunData
from replaydiff.diff.result import Block, Kind, MetricDelta
from replaydiff.diff.statistics import paired
from replaydiff.replay.model import CORRECTION, Grade, Item, Lane, Trial
from replaydiff.replay.settings import Settings, ToolSection
from replaydiff.replay.settings.toml import toml_text, tool_table

RECORDING = "recording"
"""Name of the agreement metric where `tool_calls` is about the items that somebody vouches for."""
MOSTLY = 0.5
"""From this share of changed pairs on an item's behaviour counts as changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouching:
    """The items of a run whose reference is known to be right."""

    unvouched: frozenset[str]
    """Ids of the items whose recording is only what production did."""
    mixed: bool
    """Whether there are others."""

    def kind(self, metric: str) -> Kind:
        """What a metric's figures say."""
        recorded = metric == tool_calls.NAME and bool(self.unvouched) and not self.mixed
        return Kind.AGREEMENT if recorded or metric == RECORDING else Kind.QUALITY

    def covers(self, metric: str, item: Item) -> bool:
        """Whether an item belongs to a metric."""
        if metric == RECORDING:
            return item.id in self.unvouched
        return metric != tool_calls.NAME or not self.mixed or item.id not in self.unvouched


def vouched(blocks: Sequence[Block], settings: Settings, trusted: frozenset[str]) -> Vouching:
    """Return the items whose reference is known to be right; `trusted` are the traces that match `[match]
    trust`."""
    held = [block.item for block in blocks if tool_calls.applies(block.item, settings)]
    unvouched = frozenset(item.id for item in held if not _is_vouched(item, settings, trusted))
    return Vouching(unvouched=unvouched, mixed=0 < len(unvouched) < len(held))


def _is_vouched(item: Item, settings: Settings, trusted: frozenset[str]) -> bool:
    if item.expectation is not None or settings.match.trust is True:
        return True
    return item.trace_id in trusted or bool(item.metadata.get(CORRECTION))


def regraded(read: RunData, vouching: Vouching, settings: Settings) -> RunData:
    """The blocks with unvouched items graded by these settings, under the name their metric has."""
    if not vouching.unvouched:
        return read
    name = RECORDING if vouching.mixed else tool_calls.NAME

    def regrade(item: Item, trial: Trial, before: dict[str, Grade]) -> dict[str, Grade]:
        grades = {key: grade for key, grade in before.items() if key != tool_calls.NAME}
        grade = tool_calls.grade(item, trial, settings)
        return grades if grade is None else {name: replace(grade, grader=name), **grades}

    def changed(block: Block) -> Block:
        if block.item.id not in vouching.unvouched:
            return block
        return replace(block, lanes=regraded_lanes(block, regrade))

    return read.changed(changed)


_SEVERAL = 3
"""On so many items an argument's texts must differ within a version …"""
_LONG = 40
"""… and such a text has a space in it or is longer than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeText:
    """An argument that one version words differently in every trial."""

    tool: str
    argument: str
    items: int
    """On so many its texts differ between trials of one version."""

    @property
    def rule(self) -> str:
        """The setting that takes it out of every comparison, and lets any wording be answered by the tape."""
        return f"{tool_table(self.tool)} ignore_args = [{toml_text(self.argument)}]"


def free_text(patterns: Patterns, settings: Settings) -> tuple[FreeText, ...]:
    """The arguments that are free text, those that no setting leaves out of comparisons already."""
    found: Counter[tuple[str, str]] = Counter()
    for block, times in patterns.counted():
        here: set[tuple[str, str]] = set()
        for lanes in ((Lane.OLD, Lane.OLD2), (Lane.NEW,)):
            done = [one.trial for lane in lanes for one in block.lanes.get(lane, ())]
            here |= _reworded(done)
        for argument in here:
            found[argument] += times
    return tuple(
        FreeText(tool=tool, argument=argument, items=items)
        for (tool, argument), items in sorted(found.items())
        if items >= _SEVERAL and not tool_calls.ignores(tool, argument, settings)
    )


def without(settings: Settings, texts: Sequence[FreeText]) -> Settings:
    """The settings with these arguments left out of every comparison."""
    if not texts:
        return settings
    tools = dict(settings.tools)
    for text in texts:
        tool = tools.get(text.tool, ToolSection())
        tools[text.tool] = replace(tool, ignore_args=(*tool.ignore_args, text.argument))
    return replace(settings, tools=tools)


def _reworded(trials: Sequence[Trial]) -> set[tuple[str, str]]:
    """Tool and argument of every text that differs between these trials, at the same call of the tool."""
    texts: dict[tuple[str, int, str], set[str]] = {}
    for trial in trials:
        seen: Counter[str] = Counter()
        for served in trial.served:
            name = served.call.name
            for argument, value in served.call.args.items():
                if isinstance(value, str) and (" " in value.strip() or len(value) > _LONG):
                    texts.setdefault((name, seen[name], argument), set()).add(value)
            seen[name] += 1
    return {(name, argument) for (name, _, argument), values in texts.items() if len(values) > 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How much the behaviour of one item changed."""

    share: float | None
    """Share of pairs that act differently beyond what the old version does by itself; below 0 where the old
    version differs more from itself. None where a version has no trial that ended."""
    worst: float
    """The same if every trial that errored had acted differently."""

    @property
    def mostly(self) -> bool:
        """Whether the versions act differently more often than not."""
        return self.share is not None and self.share >= MOSTLY


UNCHANGED = Change(share=0.0, worst=0.0)


def change(block: Block, settings: Settings) -> Change:
    """How much the behaviour of an item changed."""
    old, new, again = (
        [one.trial for one in block.lanes.get(lane, ())] for lane in (Lane.OLD, Lane.NEW, Lane.OLD2)
    )
    ended = {lane: [trial for trial in done if not trial.status.is_error] for lane, done in
             ((Lane.OLD, old), (Lane.NEW, new), (Lane.OLD2, again))}  # fmt: skip
    before = [*ended[Lane.OLD], *ended[Lane.OLD2]]
    alike = _Alike(block.item, settings)
    own = (
        list(product(ended[Lane.OLD], ended[Lane.OLD2]))
        if ended[Lane.OLD2]
        else list(combinations(ended[Lane.OLD], 2))
    )
    noise = alike.differing(own) / len(own) if own else 0.0
    pairs = list(product(before, ended[Lane.NEW]))
    every = (len(old) + len(again)) * len(new)
    differing = alike.differing(pairs)
    return Change(
        share=differing / len(pairs) - noise if pairs else None,
        worst=(differing + every - len(pairs)) / every - noise if every else 1.0,
    )


class _Alike:
    """Whether two trials of an item act alike; equal ones are compared once."""

    def __init__(self, item: Item, settings: Settings) -> None:
        self._item, self._settings = item, settings
        self._known: dict[tuple[str, str], bool] = {}

    def differing(self, pairs: Sequence[tuple[Trial, Trial]]) -> int:
        return sum(not self._alike(one, other) for one, other in pairs)

    def _alike(self, one: Trial, other: Trial) -> bool:
        if one.served is other.served:
            return True
        key = (tool_calls.written_out(one), tool_calls.written_out(other))
        if key[0] == key[1]:
            return True
        if key not in self._known:
            self._known[key] = tool_calls.same_calls(self._item, one, other, self._settings)
        return self._known[key]


def share_changed(
    comparison: Comparison, items: Sequence[Item], changes: Sequence[Change]
) -> tuple[float, tuple[float, float] | None] | None:
    """The share of the population whose behaviour changed, and its interval; None without items.

    The interval's upper end takes trials that errored at their worst. At a look it has the level of SHIP.
    """
    pairs = zip(items, changes, strict=True)
    held = [(item, change) for item, change in pairs if change.share is not None]
    if not held:
        return None

    def grouped(values: Sequence[float]) -> paired.Clusters:
        return paired.weighted_clusters(
            values,
            [comparison.weight(item) for item, _ in held],
            [comparison.clusters[item.id] for item, _ in held],
        )

    estimate = grouped([one.share or 0.0 for _, one in held])
    worst = grouped([one.worst for _, one in held])
    ship, _ = comparison.tails
    ends = [paired.interval(found, tails=(ship, ship)) for found in (estimate, worst)]
    low, high = ends
    if low is None or high is None:
        return estimate.mean, None
    if comparison.drawn < 1:
        # A change is what a fall is to a score: here the upper end decides.
        mirrored = paired.with_unseen((-high[1], -high[0]), worst.negated, tails=(ship, 0.0))
        high = high[0], -mirrored[0]
    return estimate.mean, (low[0], high[1])


def free_text_warnings(texts: Sequence[FreeText], deltas: Mapping[str, MetricDelta]) -> Iterator[str]:
    """Yield what arguments that are free text do to the metrics, and the rule that leaves them out.

    Args:
        texts: the arguments.
        deltas: the metrics that are shown, by name.
    """
    calls = deltas.get(tool_calls.NAME)
    for text in texts:
        what = (
            f"the argument {text.argument} of {text.tool} is free text: its wording differs between trials "
            f"of one version on {text.items} items"
        )
        if calls is not None and calls.kind is Kind.QUALITY:
            yield f"{what}, and {tool_calls.NAME} counts it; if wording does not matter, write {text.rule}"
        else:
            yield f"{what}, so agreement leaves it out (explicitly: {text.rule})"
