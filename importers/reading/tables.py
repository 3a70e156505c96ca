"""Tables as records: CSV and Parquet.

*CSV*: the rows as objects of text. JSON in a cell stays text, and so does a cell that starts with `=`. Cells
may be of any size up to that of a record. A quote that is never closed would make the rest of the file one
cell: the reader is stopped at that size, and continues where, by the count of the quotes, the row ends.

*Parquet*: the rows as objects, a few at a time, through DuckDB. Text, numbers and truth values come as they
are; everything else becomes JSON inside the database: maps and structs objects, lists lists, times text. What
is in memory at a time is bounded by a row group (Langfuse writes up to 128 MB), not by the file.
"""

from __future__ import annotations

import csv
import io
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

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
from replaydiff.replay.interruption import interruptible
from replaydiff.replay.messages import parse
from replaydiff.replay.store.sql import clean, clean_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_escaped = re.compile("[\udc80-\udcff]")
"""Bytes that are no UTF-8, as the lone surrogates that stand for them."""


def is_csv(file: InputFile, first: bytes) -> bool:
    """Decide by the name or the first line: CSV of Langfuse quotes every cell, and JSON never looks so."""
    if file.name.lower().removesuffix(".gz").endswith(".csv"):
        return True
    return first.startswith(b'"') and b'","' in first


def rows(file: InputFile) -> Iterator[Record | Broken]:
    """Yield the rows below the header."""
    csv.field_size_limit(2**31 - 1)
    with opened(file) as stream:
        lines = _CsvLines(stream)
        reader = csv.reader(lines, strict=True)
        try:
            names = next(reader, [])
        except (csv.Error, TooLargeError) as error:
            yield Broken(1, f"the header is not CSV: {error}", "")
            return
        while True:
            line = lines.start_row()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except TooLargeError as error:
                lines.skip_row()
                yield broken(line, str(error), lines.row_start)
            except csv.Error as error:
                yield broken(line, f"not CSV: {error}", lines.row_start)
            else:
                if cells:
                    yield _row(line, names, cells)


def _row(line: int, names: list[str], cells: list[str]) -> Record | Broken:
    if len(cells) != len(names):
        reason = f"the row does not have the {len(names)} cells of the header"
        return broken(line, reason, ",".join(cell[:1_000] for cell in cells))
    if any(_escaped.search(cell) for cell in cells if not cell.isascii()):
        return broken(line, "not UTF-8", ",".join(cell[:1_000] for cell in cells))
    return Record(line, clean(dict(zip(names, cells, strict=True))))


class _CsvLines:
    """The lines of a file, as many as one row may have."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        self._line = 1
        self._size = 0
        self._in_quotes = False
        self._ended = True
        self.row_start = ""
        """The beginning of the row that is read."""

    def start_row(self) -> int:
        """Restart the count; return the line at which the row starts."""
        self._size, self._in_quotes, self.row_start = 0, False, ""
        return self._line

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text = self._read(RECORD_BYTES)
        if not text:
            raise StopIteration
        if not self.row_start:
            self.row_start = text[:1_000]
        self._size += len(text)
        if self._size >= RECORD_BYTES:
            raise TooLargeError(TOO_LARGE)
        return text

    def skip_row(self) -> None:
        """Move behind the row, without keeping it."""
        while (self._in_quotes or not self._ended) and self._read(CHUNK):
            pass

    def _read(self, size: int) -> str:
        text = self._text.readline(size)
        self._ended = text.endswith("\n")
        self._line += self._ended
        self._in_quotes ^= text.count('"') % 2 == 1
        return text


PARQUET_MAGIC = b"PAR1"
MEMORY = "1GB"
"""What the database may take for a row group."""
_EXPORT_NAME = re.compile(r"[\"']?[^\"' ]*rows\.parquet[\"']?")
_BATCH_ROWS = 64
_FILE = "read_parquet($path, hive_partitioning = false)"
_PLAIN = re.compile(r"VARCHAR|BOOLEAN|DOUBLE|FLOAT|U?(TINY|SMALL|BIG)?INT(EGER)?")
_BYTES = "coalesce(try(decode({name})), to_base64({name}))"
"""ClickHouse may write text without saying that it is text; bytes that are none are kept as base64."""


def parquet(file: InputFile) -> Iterator[Record | Broken]:
    """Yield the rows; the number of a row is used as its line."""
    import duckdb

    number = 0
    file.position = 0
    with _database(file) as (con, path):
        try:
            total = _count(con, path)
            names, encoded, selected = _columns(con, path)
            con.execute(f"SELECT {selected} FROM {_FILE}", {"path": path})
            while batch := con.fetchmany(_BATCH_ROWS):
                for cells in batch:
                    number += 1
                    yield _record(number, names, encoded, cells)
                file.position = file.size * number // total
        except duckdb.OutOfMemoryException:
            reason = f"its row groups need more than {MEMORY}; write it with smaller ones, e.g. of 2,000 rows"
            yield Broken(number + 1, f"the Parquet file cannot be read from here on: {reason}", "")
        except (duckdb.Error, UnicodeError) as error:
            yield Broken(number + 1, f"the Parquet file cannot be read from here on: {_reason(error)}", "")


def _count(con: DuckDBPyConnection, path: str) -> int:
    """Return the number of rows in the file's metadata."""
    rows = con.execute("SELECT num_rows FROM parquet_file_metadata($path)", {"path": path}).fetchall()
    return int(rows[0][0])


def _columns(con: DuckDBPyConnection, path: str) -> tuple[list[str], list[bool], str]:
    """Return the columns, which of them come as JSON text, and what to select."""
    columns = con.execute(f"DESCRIBE SELECT * FROM {_FILE}", {"path": path}).fetchall()
    selected = []
    encoded = []
    for name, kind in ((row[0], row[1]) for row in columns):
        quoted = '"' + name.replace('"', '""') + '"'
        is_plain = _PLAIN.fullmatch(kind) is not None
        encoded.append(not is_plain and kind != "BLOB")
        selected.append(
            quoted
            if is_plain
            else _BYTES.replace("{name}", quoted)
            if kind == "BLOB"
            else f"to_json({quoted})::VARCHAR"
        )
    return [clean_text(row[0]) for row in columns], encoded, ", ".join(selected)


def _record(number: int, names: list[str], encoded: list[bool], cells: Sequence[Any]) -> Record | Broken:
    if sum(len(cell) for cell in cells if isinstance(cell, str)) > RECORD_BYTES:
        return broken(number, TOO_LARGE, "")
    try:
        values = [
            parse(cell) if is_json and cell is not None else clean(cell)
            for cell, is_json in zip(cells, encoded, strict=True)
        ]
        return Record(number, dict(zip(names, values, strict=True)))
    except (ValueError, RecursionError) as error:
        return broken(number, why(error), "")


@contextmanager
def _database(file: InputFile) -> Iterator[tuple[DuckDBPyConnection, str]]:
    """Return a database of its own, and the file under a name that has no meaning to it.

    A name with `*` or `[` is a pattern to DuckDB, and one like `s3://…` an address.
    """
    import duckdb

    with tempfile.TemporaryDirectory(prefix="replay-parquet-") as folder:
        link = Path(folder) / "rows.parquet"
        link.symlink_to(Path(os.fspath(file)).resolve())
        settings: dict[str, str | bool | int | float | list[str]] = {
            "threads": 1,
            "memory_limit": MEMORY,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with interruptible(duckdb.connect(":memory:", config=settings)) as con:
            con.execute("SET TimeZone = 'UTC'")
            yield con, str(link)


def _reason(error: Exception) -> str:
    """Return the first sentence of a database error, without the name it knows the file by."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return _EXPORT_NAME.sub("it", first)[:300]
