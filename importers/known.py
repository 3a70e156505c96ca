"""Records whose traces are in the store as they would be made again: they are not converted.

A record is known by a hash of its text and of all that decides what becomes of it: the code of the package,
the source and the options. A trace that other records have a part in, or redaction, is always made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Union

from replaydiff.importers.base import Imported, Job, Kept
from replaydiff.replay.model import Trace, TraceState
from replaydiff.replay.store.trace_codec import TraceColumns, TraceRow, encode_trace

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CODE = ("importers", "replay/messages", "replay/model", "replay/store", "replay/clock.py")
"""What a trace and its row are made by, below the package's folder."""
Made = Union[Imported, Kept, TraceRow, TraceColumns, "KnownTrace"]
"""What is left of an item once it is ready to be written."""


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

    def __init__(self, con: DuckDBPyConnection, source: str) -> None:
        self._con, self._source = con, source
        self.key = hashlib.blake2b(code_hash() + source.encode(), digest_size=32).digest()
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
            made = partial(made_of, self.key, job, at)
            known[at] = KnownTrace(source_id, TraceState(state), updated_at, tuple(counts), made)
        return known


def made_of(key: bytes, job: Job, at: int) -> list[Made]:
    """What becomes of one record of a job; a trace that is all of it can be known by the record."""
    place, text = job.records[at]
    trace = job.typed_trace(text) if job.typed_trace else None
    items = list(job.convert(place, text)) if trace is None else [trace]
    hashed = record_hash(key, job.options, text) if len(items) == 1 else ""
    return [encode_trace(item, hashed) if isinstance(item, Trace) else item for item in items]


def converted(key: bytes, job: Job) -> list[Made]:
    """Return what becomes of a job's records: first their traces, in order, then all else, in order."""
    rows: list[TraceRow] = []
    others: list[Made] = []
    for at in range(len(job.records)):
        for item in made_of(key, job, at):
            if isinstance(item, TraceRow):
                rows.append(item)
            else:
                others.append(item)
    return [TraceColumns.of(rows), *others] if rows else others


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
