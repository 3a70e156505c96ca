"""Stores for tests, written as copies of a blank one: making the tables takes longer than most tests."""

from __future__ import annotations

import functools
import tempfile
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
        private_folder(path.parent)
        path.write_bytes(_blank())
        path.chmod(0o600)
    return open_store(path)
