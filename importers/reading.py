"""Records of a JSON file, one at a time, whatever way they are laid out.

| layout | what it looks like | memory |
|---|---|---|
| lines | one JSON value a line (JSONL, NDJSON) | one line |
| array | `[{…}, {…}]`, pretty-printed or not | one element |
| texts | JSON values one after another, over any number of lines; one object alone | one value |
| rows | CSV with a header, by the name `.csv` | one row |

An array whose elements are messages is itself one record (a bare conversation). A UTF-8 mark, CRLF, blank
lines and gzip are taken everywhere. A value that cannot be read is a `Broken` record with its line; reading
goes on at the next line, or at the next element that starts like the ones before.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

from importers.base import EXCERPT_CHARACTERS, InputFile
from importers.collect import GZIP_MAGIC
from replay.messages import parse
from replay.model import Json
from replay.store.text import clean

_CHUNK = 64 * 1024
_NEAR_END = 16
"""An error this near to the end of what was read may only mean that more must be read."""
_space = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Record:
    """One value of a file."""

    line: int
    """1-based line on which it starts."""
    value: Json


@dataclass(frozen=True, slots=True)
class Broken:
    """What stands where a value should be."""

    line: int
    reason: str
    excerpt: str


@contextmanager
def opened(file: InputFile) -> Iterator[IO[bytes]]:
    """The file's bytes, unpacked where it is gzipped; `file.position` follows."""
    with open(file, "rb") as raw:  # noqa: PTH123 - an InputFile is a path
        start = raw.read(2)
        raw.seek(0)
        tracked = io.BufferedReader(_Tracked(raw, file), buffer_size=_CHUNK)
        if start == GZIP_MAGIC:
            with gzip.GzipFile(fileobj=tracked) as unpacked:
                yield cast("IO[bytes]", unpacked)
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


def records(file: InputFile) -> Iterator[Record | Broken]:
    """The values of a file in order, with what could not be read in its place."""
    last = 0
    try:
        for found in _values(file):
            last = found.line
            yield found
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        yield Broken(last + 1, f"the gzip file is cut or damaged from here on ({error}); fetch it again", "")


def _values(file: InputFile) -> Iterator[Record | Broken]:
    if is_csv(file):
        return _rows(file)
    layout = _layout(file)
    return _lines(file) if layout == "lines" else _texts(file, layout == "array")


def is_csv(file: InputFile) -> bool:
    """By the name."""
    return file.name.lower().removesuffix(".gz").endswith(".csv")


def _rows(file: InputFile) -> Iterator[Record | Broken]:
    """The rows of a CSV file as objects of text; JSON in a cell stays text."""
    csv.field_size_limit(2**31 - 1)
    with opened(file) as stream:
        lines = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.DictReader(lines, restkey="", strict=True)
        try:
            names = reader.fieldnames or ()
        except csv.Error as error:
            yield Broken(1, f"the header is not CSV: {error}", "")
            return
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Broken(line, f"not CSV: {error}", "")
                continue
            if "" in row or None in row.values():
                shown = ",".join(str(value) for value in row.values() if value is not None)
                reason = f"the row does not have the {len(names)} cells of the header"
                yield Broken(line, reason, str(clean(shown[:EXCERPT_CHARACTERS])))
            else:
                yield Record(line, clean(dict(row)))


def _layout(file: InputFile) -> str:
    with opened(file) as stream:
        try:
            first = _first_line(stream)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return "lines"
    if not first.startswith(b"["):
        try:
            parse(first)
        except ValueError:
            return "texts" if isinstance(next(_texts(file, False), None), Record) else "lines"
        return "lines"
    element = next(_texts(file, True), None)
    if first == b"[" if element is None or isinstance(element, Broken) else not _is_message(element.value):
        return "array"
    try:
        parse(first)
    except ValueError:
        return "texts" if isinstance(next(_texts(file, False), None), Record) else "lines"
    return "lines"


def _first_line(stream: IO[bytes]) -> bytes:
    for line in stream:
        text = line.removeprefix(codecs.BOM_UTF8).strip()
        if text:
            return text
    return b""


def _is_message(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _lines(file: InputFile) -> Iterator[Record | Broken]:
    with opened(file) as stream:
        for number, line in enumerate(stream, start=1):
            text = line.strip()
            if number == 1:
                text = text.removeprefix(codecs.BOM_UTF8)
            if not text:
                continue
            try:
                yield Record(number, parse(text))
            except ValueError as error:
                shown = text[: EXCERPT_CHARACTERS * 4].decode(errors="replace")
                yield Broken(number, _why(error), shown[:EXCERPT_CHARACTERS])


def _why(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the line"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} (column {error.colno})"
    return f"not JSON: {error}"


class _Buffer:
    """A window on a text file that grows while a value is incomplete and forgets what was read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        # Bytes that are no UTF-8 become lone surrogates here, which tells them apart below.
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
        self._step = _CHUNK
        self.text, self.place, self.line, self.ended = "", 0, 1, False

    def more(self) -> bool:
        """Read on, twice as much as the last time; False at the end of the file."""
        if self.ended:
            return False
        data = self._stream.read(self._step)
        self.ended = not data
        self.text = self.text[self.place :] + self._utf8.decode(data, final=self.ended)
        self.place = 0
        self._step = min(self._step * 2, 64 * 1024 * 1024)
        return True

    def move(self, place: int) -> None:
        self.line += self.text.count("\n", self.place, place)
        self.place = place
        self._step = _CHUNK

    def skip_space(self) -> str:
        """Move to the next character that is neither white nor a comma, and give it; empty at the end."""
        while True:
            match = _space.match(self.text, self.place)
            assert match is not None  # noqa: S101 - it matches nothing, too
            self.move(match.end())
            if self.place < len(self.text):
                return self.text[self.place]
            if not self.more():
                return ""

    def value(self) -> tuple[Json, str]:
        """The value that starts here, and its text.

        Raises:
            ValueError: there is none.
        """
        while True:
            try:
                value, end = _decoder.raw_decode(self.text, self.place)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self.text) - _NEAR_END or error.msg.startswith("Unterminated string")
                if not (cut and self.more()):
                    raise
                continue
            except RecursionError:
                raise ValueError("nested too deeply") from None
            # A number or word may go on after the window.
            if end == len(self.text) and self.more():
                continue
            text = self.text[self.place : end]
            self.move(end)
            return value, text


def _texts(file: InputFile, elements: bool) -> Iterator[Record | Broken]:
    """Values one after another; with `elements` those within the file's one array."""
    with opened(file) as stream:
        buffer = _Buffer(stream)
        indent: str | None = None
        if elements and buffer.skip_space() == "[":
            buffer.move(buffer.place + 1)
        while True:
            start = buffer.skip_space()
            if not start or (elements and start == "]"):
                return
            line = buffer.line
            if indent is None:
                indent = _indent(buffer)
            try:
                value, text = buffer.value()
            except ValueError as error:
                shown = buffer.text[buffer.place : buffer.place + EXCERPT_CHARACTERS]
                reason = _why(error)
                if isinstance(error, json.JSONDecodeError):
                    inside = buffer.text.count("\n", buffer.place, error.pos)
                    reason = f"not JSON: {error.msg} (line {line + inside})"
                yield Broken(line, reason, clean(shown))  # type: ignore[arg-type]
                if not _resume(buffer, indent, start):
                    return
                continue
            if not text.isascii() and re.search("[\udc80-\udcff]", text):
                yield Broken(line, "not UTF-8", clean(text[:EXCERPT_CHARACTERS]))  # type: ignore[arg-type]
                continue
            odd = "\\u" in text or "NaN" in text or "Infinity" in text or "\x00" in text
            yield Record(line, clean(value) if odd else value)


def _indent(buffer: _Buffer) -> str:
    line_start = buffer.text.rfind("\n", 0, buffer.place) + 1
    before = buffer.text[line_start : buffer.place]
    return before if not before.strip() else ""


def _resume(buffer: _Buffer, indent: str, start: str) -> bool:
    """Move to the next line that starts as a value of this file does; False where there is none."""
    wanted = f"\n{indent}{start}"
    while True:
        found = buffer.text.find(wanted, buffer.place + 1)
        if found >= 0:
            buffer.move(found + 1)
            return True
        keep = max(len(buffer.text) - len(wanted), buffer.place)
        buffer.move(keep)
        if not buffer.more():
            return False
