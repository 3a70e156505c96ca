"""JSON lines: one value a line, each parsed by itself. This is what large exports are made of.

They are read in blocks of whole lines, which another process can take apart as well as this one.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from replaydiff.importers.base import InputFile
from replaydiff.importers.reading.record import RECORD_BYTES, TOO_LARGE, Broken, Record, broken, why
from replaydiff.importers.reading.unpacked import CHUNK, DAMAGED, opened
from replaydiff.replay.messages import parse

BLOCK_BYTES = 1024 * 1024
"""A block has about this much, or one line that is longer."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file; of a line that is too large the beginning, by which it is known."""

    line: int
    """1-based number of the first."""
    data: bytes

    @property
    def last_line(self) -> int:
        """The number of the last line that is not blank."""
        return self.line + self.data.rstrip().count(b"\n")


def blocks(file: InputFile) -> Iterator[Block]:
    """The lines of a file without blocks that are blank.

    Raises:
        EOFError, OSError, zlib.error: the file is damaged; the whole lines before were given.
    """
    with opened(file) as stream:
        line = 1
        while True:
            data, damage = _some_lines(stream)
            if data and not data.isspace():
                yield Block(line, data)
            if damage is not None:
                raise damage
            if not data:
                return
            line += data.count(b"\n")


def _some_lines(stream: IO[bytes]) -> tuple[bytes, Exception | None]:
    parts: list[bytes] = []
    size = 0
    try:
        while size < BLOCK_BYTES and (part := stream.read1(BLOCK_BYTES - size)):  # type: ignore[attr-defined]
            parts.append(part)
            size += len(part)
        data = b"".join(parts)
        if size < BLOCK_BYTES or _ends(data):
            return data, None
        rest = stream.readline(RECORD_BYTES)
        if not _ends(rest):
            _skip_line(stream)
        return data + rest, None
    except DAMAGED as error:
        lines, end, _ = b"".join(parts).rpartition(b"\n")
        return lines + end, error


def parsed(block: Block) -> Iterator[Record | Broken]:
    """The value of each line that has one."""
    stream = io.BytesIO(block.data)
    number = block.line - 1
    while line := stream.readline(RECORD_BYTES):
        number += 1
        if len(line) == RECORD_BYTES and not _ends(line):
            _skip_line(stream)
            yield broken(number, TOO_LARGE, line)
            continue
        text = line.strip()
        if number == 1:
            text = text.removeprefix(codecs.BOM_UTF8)
        if not text:
            continue
        try:
            yield Record(number, parse(text))
        except (ValueError, RecursionError) as error:
            yield broken(number, why(error), text, whole=True)


def first_line(stream: IO[bytes], size: int) -> bytes:
    """The first line that is not empty, without its mark; its beginning, where it is longer than `size`."""
    while line := stream.readline(size):
        text = line.removeprefix(codecs.BOM_UTF8).strip()
        if text:
            return text
        _skip_blank(stream)
    return b""


def _ends(line: bytes) -> bool:
    return line.endswith(b"\n")


def _skip_blank(stream: IO[bytes]) -> int:
    """Move over blank lines, many at a time: a small gzip file may hold a billion. How many lines it were."""
    skipped = 0
    while (ahead := stream.peek(1)) and not ahead.strip():  # type: ignore[attr-defined]
        skipped += stream.read(len(ahead)).count(b"\n")
    return skipped


def _skip_line(stream: IO[bytes]) -> None:
    while (rest := stream.readline(CHUNK)) and not _ends(rest):
        pass
