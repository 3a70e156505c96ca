"""Stores for tests, written as copies of a blank one: making the tables takes longer than most tests."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path

from duckdb import DuckDBPyConnection

from replaydiff.replay.files import private_folder
from replaydiff.replay.store.connection import open_store


@functools.cache
def _blank() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blank.duckdb"
        open_store(path).close()
        return path.read_bytes()


def open_for_writing(path: Path) -> DuckDBPyConnection:
    """Open a store to write to; one that is not there is made."""
    if not path.exists():
        _write(path, _blank())
    return open_store(path)


_filled: dict[Hashable, bytes] = {}
_KEPT = 64
"""Filled stores that are kept, a megabyte each."""


def write_filled(path: Path, contents: Hashable, fill: Callable[[DuckDBPyConnection], None]) -> None:
    """Write a new store that `fill` fills; the same contents are written once in this process, and copied."""
    if contents not in _filled:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "filled.duckdb"
            with open_for_writing(made) as con:
                fill(con)
            while len(_filled) >= _KEPT:
                del _filled[next(iter(_filled))]
            _filled[contents] = made.read_bytes()
    _write(path, _filled[contents])


def _write(path: Path, store: bytes) -> None:
    private_folder(path.parent)
    path.write_bytes(store)
    path.chmod(0o600)
