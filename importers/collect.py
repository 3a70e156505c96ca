"""The files of an import, all looked at before anything is read or written, and which importer is for each.

`auto` decides by the first records of a file. Every importer says how sure it is of each record, those of
other distributions too. Records that nobody knows say nothing (a header, a manifest, lines that an agent
keeps for itself): the first few that somebody knows decide.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO

from replaydiff.importers.base import BUILTIN, GROUP, Importer, InputFile, find_importer
from replaydiff.importers.reading import Record, records
from replaydiff.importers.reading.archives import ZIP_MAGIC, is_eval_log
from replaydiff.importers.reading.record import GZIP_MAGIC
from replaydiff.importers.reading.tables import PARQUET_MAGIC
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import Json

SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".parquet", ".eval", ".traj")
"""What is taken from a folder, each also with `.gz`. A file that is named itself may have any name."""
STDIN = "-"
_HEAD_BYTES = 64 * 1024
_JSON_LINE = re.compile(rb'^\s*(\xef\xbb\xbf)?[\[{"]', re.MULTILINE)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"{\x00", b"[\x00", b'"\x00', b"\x00{", b"\x00[")
_PACKED = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    ZIP_MAGIC: ("a ZIP archive", "unzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ": ("xz", "unxz"),
}
"""First bytes → what packed the file, and what unpacks it."""
_EMPTY_FILES = (b"", b"[]")
"""What an export without rows holds."""


@contextmanager
def collected(paths: Sequence[str]) -> Iterator[list[InputFile]]:
    """Return the files that `paths` name, folders walked in order of name; a pipe is copied to disk
    meanwhile.

    Raises:
        InputError: a path is missing, empty, unreadable or no text, or a folder has nothing to read. Empty
            files in a folder are passed over: exports write them for a span of time in which nothing was.
    """
    with tempfile.TemporaryDirectory(prefix="replay-import-") as folder:
        yield [file for path in paths for file in _files(path, Path(folder))]


def _files(path: str, folder: Path) -> Iterator[InputFile]:
    if path == STDIN:
        _refuse_device(sys.stdin.buffer, "standard input")
        yield _copied(sys.stdin.buffer, folder, "<stdin>")
        return
    location = Path(path)
    try:
        if location.is_dir():
            yield from _files_below(location)
        elif location.is_file():
            yield _named(location, path)
        elif location.exists():
            # A pipe or /dev/fd/N: it can be read once only, an import may have to look twice.
            with location.open("rb") as pipe:
                _refuse_device(pipe, path)
                yield _copied(pipe, folder, path)
        else:
            raise InputError(f"there is no file {path}", hint="check the path")
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}", hint="check its permissions"
        ) from None


def _refuse_device(stream: IO[bytes], name: str) -> None:
    """Refuse a device, which may never end; a terminal ends where a person says so."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        # A stream of this process, which no device is behind.
        return
    if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not stream.isatty():
        raise InputError(f"{name} is a device, not a file", hint="name a file, a folder or a pipe")


def _files_below(folder: Path) -> Iterator[InputFile]:
    # A link may lead to a file that the person who named the folder does not know of; devices never end.
    inside = folder.resolve()
    names = sorted(
        file
        for file in folder.rglob("*")
        if _is_importable(file) and file.is_file() and file.resolve().is_relative_to(inside)
    )
    if not names:
        raise InputError(
            f"the folder {folder} has no file to import; looked for {', '.join(SUFFIXES)}, each also with .gz"
        )
    files = [checked for file in names if (checked := _checked(file, str(file)))]
    if not files:
        raise InputError(f"the files in the folder {folder} are all empty; nothing was imported")
    yield from files


def _is_importable(file: Path) -> bool:
    name = file.name.lower().removesuffix(".gz")
    return name.endswith(SUFFIXES) and not file.name.startswith(".")


def _copied(stream: IO[bytes], folder: Path, name: str) -> InputFile:
    target = folder / str(len(list(folder.iterdir())))
    with target.open("wb") as file:
        shutil.copyfileobj(stream, file)
    copied = _named(target, name)
    copied.modified = time.time()
    return copied


def _named(path: Path, name: str) -> InputFile:
    file = _checked(path, name)
    if file is None:
        raise InputError(f"{name} is empty; nothing was imported")
    return file


def _checked(path: Path, name: str) -> InputFile | None:
    """Return the file, if it can be read; None if it is empty."""
    status = path.stat()
    file = InputFile(path=str(path), name=name, size=status.st_size, modified=status.st_mtime)
    head = _head(path, name)
    if head.removeprefix(codecs.BOM_UTF8).strip() in _EMPTY_FILES:
        return None
    if head.startswith(PARQUET_MAGIC):
        _check_parquet(file)
    elif head.startswith(ZIP_MAGIC) and is_eval_log(path):
        return file
    else:
        _check_text(head, name)
    return file


def _check_parquet(file: InputFile) -> None:
    with open(file, "rb") as raw:  # noqa: PTH123 - an InputFile is a path
        if raw.read(2) == GZIP_MAGIC:
            raise InputError(
                f"{file.name} is Parquet inside gzip", hint="unpack it first, e.g. with `gunzip`"
            )
        raw.seek(-len(PARQUET_MAGIC), os.SEEK_END)
        if raw.read() != PARQUET_MAGIC:
            raise InputError(f"{file.name} is Parquet whose end is missing", hint="fetch it again")


def _check_text(head: bytes, name: str) -> None:
    for magic, (packer, unpack) in _PACKED.items():
        if head.startswith(magic):
            raise InputError(f"{name} is packed ({packer})", hint=f"unpack it first, e.g. with `{unpack}`")
    if head.startswith(_UTF16):
        raise InputError(f"{name} is UTF-16, not UTF-8", hint="convert it, e.g. `iconv -f UTF-16 -t UTF-8`")
    is_csv = name.lower().removesuffix(".gz").endswith(".csv")
    first = head.removeprefix(codecs.BOM_UTF8).lstrip()
    looked_at = b"" if first.startswith((b"{", b"[")) else first.partition(b"\n")[0] if is_csv else head
    # A NUL in a record is that record's fault.
    if b"\x00" in looked_at:
        raise InputError(f"{name} is a binary file, not JSON or CSV text", hint="check the path")
    if not any(_is_utf8(line) for line in head.splitlines() if line.strip()):
        raise InputError(f"{name} is not UTF-8 text", hint="convert it, e.g. `iconv -f LATIN1 -t UTF-8`")
    if not _JSON_LINE.search(head) and not is_csv:
        start = head.strip()[:40].decode(errors="replace")
        raise InputError(f"{name} is neither JSON nor CSV: it starts with {start!r}", hint="check the path")


def _head(path: Path, name: str) -> bytes:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        with gzip.open(path) as file:
            return file.read1(_HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is not a readable gzip file: {error}", hint="fetch it again") from None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        # The head may end within a character.
        return error.start >= len(line) - 3 and len(line) > 3
    return True


LOOKED_AT = 5
"""Records that decide …"""
LOOKED_FOR = 200
"""… among so many at the beginning of the file."""
SURE = 0.5
"""The best guess must be at least this sure …"""
APART = 0.15
"""… and this much surer than the next."""


@dataclass(frozen=True, slots=True)
class Guess:
    """How sure one importer is of a file."""

    importer: Importer
    sure: float


def detect(file: InputFile) -> Importer:
    """Return the importer for this file.

    Raises:
        InputError: no record can be read, no importer knows them, or two are about as sure.
    """
    candidates = importers()
    first: list[Json] = []
    certainties: list[list[float]] = []
    for record in islice(records(file), LOOKED_FOR):
        if isinstance(record, Record):
            first = first or [record.value]
            sure = [_sure(candidate, record.value) for candidate in candidates]
            if any(sure):
                certainties.append(sure)
        if len(certainties) == LOOKED_AT:
            break
    if not first:
        raise InputError(f"{file.name}: none of its first records can be read, so its source is unknown")
    if not certainties:
        raise InputError(
            f"{file.name}: no importer knows these records ({_keys(first[0])}); say which source it is: "
            f"{', '.join(candidate.NAME for candidate in candidates)}",
            hint="if it is none of them, write one trace a line as jsonl (docs/importing.md)",
        )
    guesses = [
        Guess(candidate, sum(column) / len(certainties))
        for candidate, column in zip(candidates, zip(*certainties, strict=True), strict=True)
    ]
    best, second = sorted(guesses, key=lambda guess: -guess.sure)[:2]
    if best.sure >= SURE and best.sure - second.sure >= APART:
        return best.importer
    best_name, second_name = best.importer.NAME, second.importer.NAME
    explanation = f" or {second_name} ({second.sure:.0%}); say which" if second.sure else "; say so if it is"
    raise InputError(
        f"{file.name} may be for {best_name} ({best.sure:.0%}){explanation}: "
        f"`replay import {best_name} {file.name}`"
    )


def importers() -> list[Importer]:
    """Return all importers: the built-in ones, then those of other distributions that can be loaded."""
    return [*map(find_importer, BUILTIN), *_from_entry_points(tuple(sys.path))]


@cache
def _from_entry_points(_path: tuple[str, ...]) -> list[Importer]:
    """Load importers of other distributions, once: entry points cost more than a small file."""
    from importlib.metadata import entry_points

    importers: list[Importer] = []
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name not in BUILTIN:
            # A broken distribution must not stop `auto` for the others.
            with suppress(Exception):
                importers.append(entry.load())
    return importers


def _sure(candidate: Importer, record: Json) -> float:
    try:
        return candidate.recognises(record)
    except Exception:  # noqa: BLE001 - a record that an importer stumbles over is none of its own
        return 0.0


def _keys(value: Json) -> str:
    if not isinstance(value, dict):
        return "they are not objects"
    names = ", ".join(name[:40] for name in list(value)[:6])
    return f"they have {names}{', …' if len(value) > 6 else ''}" if names else "they are empty"
