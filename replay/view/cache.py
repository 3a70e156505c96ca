"""Cache what the pages read from a project until its store or golden set changes.

The project opens the store for each answer and closes it again, so a page that waits holds nothing. Where
another process holds the store, a page shows the last answer, and says that it may be old.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from replaydiff.replay.api.project import Project
from replaydiff.replay.api.review import decision_files
from replaydiff.replay.clock import utc_now
from replaydiff.replay.errors import StoreBusyError

T = TypeVar("T")
_ROOM = {"report": 3, "file": 1, "queue": 3}
_MOST = 200
"""Answers of one kind that are kept, unless `_ROOM` sets fewer: what holds a whole result is large."""

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
    """The answers of a project, by kind and key. One thread at a time, since DuckDB opens a file one way."""

    def __init__(self, project: Project) -> None:
        store = project.store.path
        self._file = project.store
        self._watched = (store, store.with_name(store.name + ".wal"), *decision_files(project.settings))
        self._lock = threading.Lock()
        self._entries: dict[str, OrderedDict[object, tuple[_State, Cached[Any]]]] = {}

    def read(self, kind: str, key: object, find: Callable[[], T]) -> Cached[T]:
        """Return the answer of `find`, kept under a kind and a key.

        Raises:
            StoreError: the store cannot be read, or is held by another process and nothing was found before.
        """
        with self._lock:
            entries = self._entries.setdefault(kind, OrderedDict())
            state, cached = entries.get(key, (None, None))
            now = self._state()
            if cached is not None and state == now:
                entries.move_to_end(key)
                return cached
            try:
                fresh = Cached(value=find(), at=utc_now())
            except StoreBusyError as error:
                if cached is None:
                    raise
                return replace(cached, busy=str(error))
            entries[key] = (now, fresh)
            if len(entries) > _ROOM.get(kind, _MOST):
                entries.popitem(last=False)
            return fresh

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write a decision, which changes no answer: those that were up to date stay so.

        The store is held for as long, so what another process wrote before is not taken for part of it; where
        another process holds it, the decision waits beside it.

        Raises:
            StoreError: the store cannot be written; nothing was written.
        """
        with self._lock:
            with ExitStack() as stack:
                with suppress(StoreBusyError):
                    stack.enter_context(self._file.write_locked())
                before = self._state()
                yield
            after = self._state()
            for entries in self._entries.values():
                entries.update(
                    {key: (after, cached) for key, (state, cached) in entries.items() if state == before}
                )

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Write a decision that changes answers, while nothing is read."""
        with self._lock:
            yield

    def forget(self, kind: str) -> None:
        """Drop all answers of a kind."""
        with self._lock:
            self._entries.pop(kind, None)

    def _state(self) -> _State:
        parts = []
        for path in self._watched:
            try:
                status = path.stat()
            except OSError:
                parts.append((0, -1))
            else:
                parts.append((status.st_mtime_ns, status.st_size))
        return tuple(parts)
