"""Folders below `.replay` that take long to make: made by one process, used by all.

Whoever makes one holds its lock, and marks it when it is whole. So of two processes one makes it and the
other waits; one that was killed in between leaves a folder without a mark, which the next replaces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from replaydiff.replay.locks import locked


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
