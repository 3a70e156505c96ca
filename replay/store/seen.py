"""Sets of maybe millions of ids, in eight bytes each."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

_RECENT = 50_000
"""So many are kept as Python's own numbers, which take ten times as much."""


class SeenIds:
    """The hashes of ids, in sorted arrays of which each is twice the next."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted: list[npt.NDArray[np.int64]] = []

    def add(self, ids: Iterable[str]) -> None:
        """Put ids in."""
        self._recent.update(map(hash, ids))
        if len(self._recent) < _RECENT:
            return
        new = np.sort(np.fromiter(self._recent, np.int64, len(self._recent)))
        self._recent = set()
        while self._sorted and len(self._sorted[-1]) < 2 * len(new):
            new = np.sort(np.concatenate((self._sorted.pop(), new)))
        self._sorted.append(new)

    def among(self, ids: Collection[str]) -> set[str]:
        """Return those of these ids that are in it."""
        present = (
            {candidate for candidate in ids if hash(candidate) in self._recent} if self._recent else set()
        )
        if not self._sorted:
            return present
        listed = [*ids]
        hashes = np.fromiter(map(hash, listed), np.int64, len(listed))
        for hashes_seen in self._sorted:
            places = np.minimum(np.searchsorted(hashes_seen, hashes), len(hashes_seen) - 1)
            present.update(listed[at] for at in np.flatnonzero(hashes_seen[places] == hashes))
        return present
