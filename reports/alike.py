"""Items that changed in the same way, so that a reader looks at a cause once and not at its every item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replaydiff.diff.result import ItemVerdict
from replaydiff.reports import words


class Alike(NamedTuple):
    """Items of one verdict that changed on the same metric for the same cause."""

    metric: str
    """The metric that made the verdict; empty where the items have none."""
    cause: str
    """Empty where nobody said why."""
    items: tuple[ItemVerdict, ...]
    """At least one, in the order of the result."""


def alike(items: Sequence[ItemVerdict]) -> list[Alike]:
    """The items in groups, the largest first; groups of one size as their first items come."""
    found: dict[tuple[str, str], list[ItemVerdict]] = {}
    for item in items:
        first = next(iter(words.ranked(item)), None)
        key = (first[0], first[1].cause) if first else ("", "")
        found.setdefault(key, []).append(item)
    groups = [Alike(metric, cause, tuple(members)) for (metric, cause), members in found.items()]
    return sorted(groups, key=lambda group: -len(group.items))
