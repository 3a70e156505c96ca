"""The triage of a run as a list: what to look at, in which order, and why. For a pipe, a script, a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replaydiff.cases.triage.priority import Entry, Priority, decision_key, prioritised_entries
from replaydiff.diff.result import DiffResult
from replaydiff.replay.model import effective_decisions
from replaydiff.replay.settings import Settings
from replaydiff.replay.terminal.plain import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SHOWN_ALIKE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A run, and what of it is to be looked at."""

    result: DiffResult
    entries: tuple[Entry, ...]
    decided: int
    """Items of the run that were promoted, dismissed or skipped before."""


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
    from replaydiff.replay.store.decisions import decisions

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
    """The near-duplicates of an entry in words; empty where it has none."""
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
