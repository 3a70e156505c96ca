"""Cases in quarantine, where two versions are compared: in no figure, in no gate, and reported beside them.

(One version alone counts them in `diff.groups`, without a vote.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replaydiff.diff.alone import quarantined
from replaydiff.diff.reading import Read
from replaydiff.diff.result import DiffResult, ItemVerdict
from replaydiff.replay.model import Run

_SHOWN = 5


def set_aside(run: Run, read: Read) -> tuple[Read, Read | None]:
    """What counts, and the blocks of cases in quarantine; None where there are none, or one lane alone."""
    aside = [block for block in read.blocks if quarantined(block.item)]
    if not aside or len(run.lanes) == 1:
        return read, None
    held = [block for block in read.blocks if not quarantined(block.item)]
    return replace(read, blocks=held, items=read.items - len(aside)), replace(
        read, blocks=aside, items=len(aside)
    )


def reported(result: DiffResult, aside: DiffResult) -> DiffResult:
    """The result with the verdicts on the cases in quarantine, worked out among themselves."""
    return replace(result, quarantined=aside.items, warnings=(*result.warnings, _told(aside.items)))


def _told(items: Sequence[ItemVerdict]) -> str:
    """`2 cases are in quarantine and in no figure: a (regressed; Ada, since 2026-11-02), b (unchanged)`."""
    named = []
    for item in items[:_SHOWN]:
        kept = item.item.quarantine
        said = [kept.owner, kept.since and f"since {kept.since}"] if kept else []
        who = ", ".join(part for part in said if part)
        named.append(f"{item.item.id} ({item.verdict.value}{f'; {who}' if who else ''})")
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    are = "case is" if len(items) == 1 else "cases are"
    return f"{len(items)} {are} in quarantine and in no figure: {', '.join(named)}{more}"
