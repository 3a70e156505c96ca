"""JSON lines: one value a line, each parsed by itself. This is what large exports are made of."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import IO

from importers.base import InputFile
from importers.reading.record import RECORD_BYTES, TOO_LARGE, Broken, Record, broken, why
from importers.reading.unpacked import CHUNK, opened
from replay.messages import parse


def lines(file: InputFile) -> Iterator[Record | Broken]:
    """The value of each line that has one."""
    with opened(file) as stream:
        number = 0
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
                number += _skip_blank(stream)
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
