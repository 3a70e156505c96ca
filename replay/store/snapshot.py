"""A copy of the store as it was last committed, made while another process writes to it.

DuckDB lets one process write and no other one read meanwhile. What is committed is in the file and its
write-ahead log all the same: the blocks that the file's header refers to stay as they are until a checkpoint
writes the next header, and the log only grows until then. So a copy of the log and then of the file is the
state of a moment in between, if the headers were the same before and after, and no checkpoint was under way.
The log comes first, since it refers to blocks that were written to the file before.

Never for a store that this process has open itself: closing any descriptor of a file releases all locks that
the process has on it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path

from replaydiff.replay.files import is_alive

_HEADERS = 3 * 4096
"""Bytes of the file's three headers; each checkpoint writes to the second or the third."""
_PREFIX = "snapshot-"
_TRIES = 100
_PAUSE_S = 0.05


class UnsettledError(Exception):
    """No moment without a checkpoint was found."""


def copy(path: Path, folder: Path) -> Path:
    """Copy a store and its log into a new file of a folder; remove it with `remove`.

    Raises:
        UnsettledError: the writer never left the file alone for as long as a copy takes.
        OSError: the copy cannot be written: no space, for example.
    """
    target = folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}.duckdb"
    try:
        for _ in range(_TRIES):
            before = _headers(path)
            if not _checkpoint_log(path).exists():
                _copy(log_of(path), log_of(target))
                _copy(path, target)
                if _headers(path) == before and not _checkpoint_log(path).exists():
                    return target
            time.sleep(_PAUSE_S)
    except BaseException:
        remove(target)
        raise
    remove(target)
    raise UnsettledError


def remove(copied: Path) -> None:
    """Remove a copy. An open connection can still read it."""
    copied.unlink(missing_ok=True)
    log_of(copied).unlink(missing_ok=True)


def left_over(folder: Path) -> list[Path]:
    """Return the copies that a killed process left."""
    return [path for path in folder.glob(f"{_PREFIX}*") if not _is_alive(path.name.split("-")[1])]


def fingerprint(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return what differs once the writer has committed something."""
    return tuple(_changed(file) for file in (path, log_of(path), _checkpoint_log(path)))


def is_open_here(path: Path) -> bool:
    """Return whether this process has a file open."""
    try:
        status = path.stat()
    except OSError:
        return False
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - numbers, not paths
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(int(name)), status):
                return True
    return False


def log_of(path: Path) -> Path:
    """Return the path of a store's write-ahead log."""
    return path.with_name(f"{path.name}.wal")


def _checkpoint_log(path: Path) -> Path:
    """Return the log into which others commit during a checkpoint."""
    return path.with_name(f"{path.name}.wal.checkpoint")


def _headers(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADERS)


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError), source.open("rb") as file:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as into:
            shutil.copyfileobj(file, into, 2**20)


def _changed(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return None


def _is_alive(pid: str) -> bool:
    return not pid.isdigit() or is_alive(int(pid))
