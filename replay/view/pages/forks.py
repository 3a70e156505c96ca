"""A run of forks: each edit, and the trial as it was beside the fork, call by call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from replaydiff.replay.model import ServedCall, Trial
from replaydiff.replay.terminal.lanes import pairs
from replaydiff.replay.terminal.text import visible
from replaydiff.replay.view.pages.traces import Part, call_part, shortened
from replaydiff.replay.view.site import Site

if TYPE_CHECKING:
    from replaydiff.replay.fork.forks import ForkedFact, ForkResult
    from replaydiff.replay.view.cache import Cached


@dataclass(frozen=True, slots=True)
class _Row:
    """A call of the trial as it was and the same place of its fork; None where one has no call there."""

    left: Part | None
    right: Part | None
    label: str = ""
    """What begins here: the edit, or the first difference that follows from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One edit as the page shows it."""

    edit: str
    tone: str
    verdict: str
    counts: str
    rows: tuple[_Row, ...]
    left: str
    right: str
    """How both ended: the answer, else the reason."""
    status: tuple[str, str]


def page(site: Site, cached: Cached[ForkResult | None], of: str) -> Response:
    """Show the forks of a trial; `of` is the run of that trial."""
    result = cached.value
    assert result is not None  # noqa: S101 - the caller has looked
    return site.page(
        "fork.html.j2",
        cached,
        area="runs",
        run=result.run,
        item=visible(result.item),
        version=result.version,
        of=of,
        facts=[_shown(fact) for fact in result.facts],
    )


def _shown(fact: ForkedFact) -> _Shown:
    left, right = fact.shown or (None, None)
    return _Shown(
        edit=fact.edit,
        tone="unsure" if fact.matters else "unchanged",
        verdict=fact.verdict,
        counts=f"{fact.counts}; {fact.hint}" if fact.hint else fact.counts,
        rows=tuple(_rows(left, right, fact.at)) if left and right else (),
        left=_end(left),
        right=_end(right),
        status=("" if left is None else left.status.value, "" if right is None else right.status.value),
    )


def _rows(left: Trial, right: Trial, at: int) -> list[_Row]:
    rows, number, marked = [], 0, False
    for pair in pairs(left.served, right.served):
        number += pair.left is not None
        label = ""
        if at and pair.left is not None and number == at:
            label = "edited result"
        elif pair.sign != "=" and not marked:
            label, marked = "first difference", True
        rows.append(_Row(_part(pair.left), _part(pair.right), label))
    return rows


def _part(served: ServedCall | None) -> Part | None:
    return None if served is None else call_part(served.call)


def _end(trial: Trial | None) -> str:
    return "" if trial is None else shortened(trial.final_response or trial.reason or "–")
