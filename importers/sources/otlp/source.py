"""OpenTelemetry spans in files: OTLP/JSON of a collector, and the dumps of SDKs.

The spans of a trace may stand in any of the files, and log records that hold its messages in others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from replaydiff.importers.base import Imported, InputFile, Skipped
from replaydiff.importers.convert import Rows, guarded, refused, spooled
from replaydiff.importers.reading import Record
from replaydiff.importers.sources.otlp.records import Bad, FoundSpan, dialect, found
from replaydiff.importers.spans.interpret import trace
from replaydiff.importers.spans.raw import Event, RawSpan
from replaydiff.importers.spool import Group, Spool
from replaydiff.replay.model import Json

NAME = "otlp"
SUMMARY = "OpenTelemetry spans: OTLP/JSON of a collector, GenAI conventions of any age, Vercel, Logfire"
TELL = "records are spans of OpenTelemetry"

_SPAN, _EVENT = "span", "event"
_SURE = {"otlp": 0.95, "console": 0.8, "javascript": 0.9, "logfire": 0.9}


def recognises(record: Json) -> float:
    """By the envelope, or the dialect of a single span."""
    return _SURE.get(dialect(record) or "", 0.0)


def read_files(files: Sequence[InputFile]) -> Iterator[Imported]:
    """One trace for each trace id in the files."""
    with tempfile.TemporaryDirectory(prefix="replay-otlp-") as folder:
        spool = Spool(Path(folder) / "spans.sqlite")
        try:
            for number, file in enumerate(files):
                yield from spooled(NAME, file, Rows(_itself), partial(_keep, spool, file, number))
            for group in spool.groups():
                source = Record(group.line, group.rows[0].value)
                yield from guarded(NAME, files[group.file], source, partial(_trace_of, group))
        finally:
            spool.close()


def _keep(spool: Spool, file: InputFile, number: int, record: Record) -> Iterator[Imported]:
    for one in found(record.value):
        if isinstance(one, Bad):
            yield refused(NAME, file, Record(record.line, one.value), one.reason)
            continue
        if isinstance(one, FoundSpan):
            sort, own_id, row = _SPAN, one.span.id, msgspec.to_builtins(one.span)
        else:
            # Log records have no id: each is a row of its own.
            sort, row = _EVENT, {"span": one.span_id, "event": msgspec.to_builtins(one.event)}
            own_id = msgspec.json.encode(row).decode()
        spool.add(one.trace_id, sort, own_id, row, file=number, line=record.line)


def _itself(value: Json) -> Iterator[Json]:
    yield value


def _trace_of(group: Group, _value: Json, _file: InputFile) -> Iterator[Imported]:
    spans = [msgspec.convert(row, RawSpan) for row in group.of(_SPAN)]
    if not spans:
        yield Skipped("log records of traces that are not in these files")
        return
    late_events: dict[str, list[Event]] = {}
    for row in group.of(_EVENT):
        assert isinstance(row, dict)  # noqa: S101 - as it was written above
        late_events.setdefault(str(row["span"]), []).append(msgspec.convert(row["event"], Event))
    whole = [
        replace(span, events=(*span.events, *late_events[span.id])) if span.id in late_events else span
        for span in spans
    ]
    yield from trace(group.key, NAME, whole, {})
