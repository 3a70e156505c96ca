"""The one write path of every importer: batches, tokens of redaction, rejects, counts.

A commit is of whole batches: their traces, their rejects and the tokens in them are there together or not at
all. So an import that is killed, or meets a full disk, leaves whole batches, and the same import again
completes it.

A strict import reads everything twice, and writes nothing before the end of the first time: one commit of
everything would need memory for everything.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.importers import parallel
from replaydiff.importers.base import (
    Imported,
    Importer,
    InputFile,
    Note,
    Reject,
    Skipped,
    divided,
)
from replaydiff.importers.known import KnownRecords, KnownTrace, Made, ready
from replaydiff.replay import clock
from replaydiff.replay.cycles import newer_cycles_only
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import TraceState
from replaydiff.replay.store import import_records
from replaydiff.replay.store.connection import transaction
from replaydiff.replay.store.import_records import StoredReject, forget_rejects, take_rejects, write_rejects
from replaydiff.replay.store.seen import SeenIds
from replaydiff.replay.store.trace_codec import TraceColumns, TraceRow
from replaydiff.replay.store.traces import StoredIds, call_counts, is_older, write_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from replaydiff.importers.redacting import Redaction


BATCH_TRACES = 20_480
BATCH_CHARACTERS = 40_000_000
"""A batch is written when it has this many traces, or this much text in them."""
COMMIT_TRACES = 6 * BATCH_TRACES
COMMIT_CHARACTERS = 6 * BATCH_CHARACTERS
"""Each batch is one commit, until so many traces are written. Later commits are as large as this: DuckDB
writes this many rows straight into its file, fewer into its log first, at almost twice the processor time."""
DATABASE_BYTES = 300_000_000
DATABASE_BYTES_A_CHARACTER = 16
"""What the database may hold in memory meanwhile, beside as much as its largest row needs for each character.
With more it takes more, the larger the store grows."""
ONE_PROCESS_BYTES = 8_000_000
"""Files that are smaller altogether are read before another process has begun."""
_PROGRESS_EVERY = 250

Progress = Callable[[int, int], None]
"""Called now and then with the traces and rejects so far (the files know their own positions)."""


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
    unanswered: int = 0
    """Those of them of which neither a result nor an error was recorded: a replay cannot answer them."""
    paired_by_name: int = 0
    """Those of them whose result was paired with them by the tool's name alone."""
    conflicts: int = 0
    """Those of them whose pairing with a result is contradicted by another record."""
    rejected: int = 0
    first_reject: Reject | None = None
    duplicates: int = 0
    """Records whose id came earlier in the same import; the last one counts."""
    states: Counter[TraceState] = field(default_factory=Counter)
    """Whether the traces that were read can be replayed → how many."""
    older: int = 0
    """Traces that were left as they are, because what is stored is a later state of them."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason → records left out on purpose."""
    notes: Counter[str] = field(default_factory=Counter)
    """What a person should know → how many records it is true of."""

    def count(self, calls: Sequence[int], before: Sequence[int] = (0, 0, 0, 0)) -> None:
        """Count the tool calls of a trace (`TraceRow.counts`), in place of those that it had before."""
        more = [new - old for new, old in zip(calls, before, strict=True)]
        self.tool_calls += more[0]
        self.unanswered += more[1]
        self.paired_by_name += more[2]
        self.conflicts += more[3]

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
    redaction: Redaction | None = None,
) -> Report:
    """Read the files and write what is in them; then forget the rejects of earlier imports of them."""
    began = clock.utc_now()
    report = Report(importer.NAME, len(files))
    with newer_cycles_only(), closing(_read(con, importer, files, redaction)) as made:
        write(con, report, made, progress, redaction)
    names = [file.name if redaction is None else redaction.file_name(file.name) for file in files]
    forget_rejects(con, names, began)
    return report


def _read(
    con: DuckDBPyConnection, importer: Importer, files: Sequence[InputFile], redaction: Redaction | None
) -> Generator[Made]:
    """What is in the files; where that is much, in several processes."""
    source = divided(importer)
    if source is None:
        yield from ready(importer.read_files(files), redaction)
        return
    is_small = sum(file.size for file in files) < ONE_PROCESS_BYTES
    alone = is_small or not (redaction is None or redaction.is_repeatable)
    known = KnownRecords(con, importer.NAME, redaction)
    found = source.read_jobs(files)
    yield from parallel.carried_out(found, known, redaction, 1 if alone else parallel.cores())


def ingest_rejects(
    con: DuckDBPyConnection, find: Callable[[str], Importer], source: str | None, redaction: Redaction | None
) -> list[Report]:
    """Try the rejects (of one source) again that are traces by themselves, in one commit.

    Raises:
        UnknownNameError: the importer of one is not there any more.
    """
    with transaction(con), tempfile.TemporaryDirectory(prefix="replay-retry-") as folder:
        by_file: dict[str, dict[str, list[StoredReject]]] = defaultdict(lambda: defaultdict(list))
        for reject in take_rejects(con, source):
            by_file[reject.source][reject.file].append(reject)
        reports = []
        for name, files in by_file.items():
            kept = [
                _as_file(Path(folder) / f"{name}-{number}", found)
                for number, found in enumerate(files.values())
            ]
            report = Report(name, len(kept))
            found = ready(find(name).read_files(kept), redaction)
            reports.append(write(con, report, found, None, redaction))
        return reports


def _as_file(target: Path, found: Sequence[StoredReject]) -> InputFile:
    """Records in a file of their own, each at the line where it was."""
    with target.open("w", encoding="utf-8") as file:
        line = 1
        for reject in found:
            file.write("\n" * (reject.line - line))
            file.write(" ".join((reject.record or "").splitlines()) + "\n")
            line = reject.line + 1
    modified = found[0].rejected_at.replace(tzinfo=UTC).timestamp()
    size = target.stat().st_size
    return InputFile(path=str(target), name=found[0].file, size=size, modified=modified, lines=True)


def check(items: Iterable[Imported], redaction: Redaction | None) -> None:
    """Read what an importer yields and write nothing: the first part of a strict import.

    Raises:
        InputError: a record cannot be taken; says which, and why.
    """
    for item in items:
        found = item if redaction is None else redaction.item(item)
        if isinstance(found, Reject):
            raise InputError(f"{place(found)}: {found.reason}; nothing was imported (--strict)")


def write(
    con: DuckDBPyConnection,
    report: Report,
    items: Iterable[Made],
    progress: Progress | None,
    redaction: Redaction | None,
) -> Report:
    """Write what became of an importer's items, a batch at a time, and the tokens that are in them.

    Memory is that of one batch, and eight bytes for each trace to know ids that come twice. What was
    committed stays where a later batch is interrupted; the same import again completes it.
    """
    settings = "SELECT current_setting('memory_limit'), current_setting('threads')"
    [(limit, threads)] = con.execute(settings).fetchall()
    # A batch is too small for several: they would only take a core from the processes that convert.
    con.execute("SET threads = 1")
    taken = shown = 0
    with _ImportBatch(con, report, redaction) as batch:
        for item in items:
            batch.take(item)
            taken += len(item) if isinstance(item, TraceColumns) else 1
            if progress and taken - shown >= _PROGRESS_EVERY:
                progress(report.traces + batch.waiting, report.rejected)
                shown = taken
    con.execute(f"SET memory_limit = '{limit}'")
    con.execute(f"SET threads = {threads}")
    return report


class _ImportBatch:
    """Traces and rejects that wait to be written; the end of the `with` block writes and commits the last."""

    def __init__(self, con: DuckDBPyConnection, report: Report, redaction: Redaction | None) -> None:
        self._con, self._report = con, report
        self._tokens = None if redaction is None else redaction.tokens
        self._rows = TraceColumns.of()
        self._loose: list[TraceRow] = []
        """Rows that came after those and are still to be packed."""
        self._traces: dict[str, int | KnownTrace] = {}
        """Id → the position of its row, or the trace of the store that it is."""
        self._rejects: list[Reject] = []
        self._characters = 0
        self._seen = SeenIds()
        """Those of earlier batches."""
        self._stored_ids: StoredIds | None = None
        self._transaction = ExitStack()
        """Holds what is written and not committed."""
        self._written = self._uncommitted = self._uncommitted_characters = 0
        """Traces of all batches; traces and rejects of the transaction, and how much text they have."""

    def __enter__(self) -> _ImportBatch:
        return self

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is None:
            with self._transaction:
                self.write()
        else:
            self._transaction.__exit__(*raised)

    @property
    def waiting(self) -> int:
        return len(self._traces)

    def take(self, item: Made) -> None:
        """Store or count a result of an importer."""
        if isinstance(item, TraceColumns):
            self._keep_all(item)
        elif isinstance(item, TraceRow):
            self._keep(item)
        elif isinstance(item, KnownTrace):
            self._keep_known(item)
        elif isinstance(item, Reject):
            self._refuse(item)
        elif isinstance(item, Skipped):
            self._report.skipped[item.reason] += 1
        elif isinstance(item, Note):
            self._report.notes[item.text] += 1

    def _keep_all(self, rows: TraceColumns) -> None:
        self._pack()
        first = len(self._rows)
        places = dict(zip(rows.source_id, count(first)))
        characters = sum(rows.characters)
        is_new = len(places) == len(rows) and self._traces.keys().isdisjoint(places)
        self._rows.extend(rows)
        if is_new and not self._is_full(len(rows), characters):
            self._traces.update(places)
            self._characters += characters
            return
        for number, source_id in enumerate(rows.source_id):
            if self._is_late(source_id, rows.updated_at[number]):
                continue
            self._traces[source_id] = first + number
            self._characters += rows.characters[number]
            if self._is_full():
                self.write()
                # The rest of them is in the next batch.
                self._rows.extend(rows)
                first = 0

    def _keep(self, row: TraceRow) -> None:
        if self._is_late(row.source_id, row.updated_at):
            return
        self._traces[row.source_id] = len(self._rows) + len(self._loose)
        self._loose.append(row)
        self._characters += row.characters
        self._write_if_full()

    def _is_late(self, source_id: str, updated_at: datetime | None) -> bool:
        """Return whether a trace came before in a later state; count it if it came at all."""
        before = self._traces.get(source_id)
        if before is None:
            return False
        self._report.duplicates += 1
        if isinstance(before, KnownTrace):
            return is_older(updated_at, before.updated_at)
        in_loose = before - len(self._rows)
        at = self._rows.updated_at[before] if in_loose < 0 else self._loose[in_loose].updated_at
        return is_older(updated_at, at)

    def _pack(self) -> None:
        """Put single rows behind those in columns."""
        if self._loose:
            self._rows.extend(TraceColumns.of(self._loose))
            self._loose = []

    def _keep_known(self, known: KnownTrace) -> None:
        before = self._traces.get(known.source_id)
        if isinstance(before, int):
            for item in known.made():
                self.take(item)
            return
        self._report.duplicates += before is not None
        self._traces[known.source_id] = known
        self._write_if_full()

    def _write_if_full(self) -> None:
        if self._is_full():
            self.write()

    def _is_full(self, more_traces: int = 0, more_characters: int = 0) -> bool:
        traces, characters = len(self._traces) + more_traces, self._characters + more_characters
        return traces >= BATCH_TRACES or characters >= BATCH_CHARACTERS

    def _refuse(self, reject: Reject) -> None:
        self._report.rejected += 1
        self._report.first_reject = self._report.first_reject or reject
        self._rejects.append(reject)
        self._characters += len(reject.record or "")
        if len(self._rejects) >= BATCH_TRACES or self._characters >= BATCH_CHARACTERS:
            self.write()

    def write(self) -> None:
        """Write what waits, and commit where that is enough."""
        report = self._report
        seen = self._seen.among(self._traces)
        first = [held for key, held in self._traces.items() if key not in seen]
        known = [held for held in first if isinstance(held, KnownTrace)]
        self._pack()
        self._give_room()
        rows, places = self._rows, [held for held in first if isinstance(held, int)]
        if self._uncommitted == 0:
            self._transaction.enter_context(transaction(self._con))
        if self._written and self._stored_ids is None:
            self._stored_ids = StoredIds(self._con)
        written = write_rows(self._con, rows, places, self._stored_ids)
        if seen:
            self._write_again([self._traces[key] for key in seen])
        write_rejects(self._con, self._rejects)
        if self._tokens is not None:
            self._tokens.save(self._con)
        self._uncommitted += len(self._traces) + len(self._rejects)
        self._uncommitted_characters += self._characters
        self._written += len(self._traces)
        if (
            self._written <= COMMIT_TRACES
            or self._uncommitted >= COMMIT_TRACES
            or self._uncommitted_characters >= COMMIT_CHARACTERS
        ):
            self._transaction.close()
            self._uncommitted = self._uncommitted_characters = 0
        report.new += written.new
        report.updated += written.updated
        report.unchanged += written.unchanged + len(known)
        report.older += len(written.left)
        report.states.update([rows.state[place] for place in places])
        report.states.update([held.state for held in known])
        counts = [*(rows.counts[place] for place in places), *(held.counts for held in known)]
        report.count([sum(each) for each in zip((0, 0, 0, 0), *counts, strict=True)])
        self._seen.add(self._traces)
        self._rows, self._traces, self._rejects, self._characters = TraceColumns.of(), {}, [], 0

    def _give_room(self) -> None:
        """Let the database hold as much in memory as writing what waits needs."""
        sizes = (*self._rows.characters, *(len(reject.record or "") for reject in self._rejects))
        room = DATABASE_BYTES + max(sizes, default=0) * DATABASE_BYTES_A_CHARACTER
        self._con.execute(f"SET memory_limit = '{room // 1_000_000}MB'")

    def _write_again(self, held: Sequence[int | KnownTrace]) -> None:
        """Replace traces that an earlier batch of this import had; they are counted once."""
        made = [made for one in held if isinstance(one, KnownTrace) for made in one.made()]
        converted = TraceColumns.of(row for row in made if isinstance(row, TraceRow))
        for rows, places in (
            (self._rows, [one for one in held if isinstance(one, int)]),
            (converted, range(len(converted))),
        ):
            before = call_counts(self._con, [rows.source_id[place] for place in places])
            written = write_rows(self._con, rows, places, self._stored_ids)
            self._report.duplicates += len(places)
            self._report.older += len(written.left)
            for place in places:
                stored = before.get((rows.source[place], rows.source_id[place]))
                if stored is not None and rows.source_id[place] not in written.left:
                    self._report.count(rows.counts[place], stored)


def place(reject: import_records.Reject) -> str:
    """Return the place of a rejected record: file and line, or its id."""
    where = f"{reject.file}:{reject.line}" if reject.file else reject.source
    return f"{where} ({reject.id})" if reject.id else where
