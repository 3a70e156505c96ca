"""Records of a file, one at a time, whatever way they are laid out.

| layout | what it looks like | memory |
|---|---|---|
| lines | one JSON value a line (JSONL, NDJSON) | one line |
| array | `[{…}, {…}]`, pretty-printed or not; also several, one after another | one element |
| texts | JSON values one after another, over any number of lines; one object alone | one value |
| rows | CSV with a header, by the name `.csv` or by a header in quotes | one row |
| Parquet | by its first bytes | a row group |
| eval log | a ZIP archive of Inspect AI, by its first bytes | one sample |

An array whose elements are messages is itself one record (a bare conversation). A UTF-8 mark, CRLF, blank
lines and gzip are taken everywhere. A value that cannot be read, or is larger than `RECORD_BYTES`, is a
`Broken` record with its line; reading goes on at the next line, or at the next element that starts like the
ones before.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaydiff.importers.base import InputFile
from replaydiff.importers.chat import frameworks
from replaydiff.importers.reading.archives import ZIP_MAGIC, samples
from replaydiff.importers.reading.json_values import first_line, lines, texts
from replaydiff.importers.reading.record import CHUNK, DAMAGED, RECORD_BYTES, Broken, Record, damage, opened
from replaydiff.importers.reading.tables import PARQUET_MAGIC, is_csv, parquet, rows
from replaydiff.replay.messages import is_message, parse
from replaydiff.replay.model import Json

__all__ = ["RECORD_BYTES", "Broken", "Record", "records"]


def records(file: InputFile) -> Iterator[Record | Broken]:
    """Yield the values of a file in order, and what could not be read as `Broken`."""
    last_line = 0
    try:
        for record in _records(file):
            last_line = record.line
            yield record
    except DAMAGED as error:
        yield Broken(last_line + 1, damage(error), "")


def _records(file: InputFile) -> Iterator[Record | Broken]:
    if file.lines:
        return lines(file)
    with opened(file) as stream:
        first = first_line(stream, CHUNK)
    if first.startswith(PARQUET_MAGIC):
        return parquet(file)
    if first.startswith(ZIP_MAGIC):
        return samples(file)
    if is_csv(file, first):
        return rows(file)
    layout = _layout(file, first)
    return lines(file) if layout == "lines" else texts(file, elements=layout == "array")


def _layout(file: InputFile, first: bytes) -> str:
    if first.startswith(b"["):
        element = next(texts(file, elements=True), None)
        is_array = not _is_message(element.value) if isinstance(element, Record) else first == b"["
        if is_array:
            return "array"
    if _is_json(_whole(file, first)):
        return "lines"
    return "texts" if isinstance(next(texts(file, elements=False), None), Record) else "lines"


def _is_message(value: Json) -> bool:
    return is_message(value) or frameworks.is_message(value)


def _whole(file: InputFile, first: bytes) -> bytes:
    """Return the first line of which `first` may be the beginning."""
    if len(first) < CHUNK // 2:
        return first
    with opened(file) as stream:
        return first_line(stream, RECORD_BYTES)


def _is_json(text: bytes) -> bool:
    try:
        parse(text)
    except (ValueError, RecursionError):
        return False
    return True
