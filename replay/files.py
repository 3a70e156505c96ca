"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from replaydiff.replay.errors import SHORT_OF, InputError, NoSpaceError

DATA_FOLDER = ".replay"
"""The folder of the store and of whatever else is kept between commands, beside replay.toml."""


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
    """Refuse a target that cannot be written, before any work is done; `example` is the name in its advice.

    Raises:
        InputError: it is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder", hint=f"name a file in it, such as -o {path / example}")
    if not path.absolute().parent.is_dir():
        raise InputError(
            f"there is no folder {path.parent} to write {path.name} in", hint="make it, or name another"
        )


@contextlib.contextmanager
def replacing(path: Path, example: str = "report.html") -> Iterator[Path]:
    """Yield an empty file to write to, which replaces `path` when the context ends without an error.

    A reader sees the old file or the new one, never half of one. Through a symbolic link its target is
    replaced; into a pipe or device (`/dev/stdout`) the finished file is copied.

    Raises:
        InputError: the folder cannot be written.
        NoSpaceError: there is no room.
    """
    check_target(path, example)
    # The path as it is: what /dev/stdout resolves to is no name of a pipe.
    special = path.exists() and not path.is_file()
    target = path if special else path.resolve()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=None if special else target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            if special:
                with temporary.open("rb") as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            else:
                # mkstemp makes files for their owner alone; this one has the rights of any other new file.
                mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
                temporary.chmod(mode)
                temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"{path} cannot be written: {error.strerror}"
        if error.errno in SHORT_OF:
            raise NoSpaceError(reason, hint="make room, or name another file") from None
        raise InputError(reason, hint="make its folder writable, or name another file") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as `replacing` does, and bring it to the disk before it takes the place of the old one.

    Args:
        path: the file.
        content: bytes, or text, which becomes UTF-8 (lone surrogates become `?`).

    Raises:
        InputError: the folder cannot be written.
        NoSpaceError: there is no room.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", errors="replace"))
        file.flush()
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
