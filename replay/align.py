"""Align two lists of tool calls, and compare their arguments.

`align` is for display: a longest common subsequence by tool name, in which a pair with equal arguments counts
more than one with others, so that of two calls to the same tool the one that fits is paired. Grading uses the
same `common_subsequence` with rules of its own (`diff.graders.matching`). Example, the reference first:

    search("a")   search("b")   cancel(1)
                  search("b")   cancel(2)   → [1, 2], and the argument of cancel differs
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from replaydiff.replay.model import Json, JsonObject

_SAME_NAME, _SAME_ARGS = 4, 5
"""A pair of equal calls is worth a little more than one of the same tool, and less than two pairs."""
_MOST_CELLS = 250_000


class Call(NamedTuple):
    """A call as it is compared: its name and arguments."""

    name: str
    args: JsonObject | None
    """None where only the name is expected."""


def align(reference: Sequence[Call], actual: Sequence[Call]) -> list[int | None]:
    """Return for each call that was made its position in the reference, or None; positions only grow."""
    positions: list[int | None] = [None] * len(actual)
    if _cells(reference, actual) > _MOST_CELLS:
        # Hundreds of calls on both sides that have nothing in common at their beginning: side by side.
        pairs = [
            (i, i)
            for i, (expected_call, actual_call) in enumerate(zip(reference, actual, strict=False))
            if _worth(expected_call, actual_call)
        ]
    else:
        pairs = common_subsequence(
            len(reference), len(actual), lambda i, j: _worth(reference[i], actual[j]), most=_SAME_ARGS
        )
    for i, j in pairs:
        positions[j] = i
    return positions


def common_subsequence(
    rows: int, columns: int, worth: Callable[[int, int], int], *, most: int = 1
) -> list[tuple[int, int]]:
    """Return the pairs of the common subsequence that is worth the most, in order.

    A dynamic programme (Wagner & Fischer 1974). What both sequences begin with is paired at once.

    Args:
        rows: length of the first sequence.
        columns: length of the second.
        worth: what it is worth to pair element i of the first with j of the second; 0: they do not fit.
        most: the largest worth a pair can have.
    """
    start = 0
    while start < min(rows, columns) and worth(start, start) == most:
        start += 1
    best = [[0] * (columns - start + 1) for _ in range(rows - start + 1)]
    for i in range(rows - 1, start - 1, -1):
        row, below = best[i - start], best[i - start + 1]
        for j in range(columns - 1, start - 1, -1):
            pair = worth(i, j)
            together = pair + below[j - start + 1] if pair else 0
            row[j - start] = max(together, below[j - start], row[j - start + 1])
    pairs = [(i, i) for i in range(start)]
    i = j = start
    while i < rows and j < columns:
        pair, cell = worth(i, j), best[i - start][j - start]
        if pair and cell == pair + best[i - start + 1][j - start + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif cell == best[i - start + 1][j - start]:
            i += 1
        else:
            j += 1
    return pairs


def differing(
    reference: JsonObject | None, args: JsonObject, *, only_expected: bool, ignored: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Return the names of arguments that differ from the reference, and of those that are missing.

    `only_expected` leaves out arguments that the reference does not name; `ignored` ones never count.
    """
    if reference is None:
        return [], []
    changed = [
        key
        for key, value in args.items()
        if key not in ignored
        and (
            (key in reference and not equal_json(reference[key], value))
            or (key not in reference and not only_expected)
        )
    ]
    return changed, [key for key in reference if key not in args and key not in ignored]


def equal_json(left: Json, right: Json) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0 but not true."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            equal_json(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal_json, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _cells(reference: Sequence[Call], actual: Sequence[Call]) -> int:
    """Return how many pairs of calls remain to compare after the calls that both begin with."""
    shorter = min(len(reference), len(actual))
    start = next((i for i in range(shorter) if _worth(reference[i], actual[i]) != _SAME_ARGS), shorter)
    return (len(reference) - start) * (len(actual) - start)


def _worth(reference: Call, actual: Call) -> int:
    if reference.name != actual.name:
        return 0
    if reference.args is None or actual.args is None or equal_json(reference.args, actual.args):
        return _SAME_ARGS
    return _SAME_NAME
