"""Which cases of a golden set a check replays: all, those with a tag, those that a change bears on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replaydiff.replay.engine.items import GoldenSource, from_golden
from replaydiff.replay.errors import InputError
from replaydiff.replay.golden import read_golden
from replaydiff.replay.model import Version
from replaydiff.replay.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is to be checked; no source where no case is."""

    source: GoldenSource | None
    note: str | None
    """A sentence on what was left out; None where nothing was."""


def choose(
    golden: Path, tags: Sequence[str], changed: str | None, version: Version, settings: Settings
) -> Choice:
    """The cases to check; `changed` is a base revision (empty: the default branch), None for any case.

    Raises:
        InputError: there is no golden set, no case has such a tag, or the base is not known.
    """
    whole = from_golden(golden)
    if not tags and changed is None:
        return Choice(source=whole, note=None)
    cases = read_golden(golden)
    if tags:
        cases = [case for case in cases if set(tags) & set(case.tags)]
        if not cases:
            raise InputError(f"no case of {golden} has the tag {' or '.join(tags)}")
    if changed is None:
        return Choice(source=GoldenSource(str(golden), cases), note=None)
    from replaydiff.cases.changed import choose as choose_changed

    chosen = choose_changed(cases, golden, version, settings, changed)
    note = f"{len(chosen.cases)} of {len(cases)} cases: {chosen.why}"
    source = GoldenSource(str(golden), chosen.cases) if chosen.cases else None
    return Choice(source=source, note=note)
