"""Parquet: the rows as objects, a few at a time, through DuckDB.

Text, numbers and truth values come as they are; everything else becomes JSON inside the database: maps and
structs objects, lists lists, times text. What is in memory at a time is bounded by a row group (Langfuse
writes up to 128 MB), not by the file.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaydiff.importers.base import InputFile
from replaydiff.importers.reading.record import RECORD_BYTES, TOO_LARGE, Broken, Record, broken, why
from replaydiff.replay.messages import parse
from replaydiff.replay.store.text import clean, clean_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PARQUET_MAGIC = b"PAR1"
MEMORY = "1GB"
"""What the database may take for a row group."""
_OWN_NAME = re.compile(r"[\"']?[^\"' ]*rows\.parquet[\"']?")
_BATCH_ROWS = 64
_FILE = "read_parquet($path, hive_partitioning = false)"
_PLAIN = re.compile(r"VARCHAR|BOOLEAN|DOUBLE|FLOAT|U?(TINY|SMALL|BIG)?INT(EGER)?")
_BYTES = "coalesce(try(decode({name})), to_base64({name}))"
"""ClickHouse may write text without saying that it is text; bytes that are none are kept as base64."""


def parquet(file: InputFile) -> Iterator[Record | Broken]:
    """The rows; the number of a row stands for its line."""
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
    """How many rows the file says it has."""
    found = con.execute("SELECT num_rows FROM parquet_file_metadata($path)", {"path": path}).fetchall()
    return int(found[0][0])


def _columns(con: DuckDBPyConnection, path: str) -> tuple[list[str], list[bool], str]:
    """The columns, which of them come as JSON text, and what to select."""
    found = con.execute(f"DESCRIBE SELECT * FROM {_FILE}", {"path": path}).fetchall()
    selected = []
    encoded = []
    for name, kind in ((row[0], row[1]) for row in found):
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
    return [clean_text(row[0]) for row in found], encoded, ", ".join(selected)


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
    """A database of its own, and the file under a name that has no meaning to it.

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
        with duckdb.connect(":memory:", config=settings) as con:
            con.execute("SET TimeZone = 'UTC'")
            yield con, str(link)


def _reason(error: Exception) -> str:
    """The first sentence of a database error, without the name it knows the file by."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return _OWN_NAME.sub("it", first)[:300]
