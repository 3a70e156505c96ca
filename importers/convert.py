"""Records to traces, one at a time: what is wrong with one becomes its reject, and the next one is read.

In an export the rows of one trace lie far apart: a `Spool` groups them on disk by what they belong to. An
SQLite file holds them, so memory is that of one group. Of two rows with one id the later update counts,
and where that is the same the later arrival: windows of an export overlap, downloads are repeated.

A live import keeps its file between interrupted tries, and notes beside the rows what was answered so far:
rows and marks are written together at `commit`, so a page is there whole or not at all.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from replaydiff.importers.base import (
    EXCERPT_CHARACTERS,
    STORED_CHARACTERS,
    AllReceived,
    Deferred,
    FileJob,
    Imported,
    InputFile,
    Job,
    Position,
    RecordError,
    Reject,
)
from replaydiff.importers.reading import Broken, Record, parsed, pieces, records
from replaydiff.importers.reading.record import GZIP_MAGIC
from replaydiff.replay.messages import parse
from replaydiff.replay.model import Json
from replaydiff.replay.model.light import light_dataclass

Convert = Callable[[Json, InputFile], Iterable[Imported]]
FILES_BYTES = 1_000_000
"""Small files are given to another process together, about this much at a time."""
LARGEST_FILE_JOB = 32_000_000
"""A larger file is read by the process that writes: what comes of a job is held in memory."""
GROUPS_A_JOB = 64
"""Traces of several rows each that are given to another process at a time."""


def converted(source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[Imported]:
    """Yield what `convert` returns for each record of these files, and a reject for what it refuses."""
    for file in files:
        yield from values_converted(source, file, convert, records(file))


def done(items: Iterable[Imported | Job | FileJob | AllReceived]) -> Iterator[Imported]:
    """Yield the items, and those of the jobs, in order."""
    for item in items:
        if isinstance(item, Job | FileJob):
            yield from received(item, item.items())
        elif not isinstance(item, AllReceived):
            yield item


ReadFile = Callable[[InputFile], Iterable[Imported]]


def file_jobs(
    files: Sequence[InputFile], reader: Callable[[Sequence[InputFile]], ReadFile]
) -> Iterator[Imported | FileJob]:
    """Yield jobs of files that are read each by itself; in between, what is in large or packed ones.

    Args:
        files: what to read, in this order.
        reader: returns what reads some of the files: a function of a module, or a partial of one.
    """
    waiting: list[InputFile] = []
    for file in files:
        if not _fits(file):
            yield from _files_job(waiting, reader)
            waiting = []
            yield from reader([file])(file)
            continue
        waiting.append(file)
        if sum(waiting_file.size for waiting_file in waiting) >= FILES_BYTES:
            yield from _files_job(waiting, reader)
            waiting = []
    yield from _files_job(waiting, reader)


def _fits(file: InputFile) -> bool:
    """Return whether what comes of a file can be held in memory; a packed one may hold any amount."""
    if file.size > LARGEST_FILE_JOB:
        return False
    with open(file, "rb") as raw:  # noqa: PTH123 - an InputFile is a path
        return raw.read(len(GZIP_MAGIC)) != GZIP_MAGIC


def _files_job(
    files: Sequence[InputFile], reader: Callable[[Sequence[InputFile]], ReadFile]
) -> Iterator[FileJob]:
    if files:
        read = partial(_read_each, reader(files), [anywhere(file) for file in files])
        yield FileJob(read, sum(file.size for file in files))
        for file in files:
            file.position = file.size


def anywhere(file: InputFile) -> InputFile:
    """Return a file as a process in another folder opens it."""
    return replace(file, path=str(Path(file.path).absolute()))


def _read_each(read: ReadFile, files: Sequence[InputFile]) -> Iterator[Imported]:
    for file in files:
        yield from read(file)


def received(job: Job | FileJob, items: Iterable[Any]) -> Iterator[Any]:
    """Yield what came of a job, and give its importer what was deferred."""
    for item in items:
        if isinstance(item, Deferred):
            assert isinstance(job, Job)  # noqa: S101 - files that are read alone keep nothing
            assert job.receive is not None  # noqa: S101 - as for every job that keeps
            job.receive(item.value)
        else:
            yield item


def jobs(source: str, files: Sequence[InputFile], convert: Convert) -> Iterator[Imported | Job]:
    """Yield jobs of the records of these files; `convert` must be a function of a module."""
    for file in files:
        for piece in pieces(file):
            if isinstance(piece, list):
                yield Job(partial(_line, source, file, convert), piece)
            else:
                yield from values_converted(source, file, convert, (piece,))


def _line(
    source: str, file: InputFile, convert: Convert, number: Position, text: bytes
) -> Iterator[Imported]:
    assert isinstance(number, int)  # noqa: S101 - as `jobs` gave it
    return values_converted(source, file, convert, (parsed(number, text),))


def values_converted(
    source: str, file: InputFile, convert: Convert, values: Iterable[Record | Broken]
) -> Iterator[Imported]:
    """Yield what `convert` makes of each of these values of a file, as `converted`."""
    for record in values:
        if isinstance(record, Broken):
            yield reject(source, file, record, alone=True)
        else:
            yield from guarded(source, file, record, convert, alone=True)


class Rows:
    """The rows in the records of one file, for sources whose records may be pages of rows.

    A row inside a page has no line of its own: it is numbered through the file, or has that of its page.
    """

    def __init__(self, unpack: Callable[[Json], Iterable[Json]], *, numbered: bool = True) -> None:
        """`unpack` yields the rows in a record, and raises RecordError for what has none."""
        self.seen = 0
        """How many rows there were so far, those included that could not be read."""
        self._unpack = unpack
        self._numbered = numbered

    def of(self, record: Record) -> Iterator[Record]:
        """Yield the rows in a record."""
        for value in self._unpack(record.value):
            self.seen += 1
            line = self.seen if self._numbered else record.line
            yield record if value is record.value else Record(line, value)


def spooled(
    source: str, file: InputFile, rows: Rows, keep: Callable[[Record], Iterable[Imported]]
) -> Iterator[Imported]:
    """Store each row of a file with `keep`; yield its results, and a reject for each refused row."""
    for record in records(file):
        if isinstance(record, Broken):
            rows.seen += 1
            yield reject(source, file, record)
        else:
            # What a record is refused for before it has a row, it is refused for as a whole.
            whole = partial(_each_row, source, file, rows, keep)
            yield from attempted(source, file, record, whole)


def _each_row(
    source: str, file: InputFile, rows: Rows, keep: Callable[[Record], Iterable[Imported]], record: Record
) -> Iterator[Imported]:
    for row in rows.of(record):
        yield from attempted(source, file, row, keep)


def attempted(
    source: str, file: InputFile, record: Record, keep: Callable[[Record], Iterable[Imported]]
) -> Iterator[Imported]:
    """Yield the results of `keep` for a record, or a reject if it refuses the record."""
    try:
        yield from keep(record)
    except RecordError as error:
        yield refused(source, file, record, str(error))
    except RecursionError:
        yield refused(source, file, record, "nested too deeply")


def guarded(
    source: str, file: InputFile, record: Record, convert: Convert, *, alone: bool = False
) -> Iterator[Imported]:
    """Yield what `convert` makes of one record; nothing of it where it fails half-way.

    `alone` says that the record is a trace by itself.
    """
    try:
        items = list(convert(record.value, file))
    except RecordError as error:
        yield refused(source, file, record, str(error), alone=alone)
    except RecursionError:
        yield refused(source, file, record, "nested too deeply", alone=alone)
    except Exception as error:  # noqa: BLE001 - a record that nobody foresaw must not stop the others
        reason = f"not understood ({type(error).__name__}: {error}); please report it"
        yield refused(source, file, record, reason, alone=alone)
    else:
        yield from items


def reject(source: str, file: InputFile, broken: Broken, *, alone: bool = False) -> Reject:
    """Return the reject of a value that could not be read."""
    return Reject(
        source=source,
        file=file.name,
        line=broken.line,
        reason=broken.reason,
        excerpt=broken.excerpt,
        record=broken.text,
        alone=alone and broken.text is not None,
    )


def refused(source: str, file: InputFile, record: Record, reason: str, *, alone: bool = False) -> Reject:
    """Return the reject of a record that was read and cannot be used."""
    text = _json(record.value)
    whole_text = text if text is not None and len(text) <= STORED_CHARACTERS else None
    return Reject(
        source=source,
        file=file.name,
        line=record.line,
        reason=reason,
        excerpt=excerpt(record.value) if text is None else text[:EXCERPT_CHARACTERS],
        record=whole_text,
        alone=alone and whole_text is not None,
    )


def excerpt(value: Json) -> str:
    """Return the beginning of a record."""
    text = _json(value)
    return (str(type(value)) if text is None else text)[:EXCERPT_CHARACTERS]


def _json(value: Json) -> str | None:
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, UnicodeEncodeError):
        return None


@light_dataclass(frozen=True, slots=True)
class SpooledRow:
    """One row: what sort of thing it is, and its values."""

    sort: str
    value: Json


@dataclass(frozen=True, slots=True)
class Group:
    """All rows of one key, in the order in which they arrived."""

    key: str
    file: int
    """Index of the file of its first row."""
    line: int
    rows: list[SpooledRow]

    def of(self, sort: str) -> list[Json]:
        """Return the values of the rows of a sort."""
        return [row.value for row in self.rows if row.sort == sort]


class Spool:
    """The file; `close` it. If `is_resumed`, it continues after an interruption, as of the last `commit`."""

    def __init__(self, file: Path, *, is_resumed: bool = False) -> None:
        self._con = sqlite3.connect(file, isolation_level=None)
        pragmas = ["cache_size = -16000"]
        if not is_resumed:
            pragmas += ["synchronous = OFF", "journal_mode = OFF"]
        for pragma in pragmas:
            self._con.execute(f"PRAGMA {pragma}")
        self._con.execute(
            "CREATE TABLE IF NOT EXISTS rows (seq INTEGER PRIMARY KEY, key TEXT, sort TEXT, id TEXT,"
            " updated TEXT, file INTEGER, line INTEGER, value BLOB, UNIQUE (key, sort, id))"
        )
        self._con.execute("CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value TEXT)")
        self._con.execute("BEGIN")

    def close(self) -> None:
        """Let go of the file; what was not committed is gone."""
        self._con.close()

    def add(
        self,
        key: str,
        sort: str,
        row_id: str,
        value: Json,
        *,
        updated: str = "",
        file: int = 0,
        line: int = 0,
    ) -> None:
        """Keep a row, or update the one of its sort with this id."""
        self._con.execute(
            "INSERT INTO rows (key, sort, id, updated, file, line, value) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET value = excluded.value, updated = excluded.updated"
            " WHERE excluded.updated >= rows.updated",
            (key, sort, row_id, updated, file, line, msgspec.json.encode(value)),
        )

    def mark(self, name: str, value: str) -> None:
        """Note how far a live import has come."""
        self._con.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))

    def marked(self, name: str) -> str | None:
        """Return what was noted under this name."""
        row = self._con.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def commit(self) -> None:
        """Write what was added and marked since the last time."""
        self._con.execute("COMMIT")
        self._con.execute("BEGIN")

    def __len__(self) -> int:
        return int(self._con.execute("SELECT count(*) FROM rows").fetchone()[0])

    def of(self, key: str) -> list[SpooledRow]:
        """Return the rows of a key."""
        rows = self._con.execute("SELECT sort, value FROM rows WHERE key = ? ORDER BY seq", (key,))
        return [SpooledRow(sort, parse(value)) for sort, value in rows]

    def groups(self) -> Iterator[Group]:
        """Yield the rows by key, keys in the order in which they first occurred."""
        return (unpacked(position, text) for _, position, text in self.packed())

    def packed(self) -> Iterator[tuple[str, tuple[int, int], bytes]]:
        """Yield groups for other processes: key, position of the first row, and packed rows."""
        ordered = self._con.execute(
            "SELECT rows.key, rows.sort, rows.file, rows.line, rows.value FROM rows"
            " JOIN (SELECT key, min(seq) AS first FROM rows GROUP BY key) AS firsts USING (key)"
            " ORDER BY firsts.first, rows.seq"
        )
        for key, key_rows in groupby(ordered, key=lambda row: row[0]):
            listed_rows = list(key_rows)
            text = msgspec.msgpack.encode((key, [(row[1], row[4]) for row in listed_rows]))
            yield key, (listed_rows[0][2], listed_rows[0][3]), text


def unpacked(position: tuple[int, int], text: bytes) -> Group:
    """Return the group of rows that `Spool.packed` yielded."""
    key, rows = _unpack(text)
    return Group(key, *position, [SpooledRow(sort, parse(value)) for sort, value in rows])


_unpack = msgspec.msgpack.Decoder(tuple[str, list[tuple[str, bytes]]]).decode


def group_jobs(
    spool: Spool,
    files: Sequence[InputFile],
    convert: Callable[[dict[int, InputFile], Group], Iterable[Imported]],
) -> Iterator[Job]:
    """Yield jobs of the groups in a spool; `convert` is given the files of their first rows, by number."""
    groups = ((position, text) for _, position, text in spool.packed())
    while packed_groups := list(islice(groups, GROUPS_A_JOB)):
        files_by_number = {position[0]: files[position[0]] for position, _ in packed_groups}
        yield Job(partial(_group, convert, files_by_number), packed_groups)


def _group(
    convert: Callable[[dict[int, InputFile], Group], Iterable[Imported]],
    files: dict[int, InputFile],
    position: Position,
    text: bytes,
) -> Iterable[Imported]:
    assert isinstance(position, tuple)  # noqa: S101 - as `Spool.packed` gave it
    return convert(files, unpacked(position, text))


Keep = Callable[[Spool, int, InputFile, Record], Iterable[Imported]]
"""Put what is in a record into the spool; the number is the file's."""
GroupItems = Callable[[Group, Json, InputFile], Iterable[Imported]]
"""The traces of a group."""


def grouped(
    source: str,
    files: Sequence[InputFile],
    keep: Keep,
    traces_of: GroupItems,
    *,
    unpack: Callable[[Json], Iterable[Json]] = lambda value: (value,),
    numbered: bool = True,
) -> Iterator[Imported | Job]:
    """Read records whose traces lie anywhere in the files: all are spooled, then each group is made a trace.

    Args:
        source: name of the importer.
        files: what to read, in this order.
        keep: spools one row, and yields what became of it where it is no row.
        traces_of: yields the traces of a group, and gets its first row as well; a function of a module.
        unpack: the rows in a record, where records may be pages of rows.
        numbered: rows have numbers of their own, and not the line of their record.
    """
    with tempfile.TemporaryDirectory(prefix=f"replay-{source}-") as folder:
        spool = Spool(Path(folder) / "rows.sqlite")
        try:
            for number, file in enumerate(files):
                rows = Rows(unpack, numbered=numbered)
                yield from spooled(source, file, rows, partial(keep, spool, number, file))
            yield from group_jobs(spool, files, partial(_group_items, source, traces_of))
        finally:
            spool.close()


def _group_items(
    source: str, traces_of: GroupItems, files: dict[int, InputFile], group: Group
) -> Iterator[Imported]:
    first = Record(group.line, group.rows[0].value)
    return guarded(source, files[group.file], first, partial(traces_of, group))
