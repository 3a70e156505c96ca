"""Ends this process, or lets it find a full disk, at its n-th durable operation: for tests, in a child process.

Durable is what changes a file or the store: writing a descriptor, fsync, truncating, renaming, removing, making
a folder, and a statement, commit or close of DuckDB that writes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import duckdb

KILLED = 137
_FILE = ("fsync", "ftruncate", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link")
_WRITES = ("INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "COPY", "CHECKPOINT", "ATTACH", "DETACH")
_count = 0
_at = 0
_mode = ""


def fail_at(number: int, mode: str) -> None:
    """Let the n-th durable operation fail from now on.

    Args:
        number: of the operation, from 1.
        mode: `before` and `after` end the process there; `full` raises what a full disk does.
    """
    global _at, _mode
    _at, _mode = number, mode
    for name in _FILE:
        setattr(os, name, _failing(getattr(os, name), _no_space))
    # Python itself writes to a terminal or pipe by other means.
    os.write = _failing(os.write, _no_space, only=lambda descriptor, *_: descriptor > 2)
    duckdb.connect = _connecting(duckdb.connect)


def operations() -> int:
    """Return how many durable operations there were so far."""
    return _count


def _failing(
    real: Callable[..., Any], full: Callable[[], Exception], only: Callable[..., bool] = lambda *_, **__: True
) -> Callable[..., Any]:
    def operation(*args: Any, **options: Any) -> Any:
        global _count
        if not only(*args, **options):
            return real(*args, **options)
        _count += 1
        if _count != _at:
            return real(*args, **options)
        if _mode == "full":
            raise full()
        if _mode == "after":
            real(*args, **options)
        os._exit(KILLED)

    return operation


def _no_space() -> Exception:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _no_space_in_store() -> Exception:
    return duckdb.IOException("IO Error: Could not write file: No space left on device")


def _connecting(real: Callable[..., Any]) -> Callable[..., Any]:
    def connect(*args: Any, **options: Any) -> Any:
        return _Connection(real(*args, **options))

    return connect


class _Connection:
    """A connection of DuckDB whose writing operations fail when it is their turn."""

    def __init__(self, con: Any) -> None:
        self._con = con
        self._execute = _failing(con.execute, _no_space_in_store)
        self.commit = _failing(con.commit, _no_space_in_store)
        self.close = _failing(con.close, _no_space_in_store)

    def execute(self, query: Any, *args: Any) -> Any:
        writes = isinstance(query, str) and query.lstrip().upper().startswith(_WRITES)
        return (self._execute if writes else self._con.execute)(query, *args)

    def cursor(self) -> _Connection:
        return _Connection(self._con.cursor())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()
