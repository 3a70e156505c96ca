"""What the pages read: the store is opened for one question and closed again, never held while a page waits.

What was found is kept for as long as nobody has written to the store or the golden set. Where another process
holds the store, what was found last is shown, and that it may be old.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import StoreBusyError
from replaydiff.replay.store.connection import open_store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")
_ROOM = {"report": 3, "file": 1, "queue": 3}
_MOST = 200
"""Findings of one kind that are kept, unless `_ROOM` says fewer: what holds a whole result is large."""

_State = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached(Generic[T]):
    """An answer of the store."""

    value: T
    at: datetime
    """When it was read."""
    busy: str | None = None
    """Why it could not be read anew; None where nothing was written since."""


class StoreCache:
    """A store, a golden set, and what was found in them. One thread at a time, since DuckDB opens one way."""

    def __init__(self, store: Path, golden: Path) -> None:
        self.store = store
        self._watched = (store, store.with_name(store.name + ".wal"), golden)
        self._lock = threading.Lock()
        self._kept: dict[str, OrderedDict[object, tuple[_State, Cached[Any]]]] = {}

    def read(self, kind: str, key: object, find: Callable[[DuckDBPyConnection], T]) -> Cached[T]:
        """What `find` finds; kept under a kind and a key.

        Raises:
            StoreError: the store cannot be read, or is held by another process and nothing was found before.
        """
        with self._lock:
            kept = self._kept.setdefault(kind, OrderedDict())
            state, known = kept.get(key, (None, None))
            now = self._state()
            if known is not None and state == now:
                kept.move_to_end(key)
                return known
            try:
                with open_store(self.store, read_only=True) as con:
                    found = Cached(value=find(con), at=utc_now())
            except StoreBusyError as error:
                if known is None:
                    raise
                return replace(known, busy=str(error))
            kept[key] = (now, found)
            if len(kept) > _ROOM.get(kind, _MOST):
                kept.popitem(last=False)
            return found

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While a decision is written, which changes no finding: those that were fresh stay so.

        The store is held for as long, so what another process wrote before is not taken for part of it.

        Raises:
            StoreError: the store cannot be written, or is held by another process; nothing was written.
        """
        with self._lock:
            with open_store(self.store):
                before = self._state()
                yield
            after = self._state()
            for kept in self._kept.values():
                kept.update({key: (after, known) for key, (state, known) in kept.items() if state == before})

    def forget(self, kind: str) -> None:
        """Let all findings of a kind go."""
        with self._lock:
            self._kept.pop(kind, None)

    def _state(self) -> _State:
        found = []
        for path in self._watched:
            try:
                status = path.stat()
            except OSError:
                found.append((0, -1))
            else:
                found.append((status.st_mtime_ns, status.st_size))
        return tuple(found)
