"""JSON values of a file: one a line, or one after another over any number of lines.

Values that span lines, and the elements of one array, are read through a window on the file that grows while
a value is incomplete and forgets what was read; the file is never held completely.
"""

from __future__ import annotations

import codecs
import json
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
    why,
)
from replaydiff.replay.messages import parse
from replaydiff.replay.model import Json
from replaydiff.replay.store.sql import clean


def lines(file: InputFile) -> Iterator[Record | Broken]:
    """Yield the values of the lines of a file that are not blank.

    Raises:
        EOFError, OSError, zlib.error: the file is damaged; the whole lines before were given.
    """
    with opened(file) as stream:
        number = 0
        while line := stream.readline(RECORD_BYTES):
            number += 1
            text = line.strip()
            if number == 1:
                text = text.removeprefix(codecs.BOM_UTF8)
            if text:
                yield _parsed(number, text)
            if not _ends(line):
                _skip_line(stream)


def _parsed(number: int, text: bytes) -> Record | Broken:
    if len(text) >= RECORD_BYTES:
        return broken(number, TOO_LARGE, text)
    try:
        return Record(number, parse(text))
    except (ValueError, RecursionError) as error:
        return broken(number, why(error), text, whole=True)


def first_line(stream: IO[bytes], size: int) -> bytes:
    """Return the first line that is not empty, without its mark; its beginning, where it is longer than
    `size`.
    """
    while line := stream.readline(size):
        text = line.removeprefix(codecs.BOM_UTF8).strip()
        if text:
            return text
        _skip_blank(stream)
    return b""


def _ends(line: bytes) -> bool:
    return line.endswith(b"\n")


def _skip_blank(stream: IO[bytes]) -> None:
    """Move over blank lines, many at a time: a small gzip file may hold a billion."""
    while (ahead := stream.peek(1)) and not ahead.strip():  # type: ignore[attr-defined]
        stream.read(len(ahead))


def _skip_line(stream: IO[bytes]) -> None:
    """Move to the next line."""
    while (part := stream.readline(CHUNK)) and not _ends(part):
        pass


_NEAR_END = 16
"""An error this near to the end of what was read may only mean that more must be read."""
_LARGEST_STEP = 64 * 1024 * 1024
_space = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder()


def texts(file: InputFile, *, elements: bool) -> Iterator[Record | Broken]:
    """Yield values one after another; with `elements` those within the file's arrays, and what is between
    these.
    """
    with opened(file) as stream:
        buffer = _Buffer(stream)
        indent: str | None = None
        usual: str | None = None
        if elements and buffer.skip_space() == "[":
            buffer.move(buffer.position + 1)
        while True:
            start = buffer.skip_space()
            if not start:
                return
            if elements and start == "]":
                # Exports that were put together, or a list on each line, are one array after another.
                buffer.move(buffer.position + 1)
                if buffer.skip_space() == "[":
                    buffer.move(buffer.position + 1)
                continue
            line = buffer.line
            if indent is None:
                indent = _indent(buffer)
            try:
                value, text = buffer.value()
                record = _record(line, value, text)
            except (ValueError, RecursionError) as error:
                # What is shown is taken before the search for the next value moves on.
                record = _broken(buffer, line, error)
                if not _resume(buffer, indent, usual or start):
                    yield _last(record) if elements else record
                    return
            else:
                usual = usual or start
            yield record


def _record(line: int, value: Json, text: str) -> Record | Broken:
    if len(text) > RECORD_BYTES:
        return broken(line, TOO_LARGE, text)
    if not text.isascii() and re.search("[\udc80-\udcff]", text):
        return broken(line, "not UTF-8", text)
    odd = "\\u" in text or "NaN" in text or "Infinity" in text or "\x00" in text
    return Record(line, clean(value) if odd else value)


def _broken(buffer: _Buffer, line: int, error: Exception) -> Broken:
    reason = why(error)
    if isinstance(error, TooLargeError):
        reason = str(error)
    elif isinstance(error, json.JSONDecodeError):
        inside = buffer.text.count("\n", buffer.position, error.pos)
        reason = f"not JSON: {error.msg} (line {line + inside})"
    return broken(line, reason, buffer.text[buffer.position : buffer.position + 1_000])


def _last(broken_record: Broken) -> Broken:
    """Return a broken element after which no line starts as an element does: all on one line, or the file is
    cut.
    """
    return Broken(
        broken_record.line,
        f"{broken_record.reason}; nothing after it in the array could be read",
        broken_record.excerpt,
    )


class _Buffer:
    """The window."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        # Bytes that are no UTF-8 become lone surrogates here, which tells them apart later.
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
        self._step = CHUNK
        self.text, self.position, self.line, self.ended = "", 0, 1, False

    def more(self) -> bool:
        """Read on, twice as much as the last time; False at the end of the file."""
        if self.ended:
            return False
        data = self._stream.read(self._step)
        self.ended = not data
        self.text = self.text[self.position :] + self._utf8.decode(data, final=self.ended)
        self.position = 0
        self._step = min(self._step * 2, _LARGEST_STEP)
        return True

    def move(self, position: int) -> None:
        """Move to a position."""
        self.line += self.text.count("\n", self.position, position)
        self.position = position
        self._step = CHUNK

    def skip_space(self) -> str:
        """Move to the next character that is neither white nor a comma, and give it; empty at the end."""
        while True:
            match = _space.match(self.text, self.position)
            assert match is not None  # noqa: S101 - it matches nothing, too
            self.move(match.end())
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.more():
                return ""

    def value(self) -> tuple[Json, str]:
        """Return the value that starts here, and its text.

        Raises:
            ValueError: there is none, or it is too large.
            RecursionError: it is nested too deeply.
        """
        while True:
            try:
                value, end = _decoder.raw_decode(self.text, self.position)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self.text) - _NEAR_END or error.msg.startswith("Unterminated string")
                if cut and len(self.text) - self.position > RECORD_BYTES:
                    raise TooLargeError(TOO_LARGE) from None
                if not (cut and self.more()):
                    raise
                continue
            # A number or word may go on after the window.
            if end == len(self.text) and self.more():
                continue
            text = self.text[self.position : end]
            self.move(end)
            return value, text


def _indent(buffer: _Buffer) -> str:
    line_start = buffer.text.rfind("\n", 0, buffer.position) + 1
    before = buffer.text[line_start : buffer.position]
    return before if not before.strip() else ""


def _resume(buffer: _Buffer, indent: str, start: str) -> bool:
    """Move to the next line that starts as a value of this file does; False where there is none."""
    line_start = f"\n{indent}{start}"
    while True:
        position = buffer.text.find(line_start, buffer.position + 1)
        if position >= 0:
            buffer.move(position + 1)
            return True
        keep = max(len(buffer.text) - len(line_start), buffer.position)
        buffer.move(keep)
        if not buffer.more():
            return False
