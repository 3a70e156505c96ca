"""CSV: the rows as objects of text. JSON in a cell stays text, and so does a cell that starts with `=`.

Cells may be of any size up to that of a record. A quote that is never closed would make the rest of the file
one cell: the reader is stopped at that size, and goes on where, by the count of the quotes, the row ends.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import IO

from replaydiff.importers.base import InputFile
from replaydiff.importers.reading.record import (
    CHUNK,
    RECORD_BYTES,
    TOO_LARGE,
    Broken,
    Record,
    TooLargeError,
    broken,
    opened,
)
from replaydiff.replay.store.text import clean

_escaped = re.compile("[\udc80-\udcff]")
"""Bytes that are no UTF-8, as the lone surrogates that stand for them."""


def is_csv(file: InputFile, first: bytes) -> bool:
    """By the name; or by the first line, since CSV of Langfuse quotes every cell and JSON never looks so."""
    if file.name.lower().removesuffix(".gz").endswith(".csv"):
        return True
    return first.startswith(b'"') and b'","' in first


def rows(file: InputFile) -> Iterator[Record | Broken]:
    """The rows below the header."""
    csv.field_size_limit(2**31 - 1)
    with opened(file) as stream:
        lines = _CsvLines(stream)
        reader = csv.reader(lines, strict=True)
        try:
            names = next(reader, [])
        except (csv.Error, TooLargeError) as error:
            yield Broken(1, f"the header is not CSV: {error}", "")
            return
        while True:
            line = lines.start_row()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except TooLargeError as error:
                lines.skip_row()
                yield broken(line, str(error), lines.row_start)
            except csv.Error as error:
                yield broken(line, f"not CSV: {error}", lines.row_start)
            else:
                if cells:
                    yield _row(line, names, cells)


def _row(line: int, names: list[str], cells: list[str]) -> Record | Broken:
    if len(cells) != len(names):
        reason = f"the row does not have the {len(names)} cells of the header"
        return broken(line, reason, ",".join(cell[:1_000] for cell in cells))
    if any(_escaped.search(cell) for cell in cells if not cell.isascii()):
        return broken(line, "not UTF-8", ",".join(cell[:1_000] for cell in cells))
    return Record(line, clean(dict(zip(names, cells, strict=True))))


class _CsvLines:
    """The lines of a file, as many as one row may have."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        self._line = 1
        self._size = 0
        self._in_quotes = False
        self._ended = True
        self.row_start = ""
        """The beginning of the row that is read."""

    def start_row(self) -> int:
        """Begin to count anew; the line at which the row starts."""
        self._size, self._in_quotes, self.row_start = 0, False, ""
        return self._line

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text = self._read(RECORD_BYTES)
        if not text:
            raise StopIteration
        if not self.row_start:
            self.row_start = text[:1_000]
        self._size += len(text)
        if self._size >= RECORD_BYTES:
            raise TooLargeError(TOO_LARGE)
        return text

    def skip_row(self) -> None:
        """Move behind the row, without keeping it."""
        while (self._in_quotes or not self._ended) and self._read(CHUNK):
            pass

    def _read(self, size: int) -> str:
        text = self._text.readline(size)
        self._ended = text.endswith("\n")
        self._line += self._ended
        self._in_quotes ^= text.count('"') % 2 == 1
        return text
