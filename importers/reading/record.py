"""Records of a file, errors in their place, and the unpacked bytes that they are read from.

A gzip file may unpack to a thousand times its size. It is never unpacked completely, and past `BOMB_BYTES` a
file that grew more than `BOMB_TIMES` is given up.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

from replaydiff.importers.base import EXCERPT_CHARACTERS, STORED_CHARACTERS, InputFile
from replaydiff.replay.model import Json
from replaydiff.replay.model.light import light_dataclass
from replaydiff.replay.store.sql import clean_text

RECORD_BYTES = 100_000_000
"""The largest record that is taken: what is larger would cost many times that in memory."""
TOO_LARGE = f"larger than {RECORD_BYTES // 1_000_000} MB, the most that one record may have"


class TooLargeError(ValueError):
    """A record is longer than `RECORD_BYTES`."""


@light_dataclass(frozen=True, slots=True)
class Record:
    """One value of a file."""

    line: int
    """1-based line on which it starts; the row, where a file has no lines."""
    value: Json


@dataclass(frozen=True, slots=True)
class Broken:
    """The content found instead of a value."""

    line: int
    reason: str
    excerpt: str
    text: str | None = None
    """All of it, where that is known and not too long."""


def broken(line: int, reason: str, start: str | bytes, *, whole: bool = False) -> Broken:
    """Return a broken record that starts with `start`, or is all of it."""
    shown = start[: EXCERPT_CHARACTERS * 4]
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
    return Broken(
        line, reason, clean_text(text[:EXCERPT_CHARACTERS]), _whole_record(start) if whole else None
    )


def _whole_record(text: str | bytes) -> str | None:
    if len(text) > STORED_CHARACTERS:
        return None
    try:
        return text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        return None


def why(error: Exception) -> str:
    """Return why a text is not JSON, for a person."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the line"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} (column {error.colno})"
    return f"not JSON: {error}"


GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 64 * 1024
BOMB_BYTES = 64 * 1024 * 1024
BOMB_TIMES = 200
"""Traces shrink to a tenth or, with long histories that repeat, to a fiftieth."""
DAMAGED = (EOFError, OSError, zlib.error)
"""What reading may raise half-way: see `damage`."""


class BombError(OSError):
    """A gzip file that unpacks to far more than any record does."""


def damage(error: BaseException) -> str:
    """Return the message for one of the `DAMAGED` errors."""
    if isinstance(error, BombError):
        return str(error)
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        return f"the file cannot be read from here on ({error.strerror or error})"
    return f"the gzip file is cut or damaged from here on ({error}); fetch it again"


@contextmanager
def opened(file: InputFile) -> Iterator[IO[bytes]]:
    """Return the file's bytes, unpacked where it is gzipped; `file.position` follows."""
    with open(file, "rb") as raw:  # noqa: PTH123 - an InputFile is a path
        start = raw.read(2)
        raw.seek(0)
        tracked = io.BufferedReader(_Tracked(raw, file), buffer_size=CHUNK)
        if start == GZIP_MAGIC:
            with gzip.GzipFile(fileobj=tracked) as packed:
                yield io.BufferedReader(_Unpacked(packed, file), buffer_size=CHUNK)
        else:
            yield tracked


class _Tracked(io.RawIOBase):
    def __init__(self, raw: IO[bytes], file: InputFile) -> None:
        self._raw, self._file = raw, file
        file.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        size = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        self._file.position += size
        return int(size)


class _Unpacked(io.RawIOBase):
    def __init__(self, packed: gzip.GzipFile, file: InputFile) -> None:
        self._packed, self._file = packed, file
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = cast("memoryview", buffer)
        data = self._packed.read1(len(room))
        self._size += len(data)
        if self._size > BOMB_BYTES and self._size > BOMB_TIMES * self._file.position:
            raise BombError(
                f"the gzip file unpacks to more than {BOMB_TIMES} times its size, as no traces do; "
                "the rest of it was not read (if it is right, unpack it and import that)"
            )
        room[: len(data)] = data
        return len(data)
