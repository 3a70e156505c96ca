"""Reports as files: there whole, or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from replay.errors import InputError


def check_target(path: Path) -> None:
    """Refuse a target that cannot be written, before any work is done.

    Raises:
        InputError: it is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it, such as -o {path / 'report.html'}")
    if not path.absolute().parent.is_dir():
        raise InputError(
            f"there is no folder {path.parent} to write {path.name} in; make it, or name another"
        )


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text so that a reader sees the old file or the new one, never half of one.

    Through a symbolic link its target is replaced; a pipe or device (`/dev/stdout`) is written to as it is.

    Raises:
        InputError: the folder cannot be written.
    """
    check_target(path)
    target = path.resolve()
    data = text.encode("utf-8", errors="replace")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            # mkstemp makes files for their owner alone; a report has the rights of any other new file.
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
            Path(name).chmod(mode)
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name another file with -o") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
