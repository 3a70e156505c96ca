"""Eval logs of Inspect AI in its `.eval` format: a ZIP archive with one member for each sample.

Members are compressed with Zstandard, which Python's own `zipfile` reads from 3.14 on; the database reads it
everywhere. A log that was never finished has no header: its beginning is in the journal.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from replaydiff.importers.base import InputFile
from replaydiff.importers.reading.record import RECORD_BYTES, TOO_LARGE, Broken, Record, broken, why
from replaydiff.replay.interruption import interruptible
from replaydiff.replay.messages import parse
from replaydiff.replay.model import Json, JsonObject

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ZIP_MAGIC = b"PK\x03\x04"
HEADERS = ("header.json", "_journal/start.json")
"""Members that say what was evaluated; the first one is written at the end."""
_SAMPLES = "samples/"
_ZSTANDARD = 93
_LOCAL_HEADER = 30
"""Bytes before the name in a member's local header."""
_UNPACK = (
    "SELECT json::VARCHAR FROM read_json_objects($path, compression = 'zstd', format = 'unstructured',"
    " maximum_object_size = $size)"
)
_LEAST_ROOM = 1 << 16
ReadMember = Callable[[zipfile.ZipInfo], Json]
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def is_eval_log(path: Path) -> bool:
    """Return whether a ZIP archive is a log of Inspect AI."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name in archive.namelist() for name in HEADERS)
    except (zipfile.BadZipFile, OSError):
        return False


def samples(file: InputFile) -> Iterator[Record | Broken]:
    """Yield each sample of an archive with the evaluation it belongs to: `{"eval": …, "sample": …}`."""
    path = Path(os.fspath(file))
    try:
        with zipfile.ZipFile(path) as archive, _reader(path, archive) as read:
            members = archive.infolist()
            header = next(
                read(header_member)
                for name in HEADERS
                for header_member in members
                if header_member.filename == name
            )
            evaluated = header.get("eval") if isinstance(header, dict) else None
            listed = [member for member in members if member.filename.startswith(_SAMPLES)]
            if not listed:
                yield Record(1, {"eval": evaluated, "samples": []})
            for number, member in enumerate(listed, start=1):
                yield _sample(read, member, number, evaluated)
                file.position = file.size * number // len(listed)
    except (zipfile.BadZipFile, StopIteration, ValueError, OSError) as error:
        yield Broken(1, f"the eval log cannot be read: {error}; fetch it again", "")


def _sample(read: ReadMember, member: zipfile.ZipInfo, number: int, evaluated: Json) -> Record | Broken:
    if member.file_size > RECORD_BYTES:
        return broken(number, TOO_LARGE, member.filename)
    try:
        whole: JsonObject = {"eval": evaluated, "sample": read(member)}
    except (ValueError, RecursionError, zipfile.BadZipFile) as error:
        return broken(number, f"{member.filename}: {why(error)}", "")
    return Record(number, whole)


@contextmanager
def _reader(path: Path, archive: zipfile.ZipFile) -> Iterator[ReadMember]:
    """Return a function that reads one member, which raises ValueError where that is no JSON."""
    with ExitStack() as stack:

        @cache
        def unpacker() -> tuple[DuckDBPyConnection, Path]:
            """Return a database, which costs as much as some MB of samples, and where it finds a member."""
            import duckdb

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="replay-eval-"))
            con = duckdb.connect(":memory:", config={"threads": 1})
            return stack.enter_context(interruptible(con)), Path(folder) / "member.json.zst"

        def read(member: zipfile.ZipInfo) -> Json:
            if member.compress_type in _READABLE:
                return parse(archive.read(member))
            if member.compress_type != _ZSTANDARD:
                raise ValueError(f"compressed by method {member.compress_type}, which cannot be read")
            import duckdb

            con, packed = unpacker()
            packed.write_bytes(_compressed(path, member))
            room = max(member.file_size + 1, _LEAST_ROOM)
            try:
                rows = con.execute(_UNPACK, {"path": str(packed), "size": room}).fetchall()
            except duckdb.Error as error:
                first = (str(error).splitlines() or ["damaged"])[0]
                raise ValueError(first.replace(str(packed), "it")) from None
            if len(rows) != 1:
                raise ValueError("not one JSON value")
            return parse(str(rows[0][0]))

        yield read


def _compressed(path: Path, member: zipfile.ZipInfo) -> bytes:
    """Return a member's bytes as they are in the archive."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        local = file.read(_LOCAL_HEADER)
        if not local.startswith(ZIP_MAGIC):
            raise zipfile.BadZipFile("a member's header is missing")
        # Name and extra field may be longer here than in the directory at the end.
        file.seek(
            int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), os.SEEK_CUR
        )
        return file.read(member.compress_size)
