"""`auto`: which importer a file is for, told by its first records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from importers.base import BUILTIN, Importer, InputFile, importer
from importers.reading import Record, records
from replay.errors import InputError
from replay.model import Json

LOOKED_AT = 5
"""Records of a file that decide."""
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
    values = [found.value for found in islice(records(file), LOOKED_AT) if isinstance(found, Record)]
    if not values:
        raise InputError(f"{file.name}: none of its first records can be read, so its source cannot be told")
    best, second = sorted(guesses(values), key=lambda guess: -guess.sure)[:2]
    if best.sure >= SURE and best.sure - second.sure >= APART:
        return best.importer
    first, other = best.importer.NAME, second.importer.NAME
    if best.sure == 0:
        raise InputError(
            f"{file.name}: no importer knows these records ({_keys(values[0])}); say which source it is: "
            f"{', '.join(BUILTIN)}"
        )
    raise InputError(
        f"{file.name} may be for {first} ({best.sure:.0%}) or {other} ({second.sure:.0%}); say which: "
        f"`replay import {first} {file.name}`"
    )


def guesses(values: Sequence[Json]) -> list[Guess]:
    """What every built-in importer thinks of these records, in the order of the table."""
    found = []
    for name in BUILTIN:
        candidate = importer(name)
        found.append(Guess(candidate, sum(map(candidate.recognises, values)) / len(values)))
    return found


def _keys(value: Json) -> str:
    if not isinstance(value, dict):
        return "they are no objects"
    names = ", ".join(list(value)[:6])
    return f"they have {names}{', …' if len(value) > 6 else ''}" if names else "they are empty"
