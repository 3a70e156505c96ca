"""Which call of a trial stands where in a reference, and which arguments differ: to look at, not to grade by.

A longest common subsequence by tool name, in which a pair with equal arguments counts more than one with
others: so of two calls to the same tool the one that fits is paired. Example, reference above, calls below:

    search("a")   search("b")   cancel(1)
                  search("b")   cancel(2)   → [1, 2], and the argument of cancel differs
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from replaydiff.replay.model import Json, JsonObject

_SAME_NAME, _SAME_ARGS = 4, 5
"""A pair of equal calls is worth a little more than one of the same tool, and less than two pairs."""
_MOST_CELLS = 250_000


class Call(NamedTuple):
    """What is compared of a call."""

    name: str
    args: JsonObject | None
    """None where only the name is expected."""


def align(reference: Sequence[Call], made: Sequence[Call]) -> list[int | None]:
    """For each call that was made, its place in the reference; places only grow. None where it has none."""
    places: list[int | None] = [None] * len(made)
    start = 0
    while start < min(len(reference), len(made)) and _worth(reference[start], made[start]) == _SAME_ARGS:
        places[start] = start
        start += 1
    rest, others = reference[start:], made[start:]
    if len(rest) * len(others) > _MOST_CELLS:
        # Hundreds of calls on both sides that have nothing in common at their beginning: side by side.
        for index, (one, other) in enumerate(zip(rest, others, strict=False)):
            if one.name == other.name:
                places[start + index] = start + index
        return places
    best = [[0] * (len(others) + 1) for _ in range(len(rest) + 1)]
    for i in range(len(rest) - 1, -1, -1):
        for j in range(len(others) - 1, -1, -1):
            pair = _worth(rest[i], others[j])
            together = pair + best[i + 1][j + 1] if pair else 0
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(rest) and j < len(others):
        pair = _worth(rest[i], others[j])
        if pair and best[i][j] == pair + best[i + 1][j + 1]:
            places[start + j] = start + i
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return places


def differing(
    reference: JsonObject | None, args: JsonObject, *, only_expected: bool, ignored: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Names of arguments whose value differs (or that the reference has not), and of those that are missing.

    `only_expected` leaves out arguments that the reference does not name; `ignored` ones never count.
    """
    if reference is None:
        return [], []
    changed = [
        key
        for key, value in args.items()
        if key not in ignored
        and (
            (key in reference and not same(reference[key], value))
            or (key not in reference and not only_expected)
        )
    ]
    return changed, [key for key in reference if key not in args and key not in ignored]


def same(one: Json, other: Json) -> bool:
    """Equal JSON values: 1 is 1.0 but not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _worth(reference: Call, made: Call) -> int:
    if reference.name != made.name:
        return 0
    if reference.args is None or made.args is None or same(reference.args, made.args):
        return _SAME_ARGS
    return _SAME_NAME
