"""What a reader gives, value by value: a record, or what stands where one should be."""

from __future__ import annotations

import json
from dataclasses import dataclass

from replaydiff.importers.base import EXCERPT_CHARACTERS, KEPT_CHARACTERS
from replaydiff.replay.model import Json
from replaydiff.replay.store.text import clean_text

RECORD_BYTES = 100_000_000
"""The largest record that is taken: what is larger would cost many times that in memory."""
TOO_LARGE = f"larger than {RECORD_BYTES // 1_000_000} MB, the most that one record may have"


@dataclass(frozen=True, slots=True)
class Record:
    """One value of a file."""

    line: int
    """1-based line on which it starts; the row, where a file has no lines."""
    value: Json


@dataclass(frozen=True, slots=True)
class Broken:
    """What stands where a value should be."""

    line: int
    reason: str
    excerpt: str
    text: str | None = None
    """All of it, where that is known and not too long."""


def broken(line: int, reason: str, start: str | bytes, *, whole: bool = False) -> Broken:
    """A broken record that starts with `start`, or is all of it."""
    shown = start[: EXCERPT_CHARACTERS * 4]
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
    return Broken(line, reason, clean_text(text[:EXCERPT_CHARACTERS]), _kept(start) if whole else None)


def _kept(text: str | bytes) -> str | None:
    if len(text) > KEPT_CHARACTERS:
        return None
    try:
        return text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        return None


def why(error: Exception) -> str:
    """Why a text is no JSON, for a person."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the line"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} (column {error.colno})"
    return f"not JSON: {error}"
