"""Which items of a run a person should look at, in which order, and why each is there.

1. regressed, the worst first
2. mixed
3. changed, the gravest change first         7. odd ones: unlike anything in the golden set or in the other
4. a judge that disagrees with itself           traces of the month, bad scores, errors, loops, long paths,
5. trials that diverged or ended in an error    high cost
6. nearer to the recording than before

Where only recordings that nobody vouches for can be compared with, what changed is ordered by how it changed
(`ItemChangeKind`), and only then by the verdict and by how many trials show it: calls that write and are
missing, extra, or on another object; other arguments; reads; answers. Where a judge compares pairs, those in
which it prefers the old response come before all of these. Nothing that changed is left out.

What was promoted, dismissed or skipped is left out. Near-duplicates (the same question about another order)
are one entry, under the first of them; so are items of which only the same reads, or the answer, changed.

The queue of a run is that list with its run, for a pipe, a script, a glance, or the session at a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from replaydiff.diff.blocks import judged_trials, trials_of
from replaydiff.diff.graders.base import PAIRWISE
from replaydiff.diff.result import DiffResult, ItemChangeKind, ItemVerdict, Kind, Verdict
from replaydiff.replay.model import Case, Decision, GradeState, Lane, Status, effective_decisions
from replaydiff.replay.settings import Settings
from replaydiff.replay.terminal.text import single_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ALIKE = 0.9
"""Inputs at least this similar are near-duplicates."""
NOVEL = 0.3
"""An input less similar than this to everything is unlike it …"""
NOVEL_SHARE = 10
"""… if it is among this part (one in ten) of the least similar."""
SPREAD = 0.5
"""Votes on one answer that lie this far apart disagree."""


class Priority(IntEnum):
    """Why an item is looked at, the most pressing first."""

    REGRESSED = 1
    MIXED = 2
    CHANGED = 3
    JUDGE_DISAGREES = 4
    NOT_FINISHED = 5
    NEARER = 6
    ODD = 7
    UNREMARKABLE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing to look at."""

    item: ItemVerdict
    kind: Priority
    reasons: tuple[str, ...]
    """In words; the first is why it is in its class."""
    alike: tuple[ItemVerdict, ...] = field(default=())
    """Near-duplicates of the same class, which are not shown on their own."""

    @property
    def key(self) -> str:
        """Return what a decision about the entry is stored under."""
        return decision_key(self.item)

    @property
    def title(self) -> str:
        """Return its class for people, such as `regressed`."""
        return self.kind.name.lower().replace("_", " ")


def prioritised_entries(
    con: DuckDBPyConnection,
    result: DiffResult,
    golden: Sequence[Case],
    decided: Mapping[str, Decision],
    *,
    everything: bool = False,
) -> list[Entry]:
    """Return the entries in their order.

    Args:
        con: the store, for what is odd about traces.
        result: what changed in the run.
        golden: the golden set.
        decided: what people decided, by `decision_key`.
        everything: whether to add the items that nothing speaks for, at the end.
    """
    items = [item for item in result.items if decision_key(item) not in decided]
    return ordered_entries(items, _odd(con, items, golden), everything=everything)


def ordered_entries(
    items: Sequence[ItemVerdict], odd: Mapping[str, Sequence[str]], *, everything: bool = False
) -> list[Entry]:
    """Return the entries of items in their order; see `prioritised_entries`.

    Args:
        items: those on which nobody decided.
        odd: what is odd about items, by id.
        everything: whether to add the items that nothing speaks for, at the end.
    """
    entries = []
    for item in items:
        reasons = list(_of_run(item))
        reasons += [(Priority.ODD, reason) for reason in odd.get(item.item.id, ())]
        if not reasons and everything:
            reasons = [(Priority.UNREMARKABLE, str(item.verdict))]
        if reasons:
            kind = min(priority for priority, _ in reasons)
            first = [reason for priority, reason in reasons if priority is kind]
            after = [reason for priority, reason in reasons if priority is not kind]
            entries.append(Entry(item=item, kind=kind, reasons=(*first, *after)))
    return _grouped(sorted(entries, key=_order))


def decision_key(item: ItemVerdict) -> str:
    """Return what a decision about an item is stored under: its trace, else the item itself."""
    return item.item.trace_id or item.item.id


def _of_run(item: ItemVerdict) -> Iterator[tuple[Priority, str]]:
    """Yield the run's signals about an item."""
    change = item.change
    moved = [
        f"{name}: {metric.reason}"
        for name, metric in item.metrics.items()
        if metric.verdict in (Verdict.REGRESSED, Verdict.IMPROVED, Verdict.CHANGED)
    ]
    if item.verdict in (Verdict.REGRESSED, Verdict.MIXED, Verdict.CHANGED):
        priority = Priority[item.verdict.name]
        if change is not None:
            yield priority, change.text
        yield from ((priority, reason) for reason in moved)
    elif change is not None:
        is_nearer = change.kind is ItemChangeKind.NEARER
        yield Priority.NEARER if is_nearer else Priority.CHANGED, change.text
    if _preference(item) < 0:
        yield Priority.CHANGED, "side by side the judge finds that the old response serves the user better"
    for lane, graded in judged_trials(item):
        for name, grade in graded.grades.items():
            votes = [
                vote.score
                for vote in grade.votes
                if vote.state is GradeState.SCORED and vote.score is not None
            ]
            if votes and max(votes) - min(votes) >= SPREAD:
                shown = ", ".join(f"{vote:.2f}" for vote in votes)
                yield (
                    Priority.JUDGE_DISAGREES,
                    f"{name} disagrees with itself on {lane} trial {graded.trial.index + 1}: {shown}",
                )
    for lane in (Lane.NEW, Lane.OLD):
        trials = trials_of(item, lane)
        stopped = [trial for trial in trials if trial.status is not Status.OK]
        if stopped:
            count = f"{len(stopped)} of {len(trials)} {lane} trials"
            reason = f": {stopped[0].reason}" if stopped[0].reason else ""
            yield Priority.NOT_FINISHED, f"{count} {stopped[0].status.value}{reason}"


def _odd(
    con: DuckDBPyConnection, items: Sequence[ItemVerdict], golden: Sequence[Case]
) -> dict[str, list[str]]:
    """Return what is odd about the items, by item id."""
    from replaydiff.cases.similarity import nearest, vectors
    from replaydiff.cases.triage.signals import inputs_of_month, signals_of

    if not items:
        return {}
    traces = {item.item.trace_id: item.item.id for item in items if item.item.trace_id}
    odd = {traces[trace_id]: reasons for trace_id, reasons in signals_of(con, list(traces)).items()}
    month = inputs_of_month(con, list(traces))
    texts = [item.item.input for item in items]
    # All in one space, so that a word is as rare for the one as for the other.
    rows = vectors([*texts, *(case.input for case in golden), *(text for _, text in month)])
    after_texts, after_cases = len(texts), len(texts) + len(golden)
    of_entries, cases = rows.take(range(after_texts)), rows.take(range(after_texts, after_cases))
    of_month = rows.take(range(after_cases, len(rows)))
    if golden:
        nearest_cases = list(nearest(of_entries, cases))
        limit = _novel([likeness for _, likeness in nearest_cases])
        for item, (number, likeness) in zip(items, nearest_cases, strict=True):
            if likeness < limit:
                odd.setdefault(item.item.id, []).append(
                    f"unlike every case of the golden set (the nearest is {golden[number].id}, "
                    f"{likeness:.2f})"
                )
    numbers = {trace_id: number for number, (trace_id, _) in enumerate(month)}
    themselves = [numbers.get(item.item.trace_id or "") for item in items]
    usual = list(nearest(of_entries, of_month, but=themselves)) if len(month) > 1 else []
    limit = _novel([likeness for _, likeness in usual])
    for item, (_, likeness) in zip(items, usual, strict=bool(usual)):
        if likeness < limit:
            odd.setdefault(item.item.id, []).append(f"unlike every other trace of the month ({likeness:.2f})")
    return odd


def _novel(likenesses: Sequence[float]) -> float:
    """Return the likeness below which a text is unlike the others, lower in a set of few cases."""
    ordered = sorted(likenesses)
    return min(NOVEL, ordered[len(ordered) // NOVEL_SHARE]) if ordered else 0.0


def _preference(item: ItemVerdict) -> int:
    """Return -1 where the judge prefers the old responses side by side, 1 the new ones, 0 neither."""
    pairs = item.metrics.get(PAIRWISE)
    delta = 0.0 if pairs is None else pairs.delta or 0.0
    return (delta > 0) - (delta < 0)


def _order(entry: Entry) -> tuple[Priority, int, int, int, float, float, int, str]:
    """Return what entries are sorted by.

    What a metric shows that somebody vouches for comes first, the largest loss first. What only differs from
    a recording comes after it: first where a judge prefers the old responses, then by how grave it is, the
    verdict, and how many trials show it.
    """
    change = entry.item.change
    deltas = [metric.delta for metric in entry.item.metrics.values() if metric.delta is not None]
    is_quality = any(
        metric.kind is Kind.QUALITY and metric.verdict is Verdict.REGRESSED
        for name, metric in entry.item.metrics.items()
        if name != PAIRWISE
    )
    priority = entry.kind
    if priority is Priority.REGRESSED and change is not None and not is_quality:
        priority = Priority.CHANGED
    return (
        priority,
        _preference(entry.item),
        0 if change is None else int(change.kind),
        int(entry.kind),
        0.0 if change is None else -change.share,
        min(deltas, default=0.0),
        -len(entry.reasons),
        entry.item.item.id,
    )


_FOLDED = (ItemChangeKind.READS, ItemChangeKind.ANSWER)
"""Items that changed in the same of these ways are one entry, whatever their inputs."""


def _grouped(entries: Sequence[Entry]) -> list[Entry]:
    from replaydiff.cases.similarity import groups, vectors

    leaders = groups(vectors([entry.item.item.excerpt for entry in entries]), ALIKE)
    alike: dict[int, list[ItemVerdict]] = {}
    shown: dict[tuple[object, ...], int] = {}
    for index, (entry, leader) in enumerate(zip(entries, leaders, strict=True)):
        first = shown.setdefault(_folded_by(entry, leader), index)
        if first != index:
            alike.setdefault(first, []).append(entry.item)
    return [replace(entries[index], alike=tuple(alike.get(index, ()))) for index in shown.values()]


def _folded_by(entry: Entry, leader: int) -> tuple[object, ...]:
    """Return what entries that are one have in common; `leader` is that of items with nearly its input."""
    change = entry.item.change
    if entry.kind is Priority.CHANGED and change is not None and change.kind in _FOLDED:
        return entry.kind, change.kind, change.text
    # What is odd about the one says nothing of another, nor does another change.
    if entry.kind is Priority.ODD:
        return leader, entry.kind, *entry.reasons
    return leader, entry.kind, None if change is None else change.kind


_SHOWN_ALIKE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageQueue:
    """The items of a run that a person should look at, in order of importance."""

    result: DiffResult
    """What changed in the run."""
    entries: tuple[Entry, ...]
    """With their reasons; near-duplicates are one entry."""
    decided: int
    """Items of the run that were promoted, dismissed or skipped before."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "run": self.result.run.id,
            "decided": self.decided,
            "entries": [
                {
                    "id": entry.item.item.id,
                    "trace_id": entry.item.item.trace_id,
                    "kind": entry.title,
                    "verdict": str(entry.item.verdict),
                    "reasons": list(entry.reasons),
                    "alike": [item.item.id for item in entry.alike],
                    "input": entry.item.item.input,
                }
                for entry in self.entries
            ],
        }

    def text(self, width: int = 100) -> str:
        """Return the list as text of a width."""
        run = self.result.run.id
        if not self.entries:
            before = f"; {self.decided} of its items were decided" if self.decided else ""
            return f"run {run}: nothing to look at{before}"
        lines = [f"run {run}: {_counts(self.entries)} to look at, {self.decided} decided before"]
        for number, entry in enumerate(self.entries, start=1):
            more = f"  and {len(entry.alike)} alike" if entry.alike else ""
            lines += ["", f"{number:>3}  {entry.title}  {single_line(entry.item.item.id, 40)}{more}"]
            lines += [f"     {single_line(reason, width - 5)}" for reason in entry.reasons]
            lines.append(f"     input: {single_line(entry.item.item.excerpt, width - 12)}")
            if entry.alike:
                lines.append(f"     alike: {single_line(alike(entry), width - 12)}")
        first = single_line(self.entries[0].item.item.id, 60)
        return "\n".join(
            [*lines, "", f"next: replay triage {run} in a terminal, or replay show {first} --run {run}"]
        )


def triage_queue(
    con: DuckDBPyConnection, run_id: str, settings: Settings, *, everything: bool, again: bool
) -> TriageQueue:
    """Return the queue of a run: the entries that need review.

    `everything` adds the items that nothing speaks for; `again` those that were skipped.

    Raises:
        UnknownNameError: there is no such run.
        InputError: the golden set cannot be read.
    """
    from replaydiff.diff.compute import compute
    from replaydiff.replay.golden import read_golden
    from replaydiff.replay.model import Action
    from replaydiff.replay.store.grades import decisions

    result = compute(con, run_id, settings)
    golden = read_golden(settings.golden_path) if settings.golden_path.exists() else []
    decided = {
        item: decision
        for item, decision in effective_decisions(decisions(con)).items()
        if not (again and decision.action is Action.SKIP)
    }
    entries = prioritised_entries(con, result, golden, decided, everything=everything)
    return TriageQueue(
        result=result,
        entries=tuple(entries),
        decided=sum(decision_key(item) in decided for item in result.items),
    )


def alike(entry: Entry) -> str:
    """Return the near-duplicates of an entry as text; empty if it has none."""
    names = [single_line(item.item.id, 40) for item in entry.alike]
    shown = ", ".join(names[:_SHOWN_ALIKE])
    return f"{shown} and {len(names) - _SHOWN_ALIKE} more" if len(names) > _SHOWN_ALIKE else shown


def _counts(entries: Sequence[Entry]) -> str:
    counts = Counter(entry.kind for entry in entries)
    parts = [
        f"{counts[priority]} {priority.name.lower().replace('_', ' ')}"
        for priority in Priority
        if counts[priority]
    ]
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} ({', '.join(parts)})"
