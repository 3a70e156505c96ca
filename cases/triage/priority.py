"""Which items of a run a person should look at, in which order, and why each is there.

1. regressed, the worst first                4. trials that diverged or ended in an error
2. mixed                                     5. odd ones: unlike anything in the golden set or in the rest of
3. a judge that disagrees with itself           the month, bad scores, errors, loops, long paths, high cost

What was promoted, dismissed or skipped is left out. Near-duplicates (the same question about another order)
stand as one entry, under the first of them.

The queue of a run is that list with its run, for a pipe, a script, a glance, or the session at a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from replaydiff.diff.blocks import judged_trials, trials_of
from replaydiff.diff.result import DiffResult, ItemVerdict, Verdict
from replaydiff.replay.cycles import no_cycle_search
from replaydiff.replay.model import Case, Decision, GradeState, Lane, Status, effective_decisions
from replaydiff.replay.settings import Settings
from replaydiff.replay.terminal.text import one_line

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
    JUDGE_DISAGREES = 3
    NOT_FINISHED = 4
    ODD = 5
    REST = 6


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
        """What a decision about the entry is stored under."""
        return decision_key(self.item)


def prioritised_entries(
    con: DuckDBPyConnection,
    result: DiffResult,
    golden: Sequence[Case],
    decided: Mapping[str, Decision],
    *,
    everything: bool = False,
) -> list[Entry]:
    """The entries in their order; `everything` adds the items that nothing speaks for, at the end."""
    items = [item for item in result.items if decision_key(item) not in decided]
    reasons = {item.item.id: list(_of_run(item)) for item in items}
    for name, odd in _odd(con, items, golden).items():
        reasons[name] += [(Priority.ODD, reason) for reason in odd]
    entries = [
        Entry(
            item=item,
            kind=reasons[item.item.id][0][0],
            reasons=tuple(reason for _, reason in reasons[item.item.id]),
        )
        for item in items
        if reasons[item.item.id]
    ]
    if everything:
        entries += [
            Entry(item=item, kind=Priority.REST, reasons=(str(item.verdict),))
            for item in items
            if not reasons[item.item.id]
        ]
    return _grouped(sorted(entries, key=lambda entry: (entry.kind, *_weight(entry))))


def decision_key(item: ItemVerdict) -> str:
    """What a decision about an item is stored under: its trace, else the item itself."""
    return item.item.trace_id or item.item.id


def _of_run(item: ItemVerdict) -> Iterator[tuple[Priority, str]]:
    """Return the run's signals about an item."""
    changed = [
        f"{name}: {metric.reason}"
        for name, metric in item.metrics.items()
        if metric.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
    ]
    if item.verdict is Verdict.REGRESSED:
        yield from ((Priority.REGRESSED, reason) for reason in changed)
    elif item.verdict is Verdict.MIXED:
        yield from ((Priority.MIXED, reason) for reason in changed)
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
        ended = [one for one in trials if one.status is not Status.OK]
        if ended:
            count = f"{len(ended)} of {len(trials)} {lane} trials"
            reason = f": {ended[0].reason}" if ended[0].reason else ""
            yield Priority.NOT_FINISHED, f"{count} {ended[0].status.value}{reason}"


def _odd(
    con: DuckDBPyConnection, items: Sequence[ItemVerdict], golden: Sequence[Case]
) -> dict[str, list[str]]:
    """What is odd about the items, by item id."""
    from replaydiff.cases.similarity import nearest, vectors
    from replaydiff.cases.triage.signals import inputs_of_month, signals_of

    if not items:
        return {}
    traces = {item.item.trace_id: item.item.id for item in items if item.item.trace_id}
    found = {traces[trace_id]: reasons for trace_id, reasons in signals_of(con, list(traces)).items()}
    month = inputs_of_month(con, list(traces))
    texts = [item.item.input for item in items]
    # All in one space, so that a word is as rare for the one as for the other.
    rows = vectors([*texts, *(case.input for case in golden), *(text for _, text in month)])
    after_texts, after_cases = len(texts), len(texts) + len(golden)
    of_entries, cases = rows.take(range(after_texts)), rows.take(range(after_texts, after_cases))
    rest = rows.take(range(after_cases, len(rows)))
    if golden:
        known = list(nearest(of_entries, cases))
        limit = _novel([likeness for _, likeness in known])
        for item, (place, likeness) in zip(items, known, strict=True):
            if likeness < limit:
                found.setdefault(item.item.id, []).append(
                    f"unlike every case of the golden set (the nearest is {golden[place].id}, {likeness:.2f})"
                )
    place_of = {trace_id: place for place, (trace_id, _) in enumerate(month)}
    own = [place_of.get(item.item.trace_id or "") for item in items]
    usual = list(nearest(of_entries, rest, but=own)) if len(month) > 1 else []
    limit = _novel([likeness for _, likeness in usual])
    for item, (_, likeness) in zip(items, usual, strict=bool(usual)):
        if likeness < limit:
            found.setdefault(item.item.id, []).append(
                f"unlike every other trace of the month ({likeness:.2f})"
            )
    return found


def _novel(likenesses: Sequence[float]) -> float:
    """Below this a text is unlike the others: a golden set of ten cases is unlike most of a month."""
    ordered = sorted(likenesses)
    return min(NOVEL, ordered[len(ordered) // NOVEL_SHARE]) if ordered else 0.0


def _weight(entry: Entry) -> tuple[float, int, str]:
    """Within a class: the largest loss, then the most reasons, then the id."""
    deltas = [metric.delta for metric in entry.item.metrics.values() if metric.delta is not None]
    return min(deltas, default=0.0), -len(entry.reasons), entry.item.item.id


def _grouped(entries: Sequence[Entry]) -> list[Entry]:
    from replaydiff.cases.similarity import groups, vectors

    leaders = groups(vectors([entry.item.item.input for entry in entries]), ALIKE)
    alike: dict[int, list[ItemVerdict]] = {}
    shown: dict[tuple[object, ...], int] = {}
    for index, (entry, leader) in enumerate(zip(entries, leaders, strict=True)):
        # What is odd about the one says nothing of the other.
        key = (leader, entry.kind, *(entry.reasons if entry.kind is Priority.ODD else ()))
        first = shown.setdefault(key, index)
        if first != index:
            alike.setdefault(first, []).append(entry.item)
    return [
        Entry(
            item=entries[index].item,
            kind=entries[index].kind,
            reasons=entries[index].reasons,
            alike=tuple(alike.get(index, ())),
        )
        for index in shown.values()
    ]


_SHOWN_ALIKE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A run, and what of it is to be looked at."""

    result: DiffResult
    entries: tuple[Entry, ...]
    decided: int
    """Items of the run that were promoted, dismissed or skipped before."""


@no_cycle_search()
def triage_queue(
    con: DuckDBPyConnection, run_id: str, settings: Settings, *, everything: bool, again: bool
) -> Queue:
    """What of a run is to be looked at.

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
    return Queue(
        result=result,
        entries=tuple(entries),
        decided=sum(decision_key(item) in decided for item in result.items),
    )


def kind(entry: Entry) -> str:
    """The class of an entry in words."""
    return entry.kind.name.lower().replace("_", " ")


def alike(entry: Entry) -> str:
    """Return the near-duplicates of an entry as text; empty if it has none."""
    names = [one_line(item.item.id, 40) for item in entry.alike]
    shown = ", ".join(names[:_SHOWN_ALIKE])
    return f"{shown} and {len(names) - _SHOWN_ALIKE} more" if len(names) > _SHOWN_ALIKE else shown


def document(found: Queue) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "run": found.result.run.id,
        "decided": found.decided,
        "entries": [
            {
                "id": entry.item.item.id,
                "trace_id": entry.item.item.trace_id,
                "kind": kind(entry),
                "verdict": str(entry.item.verdict),
                "reasons": list(entry.reasons),
                "alike": [item.item.id for item in entry.alike],
                "input": entry.item.item.input,
            }
            for entry in found.entries
        ],
    }


def text(found: Queue, width: int) -> str:
    """The list at a width."""
    run = found.result.run.id
    if not found.entries:
        rest = f"; {found.decided} of its items were decided" if found.decided else ""
        return f"run {run}: nothing to look at{rest}"
    lines = [f"run {run}: {_counts(found.entries)} to look at, {found.decided} decided before"]
    for number, entry in enumerate(found.entries, start=1):
        more = f"  and {len(entry.alike)} alike" if entry.alike else ""
        lines += ["", f"{number:>3}  {kind(entry)}  {one_line(entry.item.item.id, 40)}{more}"]
        lines += [f"     {one_line(reason, width - 5)}" for reason in entry.reasons]
        lines.append(f"     input: {one_line(entry.item.item.input, width - 12)}")
        if entry.alike:
            lines.append(f"     alike: {one_line(alike(entry), width - 12)}")
    first = one_line(found.entries[0].item.item.id, 60)
    return "\n".join(
        [*lines, "", f"next: replay triage {run} in a terminal, or replay show {first} --run {run}"]
    )


def _counts(entries: Sequence[Entry]) -> str:
    counts = Counter(entry.kind for entry in entries)
    parts = [f"{counts[one]} {one.name.lower().replace('_', ' ')}" for one in Priority if counts[one]]
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} ({', '.join(parts)})"
