"""How much memory a process and its children hold. Linux only: it is read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def held_mb(pid: int) -> float:
    """Megabytes of RAM (resident, shared pages counted in each) of a process and all its descendants."""
    return sum(_resident(one) for one in _family(pid)) / 2**20


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        for thread in os.scandir(f"/proc/{pid}/task"):
            for child in Path(thread.path, "children").read_text().split():
                yield from _family(int(child))
    except OSError:
        # It has ended meanwhile.
        return


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
