"""Causes in triage: one page each, one key for each decision; and the cases that their examples become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from replaydiff.cases.golden import free_id
from replaydiff.cases.promote import RECORDING, Proposal, propose
from replaydiff.diff.cause_decisions import decisions_path, write_decisions
from replaydiff.diff.result import Cause, CauseState, DiffResult
from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Item, Lane, Trial
from replaydiff.replay.settings import Settings
from replaydiff.replay.terminal.lanes import lanes
from replaydiff.replay.terminal.text import read_key, show, single_line, terminal_width, wrapped

KEYS = "[a]ccept: intended  [r]eject: a regression  [s]kip  [?] keys  [q] to the items"
HELP = """\
a   accept: the new version may act so; the cause no longer counts
r   reject: it is a regression; the answer is HOLD for as long as a run shows it
    after a and r: y decides and adds the examples to the golden set, n decides only,
    any other key goes back
s   skip: the cause stays open
q   go to the items; what was decided is kept
"""
_DECISIONS = {"a": CauseState.ACCEPTED, "r": CauseState.REJECTED}
_LEAVE = ("q", "", "\x1b", "\x04")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedCause:
    """What a person decided about a cause."""

    cause: Cause
    state: CauseState
    promote: bool = False
    """Its examples are to become cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleCases:
    """The cases that the examples of decided causes become."""

    proposals: tuple[tuple[Item, Proposal], ...]
    refused: tuple[tuple[str, str], ...]
    """Items that become none, each with the reason."""


def propose_examples(
    result: DiffResult,
    causes: Sequence[Cause],
    state: CauseState,
    *,
    golden: Path,
    reviewer: str,
    completed: Mapping[str, tuple[Item, Trial]] | None = None,
    everything: bool = False,
) -> ExampleCases:
    """Propose a case for each example item: of an accepted cause with the new version's calls.

    Of a rejected cause a case expects what was recorded.

    Args:
        result: what changed in the run.
        causes: the causes that were decided.
        state: the decision; nothing is proposed for `open`.
        golden: the golden set, where the cases get free ids.
        reviewer: who decides.
        completed: items whose trial was stopped in the run, with the recording and the trial that
            completed it.
        everything: for each item that shows a cause, not only for its examples.
    """
    items = {verdict.item.id: verdict for verdict in result.items}
    chosen = dict.fromkeys(name for cause in causes for name in cause.names(everything=everything))
    expect = str(Lane.NEW) if state is CauseState.ACCEPTED else RECORDING
    proposals, refused = [], []
    for name in chosen if state is not CauseState.OPEN else ():
        item = items[name].item
        trials = tuple(graded.trial for lane in items[name].lanes.values() for graded in lane)
        if expect != RECORDING and completed and name in completed:
            item, trial = completed[name]
            trials = (trial,)
        try:
            proposal = propose(
                item,
                case_id=free_id(golden, item.id),
                reviewer=reviewer,
                at=utc_now(),
                run=result.run,
                trials=trials,
                expect=expect,
            )
        except InputError as error:
            refused.append((name, error.reason))
        else:
            proposals.append((item, proposal))
    return ExampleCases(proposals=tuple(proposals), refused=tuple(refused))


def cause_page(result: DiffResult, cause: Cause, position: str, width: int) -> str:
    """Return the page of a cause: what it is, how often, and one item in both versions."""
    lines = [
        single_line(f"{position}: cause {cause.id}", width),
        "",
        *wrapped(single_line(cause.text), width),
        *wrapped(cause.counts, width),
    ]
    if cause.also:
        lines += wrapped(single_line(f"the same trials: {'; '.join(cause.also)}"), width)
    items = {item.item.id: item for item in result.items}
    example = next((candidate for candidate in cause.examples if candidate.item in items), None)
    if example is not None:
        item = items[example.item]
        lines += ["", single_line(f"example {example.item}: {item.item.excerpt}", width)]
        trials = {
            lane: [graded.trial for graded in item.lanes.get(lane, ())] for lane in (Lane.OLD, Lane.NEW)
        }
        old, new = _of(trials[Lane.OLD], example.old), _of(trials[Lane.NEW], example.new)
        if old is not None and new is not None:
            lines += ["", *lanes(old, new, width, lines=6)]
    return "\n".join([*lines, "", KEYS])


def review_causes(result: DiffResult, settings: Settings, person: str) -> list[ReviewedCause]:
    """Show each open cause and keep what the person decides; return the decisions."""
    open_ = [cause for cause in result.causes if cause.state is CauseState.OPEN]
    decided: list[ReviewedCause] = []
    for number, cause in enumerate(open_, 1):
        reviewed, key = None, ""
        while reviewed is None:
            click.clear()
            show(cause_page(result, cause, f"{number} of {len(open_)}", terminal_width()))
            while (key := read_key()) not in ("a", "r", "s", *_LEAVE):
                click.echo(HELP if key == "?" else KEYS)
            if key not in _DECISIONS:
                break
            reviewed = _confirmed(cause, _DECISIONS[key])
        if key in _LEAVE:
            break
        if reviewed is not None:
            write_decisions(
                decisions_path(settings), [cause], reviewed.state, run=result.run.id, by=person, at=utc_now()
            )
            decided.append(reviewed)
    return decided


def _confirmed(cause: Cause, state: CauseState) -> ReviewedCause | None:
    """Ask whether a decision is meant, and whether the cause's examples become cases; None to go back."""
    number = len(cause.examples)
    expected = "what the new version does" if state is CauseState.ACCEPTED else "what was recorded"
    examples = f" and add its {number} example{'s' * (number > 1)} to the golden set, expecting {expected}"
    question = f"{state}:  [y]es{examples if number else ''}  [n] {state} only  any other key goes back"
    show("\n".join(wrapped(question, terminal_width())))
    key = read_key()
    if key not in ("y", "n"):
        return None
    return ReviewedCause(cause=cause, state=state, promote=key == "y" and number > 0)


def _of(trials: Sequence[Trial], index: int | None) -> Trial | None:
    return next((trial for trial in trials if trial.index == index), None)
