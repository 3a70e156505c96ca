"""Files that appear under their name only when they are complete, and locks between processes.

A lock is on a file or a folder; the system releases it when the holder ends or dies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from replaydiff.replay.errors import SHORT_OF, InputError, NoSpaceError, remedy

DATA_FOLDER = ".replay"
"""The folder of the store and of whatever else is kept between commands, beside replay.toml."""

FILE_CONTENTS = "files"
"""The folder in it with the content of files that trials wrote, by its hash."""

MEDIA_FOLDER = "media"
"""The folder in it with pictures, documents and audio of traces, by the hash of their content."""


def private_folder(path: Path) -> None:
    """Create a folder that its owner alone may look into, with its parents; ours is made so where it is not.

    Raises:
        OSError: it cannot be created.
    """
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        return
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if path.name == DATA_FOLDER and path.stat().st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            path.chmod(0o700)


def check_target(path: Path, example: str = "report.html") -> None:
    """Refuse a target that must not be written, before any work is done; `example` is the name in its advice.

    Raises:
        InputError: it is a folder, its folder does not exist, or a link leads it out of the current folder:
            whoever can commit to a repository could have a report written anywhere.
    """
    current, real = Path.cwd(), path.resolve()
    if Path(os.path.abspath(path)).is_relative_to(current) and not real.is_relative_to(current.resolve()):  # noqa: PTH100
        raise InputError(
            f"{path} is behind a link that leads to {real}, out of the current folder",
            hint="name that file itself",
        )
    _check_folder(path, example)


def check_link(path: Path) -> None:
    """Refuse a file of a project that is behind a link out of the project's repository.

    Whoever can commit to a repository could otherwise have a golden set written over any file. Where there is
    no repository, the folder with `replay.toml` is the limit; a file in neither is whoever's who names it.

    Raises:
        InputError: a link leads there.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - as it is named: links are what is looked for
    around = [
        folder for mark in (".git", "replay.toml") for folder in absolute.parents if (folder / mark).exists()
    ]
    real = path.resolve()
    if around and not real.is_relative_to(around[0].resolve()):
        raise InputError(
            f"{path} is behind a link that leads to {real}, out of {around[0]}", hint="name that file itself"
        )


def _check_folder(path: Path, example: str) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder", hint=f"name a file in it, such as -o {path / example}")
    if not path.absolute().parent.is_dir():
        raise InputError(
            f"there is no folder {path.parent} to write {path.name} in", hint="make it, or name another"
        )


@contextlib.contextmanager
def replacing(path: Path, example: str = "report.html", *, shared: bool = False) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces `path` when the context ends without an error.

    A reader sees the old file or the new one, never half of one. Through a symbolic link its target is
    replaced; into a pipe or device (`/dev/stdout`) the finished file is copied. A file that exists keeps its
    mode. A new one is readable by its owner alone, because it may contain traces; a `shared` one has the mode
    of any other new file, as files of the project that are kept in git need, and `check_link` is for it.

    Raises:
        InputError: the folder cannot be written, or a link leads a shared file out of the repository.
        NoSpaceError: there is no room.
    """
    _check_folder(path, example)
    if shared:
        check_link(path)
    # The path as it is: what /dev/stdout resolves to is no name of a pipe.
    special = path.exists() and not path.is_file()
    target = path if special else path.resolve()
    try:
        if not special:
            _remove_left(target)
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.{os.getpid()}.", dir=None if special else target.parent
        )
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            if special:
                with temporary.open("rb") as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            else:
                new = 0o666 & ~_umask() if shared else 0o600
                temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else new)
                temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror}"
        if error.errno in SHORT_OF:
            raise NoSpaceError(reason, hint=f"{remedy(reason)}, or name another file") from None
        raise InputError(reason, hint="make its folder writable, or name another file") from None


def is_alive(pid: int) -> bool:
    """Return whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _remove_left(target: Path) -> None:
    """Remove what processes that were killed left of this file before it was whole."""
    temporary_name = re.compile(re.escape(f".{target.name}.") + r"(\d+)\.\w{8}")
    for name in os.listdir(target.parent):  # noqa: PTH208 - names alone, of a folder that may be large
        if (match := temporary_name.fullmatch(name)) and not is_alive(int(match[1])):
            with contextlib.suppress(OSError):
                (target.parent / name).unlink()


def write_whole(path: Path, content: str | bytes | Iterable[str | bytes], *, shared: bool = False) -> None:
    """Write a file as `replacing` does, and bring it to the disk before it takes the place of the old one.

    Args:
        path: the file.
        content: bytes, or text, which becomes UTF-8 (lone surrogates become `?`), or parts of either.
        shared: as for `replacing`.

    Raises:
        InputError: the folder cannot be written.
        NoSpaceError: there is no room.
    """
    with replacing(path, shared=shared) as temporary, temporary.open("wb") as file:
        for part in [content] if isinstance(content, str | bytes) else content:
            file.write(part if isinstance(part, bytes) else part.encode("utf-8", errors="replace"))
        file.flush()
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_writer_wait_s = 1.0


def set_writer_wait(seconds: float) -> None:
    """Set for how long this process waits for another one that writes to its store."""
    global _writer_wait_s
    _writer_wait_s = seconds


def writer_wait_s() -> float:
    """Return for how many seconds this process waits for another one that writes to its store."""
    return _writer_wait_s


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


def append(file: int, lines: bytes) -> None:
    """Append lines to an open file; no kill of this process loses them once this returns.

    A line that a killed process did not finish takes none of these with it.

    Args:
        file: a descriptor for reading and writing.
        lines: whole ones.

    Raises:
        OSError: they cannot be written; the file is as it was.
    """
    size = os.lseek(file, 0, os.SEEK_END)
    if size and os.pread(file, 1, size - 1) != b"\n":
        lines = b"\n" + lines
    try:
        while lines:
            lines = lines[os.write(file, lines) :]
    except OSError:
        os.ftruncate(file, size)
        raise


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
    """Return `.replay/NAME`, made where it is missing, and never to be committed.

    Git ignores the folder whether `replay init` was run or not.
    """
    home = data_folder / name
    home.mkdir(parents=True, exist_ok=True)
    ignore = data_folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")
    return home


def mark_of(folder: Path) -> Path:
    """Return the file next to a folder that marks it as complete."""
    return folder.parent / f"{folder.name}.complete"


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of this folder."""
    with locked(folder.parent / f"{folder.name}.lock"):
        yield


def claimed_folder(homes: Path) -> tuple[Path, int]:
    """Make a folder for this process alone, and remove those of processes that were killed.

    Args:
        homes: where such folders are; it is made where it is missing.

    Returns:
        The folder, and the descriptor of its lock, which is held until that is closed.
    """
    private_folder(homes)
    for lock in homes.glob("*.lock"):
        with contextlib.suppress(OSError):
            # Held meanwhile: its folder may be about to be made.
            descriptor = acquire(lock, wait=False, flags=os.O_RDWR)
            try:
                remove_tree(lock.with_suffix(""))
                lock.unlink()
            finally:
                os.close(descriptor)
    home = homes / secrets.token_hex(6)
    descriptor = acquire(home.with_suffix(".lock"), wait=True)
    home.mkdir(mode=0o700)
    return home, descriptor


def remove_tree(folder: Path) -> None:
    """Remove a folder, also one with folders that nobody may read: overlays leave such, and agents may."""
    for path, names, _ in os.walk(folder):
        for name in names:
            inner = Path(path, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def has_locks(folder: Path) -> bool:
    """Return whether files of a folder can be locked; True where that cannot be tried."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".lock-", suffix=".duckdb") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
    except OSError:
        pass
    return True


def file_system(path: Path, mounts: str | None = None) -> str:
    """Return the type of the file system that a path is on, as in `ext4` or `nfs4`; empty where unknown.

    Args:
        path: need not exist.
        mounts: the text of Linux's `mountinfo` (proc(5)); None for that of this process.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    resolved, longest, kind = path.resolve(), -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        # Spaces and the like are octal there.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
        # Of two mounts on one point the later one is seen.
        if resolved.is_relative_to(point) and len(point) >= longest:
            longest, kind = len(point), after.split(" ")[0]
    return kind
