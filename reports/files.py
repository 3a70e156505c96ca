"""Reports as files: there whole, or not there."""

from __future__ import annotations

from pathlib import Path

from replaydiff.replay.files import check_target, replacing

__all__ = ["check_target", "write_whole"]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write bytes, or text as UTF-8, so that a reader sees the old file or the new one, never half of one.

    Through a symbolic link its target is replaced; a pipe or device (`/dev/stdout`) is written to as it is.

    Raises:
        InputError: the folder cannot be written.
    """
    with replacing(path) as file:
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", errors="replace"))
