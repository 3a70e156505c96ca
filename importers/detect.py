"""`auto`: which importer a file is for, told by its first records.

Every importer says how sure it is of each record, those of other distributions too. Records that nobody
knows say nothing (a header, a manifest, lines that an agent keeps for itself): the first few that somebody
knows decide.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice

from replaydiff.importers.base import BUILTIN, GROUP, Importer, InputFile, importer
from replaydiff.importers.reading import Record, records
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Json

LOOKED_AT = 5
"""Records that decide …"""
LOOKED_FOR = 200
"""… among so many at the beginning of the file."""
SURE = 0.5
"""The best guess must be at least this sure …"""
APART = 0.15
"""… and this much surer than the next."""


@dataclass(frozen=True, slots=True)
class Guess:
    """How sure one importer is of a file."""

    importer: Importer
    sure: float


def detect(file: InputFile) -> Importer:
    """The importer for this file.

    Raises:
        InputError: no record can be read, no importer knows them, or two are about as sure.
    """
    candidates = importers()
    first: list[Json] = []
    certainties: list[list[float]] = []
    for found in islice(records(file), LOOKED_FOR):
        if isinstance(found, Record):
            first = first or [found.value]
            sure = [_sure(candidate, found.value) for candidate in candidates]
            if any(sure):
                certainties.append(sure)
        if len(certainties) == LOOKED_AT:
            break
    if not first:
        raise InputError(f"{file.name}: none of its first records can be read, so its source cannot be told")
    if not certainties:
        raise InputError(
            f"{file.name}: no importer knows these records ({_keys(first[0])}); say which source it is: "
            f"{', '.join(candidate.NAME for candidate in candidates)}"
        )
    guesses = [
        Guess(candidate, sum(column) / len(certainties))
        for candidate, column in zip(candidates, zip(*certainties, strict=True), strict=True)
    ]
    best, second = sorted(guesses, key=lambda guess: -guess.sure)[:2]
    if best.sure >= SURE and best.sure - second.sure >= APART:
        return best.importer
    one, other = best.importer.NAME, second.importer.NAME
    rest = f" or {other} ({second.sure:.0%}); say which" if second.sure else "; say so if it is"
    raise InputError(
        f"{file.name} may be for {one} ({best.sure:.0%}){rest}: `replay import {one} {file.name}`"
    )


def importers() -> list[Importer]:
    """All importers: the built-in ones, then those of other distributions that can be loaded."""
    return [*map(importer, BUILTIN), *_of_other_distributions(tuple(sys.path))]


@cache
def _of_other_distributions(_path: tuple[str, ...]) -> list[Importer]:
    """Once for each place that is looked in: reading entry points costs more than reading a small file."""
    from importlib.metadata import entry_points

    found: list[Importer] = []
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name not in BUILTIN:
            # A broken distribution must not stop `auto` for the others.
            with suppress(Exception):
                found.append(entry.load())
    return found


def _sure(candidate: Importer, record: Json) -> float:
    try:
        return candidate.recognises(record)
    except Exception:  # noqa: BLE001 - a record that an importer stumbles over is none of its own
        return 0.0


def _keys(value: Json) -> str:
    if not isinstance(value, dict):
        return "they are no objects"
    names = ", ".join(name[:40] for name in list(value)[:6])
    return f"they have {names}{', …' if len(value) > 6 else ''}" if names else "they are empty"
