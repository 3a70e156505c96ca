"""The one write path of every importer: batches, rejects, counts."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from importers.base import Importer, InputFile, Item, LiveImporter, Query, Reject, Skipped, Told
from replay.model import JsonObject, Trace
from replay.store.marks import mark_read
from replay.store.rejects import forget_rejects, write_rejects
from replay.store.traces import write_traces

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_TRACES = 2_000
BATCH_CHARACTERS = 16_000_000
"""A batch is written when it has this many traces, or this much text in them; each batch is one commit."""
DATABASE_BYTES = 200_000_000
"""What the database may hold in memory meanwhile: with more it takes more, the larger the store grows …"""
DATABASE_BYTES_A_CHARACTER = 16
"""… but a batch of one huge trace needs this much for each character."""
_PROGRESS_EVERY = 250
_QUERY = "query.json"

Progress = Callable[[int], None]
"""Told now and then how many traces were read so far (the files know their own positions)."""


@dataclass(slots=True)
class Report:
    """What an import did."""

    source: str
    files: int
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    tool_calls: int = 0
    """Of all traces that were read, new or not."""
    rejected: int = 0
    first_reject: Reject | None = None
    duplicates: int = 0
    """Records whose id came earlier in the same import; the last one counts."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason → records left out on purpose."""
    notes: Counter[str] = field(default_factory=Counter)
    """What a person should know → how many records it is true of."""

    @property
    def traces(self) -> int:
        """Distinct traces that were read."""
        return self.new + self.updated + self.unchanged


def ingest(
    con: DuckDBPyConnection,
    importer: Importer,
    files: Sequence[InputFile],
    *,
    progress: Progress | None = None,
) -> Report:
    """Read the files and write what is in them."""
    report = Report(importer.NAME, len(files))
    forget_rejects(con, [file.name for file in files])
    return _write(con, report, importer.read_files(files), progress)


def ingest_live(
    con: DuckDBPyConnection,
    importer: LiveImporter,
    query: Query,
    folder: Path,
    told: Told,
) -> Report:
    """Ask a source for the traces of `query` and write them; then remember up to when all were read.

    `folder` holds what was answered so far: it outlives an interruption, and goes with the end. Where it is
    there already, the query that began it goes on: "now" was another moment then.
    """
    report = Report(importer.NAME, 0)
    before = begun(folder)
    if before is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / _QUERY).write_bytes(msgspec.json.encode(query))
    query = before or query
    _write(con, report, importer.read_live(query, folder, told), None)
    mark_read(con, importer.NAME, importer.origin(query), asked(query), query.end)
    shutil.rmtree(folder)
    return report


def begun(folder: Path) -> Query | None:
    """The query that was interrupted here; None where there is none."""
    try:
        return msgspec.json.decode((folder / _QUERY).read_bytes(), type=Query)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def asked(query: Query) -> JsonObject:
    """What a query asks for beside its span of time."""
    fields: JsonObject = msgspec.to_builtins(query)
    return {key: value for key, value in fields.items() if value and key not in ("start", "end", "updates")}


def _write(
    con: DuckDBPyConnection, report: Report, items: Iterable[Item], progress: Progress | None
) -> Report:
    """Write what an importer yields, a batch at a time.

    Memory is that of one batch, and some 80 bytes for each trace to know ids that come twice. What was
    committed stays where a later batch is interrupted; the same import again completes it.
    """
    batch = _Batch(con, report)
    limit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    try:
        for number, item in enumerate(items, start=1):
            batch.take(item)
            if progress and number % _PROGRESS_EVERY == 0:
                progress(report.traces + batch.waiting)
        batch.write()
    finally:
        con.execute(f"SET memory_limit = '{limit}'")
    return report


class _Batch:
    """Traces and rejects that wait to be written."""

    def __init__(self, con: DuckDBPyConnection, report: Report) -> None:
        self._con, self._report = con, report
        self._traces: dict[str, Trace] = {}
        self._rejects: list[Reject] = []
        self._characters = 0
        self._calls_of: dict[int, int] = {}
        """Hash of each id written so far → its number of tool calls."""

    @property
    def waiting(self) -> int:
        return len(self._traces)

    def take(self, item: Item) -> None:
        """Keep or count what an importer said."""
        if isinstance(item, Trace):
            self._add(item)
        elif isinstance(item, Reject):
            self._refuse(item)
        elif isinstance(item, Skipped):
            self._report.skipped[item.reason] += 1
        else:
            self._report.notes[item.text] += 1

    def _add(self, trace: Trace) -> None:
        if trace.trace_id in self._traces:
            self._report.duplicates += 1
        self._traces[trace.trace_id] = trace
        self._characters += _characters(trace)
        if len(self._traces) >= BATCH_TRACES or self._characters >= BATCH_CHARACTERS:
            self.write()

    def _refuse(self, reject: Reject) -> None:
        self._report.rejected += 1
        self._report.first_reject = self._report.first_reject or reject
        self._rejects.append(reject)
        if len(self._rejects) >= BATCH_TRACES:
            self.write()

    def write(self) -> None:
        """Commit what waits."""
        room = max(DATABASE_BYTES, self._characters * DATABASE_BYTES_A_CHARACTER)
        self._con.execute(f"SET memory_limit = '{room // 1_000_000}MB'")
        known = {trace_id for trace_id in self._traces if hash(trace_id) in self._calls_of}
        written = write_traces(self._con, [trace for key, trace in self._traces.items() if key not in known])
        if known:
            # An earlier batch of this import had these ids: they are replaced, and counted once.
            write_traces(self._con, [trace for key, trace in self._traces.items() if key in known])
        report = self._report
        report.duplicates += len(known)
        report.new += written.new
        report.updated += written.updated
        report.unchanged += written.unchanged
        for key, trace in self._traces.items():
            report.tool_calls += len(trace.tool_calls) - self._calls_of.get(hash(key), 0)
            self._calls_of[hash(key)] = len(trace.tool_calls)
        write_rejects(self._con, self._rejects)
        self._traces, self._rejects, self._characters = {}, [], 0


def _characters(trace: Trace) -> int:
    """About how much text a trace holds."""
    texts = sum(len(message.text) for message in trace.messages)
    results = sum(len(call.result) for call in trace.tool_calls if isinstance(call.result, str))
    steps = sum(len(step.output) for step in trace.steps if isinstance(step.output, str))
    asked = sum(len(message.text) for step in trace.steps for message in step.messages)
    return 500 + texts + results + steps + asked + len(trace.input)
