"""The text of a golden set's file: which form it is written in, and the pieces that may be cases."""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from replaydiff.replay.errors import InputError

BOM = "\ufeff"
DEEPEST = 100
"""How deep a case may be nested; deeper ones are no case, and would exhaust whoever walks over them."""
_GZIP = b"\x1f\x8b"
_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}


class Form(StrEnum):
    """The file formats of a golden set."""

    LINES = "jsonl"
    ARRAY = "json"
    YAML = "yaml"
    CSV = "csv"


def form_of(path: Path, text: str) -> Form:
    """Detect the form by the file name, and for JSON by the first character: a `.jsonl` file may be an
    array."""
    ending = path.suffix.lower()
    if ending in (".yaml", ".yml"):
        return Form.YAML
    if ending in (".csv", ".tsv"):
        return Form.CSV
    if text.lstrip(f"{BOM} \t\r\n").startswith("["):
        return Form.ARRAY
    return Form.ARRAY if ending == ".json" and not text.strip(f"{BOM} \t\r\n") else Form.LINES


def read_text(path: Path, *, unpack: bool = False) -> str:
    """Return the text of a file, its byte order mark included.

    Args:
        path: the file.
        unpack: read a file that is packed with gzip, which cannot be written back.

    Raises:
        InputError: it cannot be read, or is not UTF-8.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", hint="name a golden set") from None
    if unpack and raw.startswith(_GZIP):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is not a readable gzip file: {error}", hint="fetch it again") from None
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            raise InputError(f"{path} is {name} text; save it as UTF-8")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None


def line_at(text: str, index: int) -> int:
    """Return the line, from 1, of a position in a text."""
    return text.count("\n", 0, index) + 1


def too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested deeper than `DEEPEST`."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def allow_long_cells() -> None:
    """Let the csv module read cells of any length; a tape in a cell is soon over its 128 KB."""
    csv.field_size_limit(1 << 31)


class FormError(InputError):
    """A text is not of the form it should be; `line` is where, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        """Create the error, whose text does not name the line; the caller that knows the file adds both."""
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Piece:
    """Position of a case in the text of its file."""

    line: int
    """Of the file, from 1, where it begins."""
    start: int
    """Of the text that is the case's own, as an index into the file's text; its own comments included."""
    end: int
    """Where what is not its own begins."""
    record: Any
    """What was read there, or the `InputError` that says why nothing could be."""

    @property
    def broken(self) -> bool:
        """Return whether nothing could be read."""
        return isinstance(self.record, InputError)
