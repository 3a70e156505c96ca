"""Records whose traces are in the store as they would be made again: they are not converted.

A record is known by a hash of its text and of all that decides what becomes of it: the code of the package,
the source, the options, and what is redacted. With redaction the hash is keyed by the store's secret key. A
trace that other records have a part in, or a hook of redaction, is always made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Union

from replaydiff.importers.base import FileJob, Imported, Job, Kept, Note, Reject, Skipped
from replaydiff.replay.model import Trace, TraceState
from replaydiff.replay.store.trace_codec import TraceColumns, TraceRow, encode_trace

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.importers.redacting import Hashed, Item, Redaction

_CODE = ("importers", "replay/messages", "replay/model", "replay/redact", "replay/store", "replay/clock.py")
"""What a trace and its row are made by, below the package's folder."""
Made = Union[Reject, Skipped, Note, Kept, TraceRow, TraceColumns, "KnownTrace"]
"""What is left of an item once it is ready to be written: without personal data, if they are redacted."""
Redact = Callable[[Iterable["Hashed"]], Iterable["Hashed"]]
"""Takes the personal data out of items."""


@dataclass(frozen=True, slots=True)
class KnownTrace:
    """A trace of the store that a record would make again."""

    source_id: str
    state: TraceState
    updated_at: datetime | None
    counts: tuple[int, int, int, int]
    """As `TraceRow.counts`."""
    made: Callable[[], list[Made]]
    """Convert the record after all: for the case that the import has changed the trace before its turn."""


class KnownRecords:
    """The records of a source that the store has traces of."""

    def __init__(self, con: DuckDBPyConnection, source: str, redaction: Redaction | None = None) -> None:
        self._con, self._source = con, source
        self.key = b""
        """What records are hashed with; empty where none may be known."""
        self._any = False
        self._redact: Redact | None = None if redaction is None else redaction.items
        if redaction is not None and not redaction.is_repeatable:
            return
        rules = b"" if redaction is None else redaction.fingerprint
        self.key = hashlib.blake2b(code_hash() + rules + source.encode(), digest_size=32).digest()
        has_some = con.execute(
            "SELECT 1 FROM traces WHERE source = ? AND record_hash IS NOT NULL LIMIT 1", [source]
        ).fetchone()
        self._any = has_some is not None

    def of(self, job: Job) -> dict[int, KnownTrace]:
        """The known ones among the records of a job, by their position in it."""
        if not self._any:
            return {}
        hashes = [record_hash(self.key, job.options, text) for _, text in job.records]
        # Of each the position alone: DuckDB takes 45 µs to write a number of 128 bits.
        found = self._con.execute(
            "SELECT place, source_id, state, updated_at, call_counts FROM traces JOIN"
            " (SELECT unnest($hashes::VARCHAR[])::UHUGEINT AS record_hash,"
            " unnest(range(len($hashes))) AS place)"
            " USING (record_hash) WHERE source = $source",
            {"hashes": hashes, "source": self._source},
        ).fetchall()
        known = {}
        for at, source_id, state, updated_at, counts in found:
            made = partial(_made, self.key, job, at, self._redact)
            known[at] = KnownTrace(source_id, TraceState(state), updated_at, tuple(counts), made)
        return known


def ready(items: Iterable[Imported], redaction: Redaction | None) -> Iterator[Made]:
    """Yield items as they are written."""
    for item in items:
        yield _encoded(item if redaction is None else redaction.item(item), "")


def converted(key: bytes, job: Job | FileJob, redact: Redact | None = None) -> list[Made]:
    """Return what becomes of a job: first its traces, in order, then all else, in order."""
    rows: list[TraceRow] = []
    others: list[Made] = []
    items: Iterable[Hashed]
    if isinstance(job, FileJob):
        items = ((item, "") for item in job.read())
    else:
        items = _items(key, job, range(len(job.records)), exact=redact is not None)
    for item, hashed in items if redact is None else redact(items):
        made = _encoded(item, hashed)
        if isinstance(made, TraceRow):
            rows.append(made)
        else:
            others.append(made)
    return [TraceColumns.of(rows), *others] if rows else others


def _made(key: bytes, job: Job, at: int, redact: Redact | None) -> list[Made]:
    items = _items(key, job, [at], exact=redact is not None)
    return [_encoded(item, hashed) for item, hashed in (items if redact is None else redact(items))]


def _encoded(item: Item, hashed: str) -> Made:
    return encode_trace(item, hashed) if isinstance(item, Trace) else item


def _items(key: bytes, job: Job, places: Iterable[int], *, exact: bool) -> Iterator[Hashed]:
    """Yield what is in records of a job; a trace that is all of a record can be known by it.

    `exact` requires traces of the type, and not such as are good for encoding alone.
    """
    for at in places:
        place, text = job.records[at]
        trace = job.typed_trace(text) if job.typed_trace and not exact else None
        items = list(job.convert(place, text)) if trace is None else [trace]
        hashed = record_hash(key, job.options, text) if key and len(items) == 1 else ""
        for item in items:
            yield item, hashed


def record_hash(key: bytes, options: bytes, text: bytes) -> str:
    """Return the hash of a record, as the text of a number of 128 bits."""
    digest = hashlib.blake2b(text, key=key, person=options, digest_size=16).digest()
    return str(int.from_bytes(digest))


@cache
def code_hash() -> bytes:
    """Return a hash of the code that makes traces of records: a newer one may make others."""
    package = Path(__file__).parent.parent
    found = hashlib.blake2b(digest_size=32)
    for name in _CODE:
        place = package / name
        for file in sorted(place.rglob("*.py")) if place.is_dir() else (place,):
            found.update(file.read_bytes())
    return found.digest()
