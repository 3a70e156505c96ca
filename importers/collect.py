"""The files of an import, all looked at before anything is read or written."""

from __future__ import annotations

import codecs
import gzip
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from importers.base import InputFile
from replay.errors import InputError

SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv")
"""What is taken from a folder, each also with `.gz`. A file that is named itself may have any name."""
STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 64 * 1024
_JSON_LINE = re.compile(rb'^\s*(\xef\xbb\xbf)?[\[{"]', re.MULTILINE)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@contextmanager
def collected(paths: Sequence[str]) -> Iterator[list[InputFile]]:
    """The files that `paths` name, folders walked in order of name; a pipe is copied to disk meanwhile.

    Raises:
        InputError: a path is missing, empty, unreadable or no text, or a folder has nothing to read.
    """
    with tempfile.TemporaryDirectory(prefix="replay-import-") as folder:
        yield [file for path in paths for file in _files(path, Path(folder))]


def _files(path: str, folder: Path) -> Iterator[InputFile]:
    if path == STDIN:
        yield _copied(sys.stdin.buffer, folder, "<stdin>")
        return
    place = Path(path)
    try:
        if place.is_dir():
            yield from _walk(place)
        elif place.is_file():
            yield _checked(place, path)
        elif place.exists():
            # A pipe or /dev/fd/N: it can be read once only, an import may have to look twice.
            with place.open("rb") as pipe:
                yield _copied(pipe, folder, path)
        else:
            raise InputError(f"there is no file {path}; check the path")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check its permissions") from None


def _walk(folder: Path) -> Iterator[InputFile]:
    names = sorted(file for file in folder.rglob("*") if _is_known(file) and file.is_file())
    if not names:
        raise InputError(
            f"the folder {folder} has no file to import; looked for {', '.join(SUFFIXES)}, each also with .gz"
        )
    for file in names:
        yield _checked(file, str(file))


def _is_known(file: Path) -> bool:
    name = file.name.lower().removesuffix(".gz")
    return name.endswith(SUFFIXES) and not file.name.startswith(".")


def _copied(stream: IO[bytes], folder: Path, name: str) -> InputFile:
    target = folder / str(len(list(folder.iterdir())))
    with target.open("wb") as file:
        shutil.copyfileobj(stream, file)
    copied = _checked(target, name)
    copied.modified = time.time()
    return copied


def _checked(place: Path, name: str) -> InputFile:
    status = place.stat()
    head = _head(place, name)
    if not head.strip():
        raise InputError(f"{name} is empty; nothing was imported")
    if head.startswith(_UTF16):
        raise InputError(f"{name} is UTF-16, not UTF-8; convert it, e.g. `iconv -f UTF-16 -t UTF-8`")
    if head.startswith(b"PAR1"):
        raise InputError(f"{name} is Parquet, which this version does not read; export JSONL instead")
    if b"\x00" in head:
        raise InputError(f"{name} is a binary file, not JSON or CSV text; check the path")
    if not any(_is_utf8(line) for line in head.splitlines() if line.strip()):
        raise InputError(f"{name} is not UTF-8 text; convert it, e.g. `iconv -f LATIN1 -t UTF-8`")
    if not _JSON_LINE.search(head) and not name.lower().removesuffix(".gz").endswith(".csv"):
        start = head.strip()[:40].decode(errors="replace")
        raise InputError(f"{name} is neither JSON nor CSV: it starts with {start!r}; check the path")
    return InputFile(path=str(place), name=name, size=status.st_size, modified=status.st_mtime)


def _head(place: Path, name: str) -> bytes:
    with place.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        with gzip.open(place) as file:
            return file.read1(_HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is not a readable gzip file: {error}; fetch it again") from None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        # The head may end within a character.
        return error.start >= len(line) - 3 and len(line) > 3
    return True
