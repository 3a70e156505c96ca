"""The commits between two revisions, and which of them contain which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of the searched history."""

    id: str
    subject: str
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A known good commit and the commits that may have changed it, parents first; the last one is bad."""

    good: Commit
    commits: tuple[Commit, ...]

    @property
    def points(self) -> tuple[Commit, ...]:
        """Return everything that can be tested: the good commit, then the others."""
        return (self.good, *self.commits)

    def contains(self) -> NDArray[np.bool_]:
        """Return whether the point of the column contains the commit of the row.

        Where the row's commit made the change, exactly the columns that contain it show it. This covers
        merges: both sides of a branch are tested, and a merge commit itself may have made the change.
        """
        position = {commit.id: number for number, commit in enumerate(self.commits)}
        contained = np.zeros((len(self.commits), len(self.commits)), dtype=np.bool_)
        for number, commit in enumerate(self.commits):
            contained[number, number] = True
            for parent in commit.parents:
                if (of_parent := position.get(parent)) is not None:
                    contained[:, number] |= contained[:, of_parent]
        return np.hstack([np.zeros((len(self.commits), 1), dtype=np.bool_), contained])

    def parents(self, commit: int) -> list[int]:
        """Return the places in `points` of the parents of `commits[commit]` that belong to the history."""
        position = {point.id: number for number, point in enumerate(self.points)}
        return [position[parent] for parent in self.commits[commit].parents if parent in position]


def groups(contains: NDArray[np.bool_], testable: Sequence[bool]) -> list[list[int]]:
    """Return the commits in groups that no test can tell apart, because those between them cannot be tested.

    Args:
        contains: as `History.contains` returns it.
        testable: for each of the history's points, whether it can be tested.
    """
    by_columns: dict[bytes, list[int]] = {}
    columns = np.flatnonzero(np.asarray(testable))
    for number, row in enumerate(contains[:, columns]):
        by_columns.setdefault(row.tobytes(), []).append(number)
    return list(by_columns.values())
