"""Records to traces, one at a time: what is wrong with one becomes its reject, and the next one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from importers.base import EXCERPT_CHARACTERS, InputFile, Item, RecordError, Reject
from importers.reading import Broken, Record, records
from replay.model import Json

Convert = Callable[[Json, InputFile], Iterable[Item]]


def converted(source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[Item]:
    """What `convert` makes of each record of these files, with a reject for each record that it refuses."""
    for file in files:
        for found in records(file):
            if isinstance(found, Broken):
                yield reject(source, file, found)
            else:
                yield from guarded(source, file, found, convert)


def guarded(source: str, file: InputFile, record: Record, convert: Convert) -> Iterator[Item]:
    """What `convert` makes of one record; nothing of it where it fails half-way."""
    try:
        made = list(convert(record.value, file))
    except RecordError as error:
        yield refused(source, file, record, str(error))
    except RecursionError:
        yield refused(source, file, record, "nested too deeply")
    except Exception as error:  # noqa: BLE001 - a record that nobody foresaw must not stop the others
        yield refused(
            source, file, record, f"not understood ({type(error).__name__}: {error}); please report it"
        )
    else:
        yield from made


def reject(source: str, file: InputFile, broken: Broken) -> Reject:
    """The reject of a value that could not be read."""
    return Reject(
        source=source, file=file.name, line=broken.line, reason=broken.reason, excerpt=broken.excerpt
    )


def refused(source: str, file: InputFile, record: Record, reason: str) -> Reject:
    """The reject of a record that was read and cannot be used."""
    return Reject(
        source=source, file=file.name, line=record.line, reason=reason, excerpt=excerpt(record.value)
    )


def excerpt(value: Json) -> str:
    """The beginning of a record."""
    try:
        text = msgspec.json.encode(value).decode()
    except (RecursionError, UnicodeEncodeError):
        text = str(type(value))
    return text[:EXCERPT_CHARACTERS]
