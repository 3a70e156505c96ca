"""Locks between processes: on a file or a folder, released by the system when the holder ends or dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def acquire(path: Path, *, wait: bool, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Lock a file for this process alone; by default it is created where it is missing.

    Returns:
        An open file descriptor; closing it releases the lock.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is false.
        OSError: the file cannot be opened.
    """
    while True:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # A holder that removes its file leaves those who waited with the lock of a file nobody can find.
            if _is_same(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True, remove: bool = False) -> Iterator[int]:
    """Hold the lock of a file.

    Args:
        path: the file, created where it is missing.
        wait: wait for another holder.
        remove: remove the file at the end.

    Yields:
        The open file descriptor.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is false.
        OSError: the file cannot be opened.
    """
    descriptor = acquire(path, wait=wait)
    try:
        yield descriptor
    finally:
        if remove:
            path.unlink(missing_ok=True)
        os.close(descriptor)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that exists; wait for another holder.

    Raises:
        OSError: the folder cannot be opened.
    """
    descriptor = acquire(folder, wait=True, flags=os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(descriptor: int) -> bool:
    """Return whether another holder has the lock of an open file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def home_of(data_folder: Path, name: str) -> Path:
    """`.replay/NAME`, made where it is missing, and never to be committed.

    Git is told whether `replay init` was run or not.
    """
    home = data_folder / name
    home.mkdir(parents=True, exist_ok=True)
    ignore = data_folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")
    return home


def mark_of(folder: Path) -> Path:
    """The file that says, beside a folder, that it is whole."""
    return folder.parent / f"{folder.name}.complete"


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of this folder."""
    with locked(folder.parent / f"{folder.name}.lock"):
        yield
