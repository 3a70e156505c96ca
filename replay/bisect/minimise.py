"""Delta debugging: the smallest parts of a change that have its effect."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence

Effect = Callable[[frozenset[int]], Awaitable[bool | None]]
"""Whether these parts alone have the effect; None where they cannot be tried, or it cannot be known."""


async def minimise(parts: int, has_effect: Effect) -> tuple[int, ...]:
    """Return parts that together have the effect, none of which can be left out (`ddmin`).

    All parts together are taken to have it. A. Zeller and R. Hildebrandt, Simplifying and Isolating
    Failure-Inducing Input, IEEE Transactions on Software Engineering 28 (2), 2002.

    Args:
        parts: how many there are.
        has_effect: tries some of them; the same parts are tried once.
    """
    results: dict[frozenset[int], bool | None] = {frozenset(range(parts)): True}

    async def tried(chosen: Sequence[int]) -> bool:
        key = frozenset(chosen)
        if key not in results:
            results[key] = await has_effect(key)
        return results[key] is True

    left, slices = list(range(parts)), 2
    while len(left) >= 2:
        pieces = _split(left, slices)
        smaller = await _first(pieces, tried)
        if smaller is not None:
            left, slices = smaller, 2
            continue
        reduced = None
        if slices > 2:
            reduced = await _first(
                [[piece_part for piece_part in left if piece_part not in piece] for piece in pieces], tried
            )
        if reduced is not None:
            left, slices = reduced, max(slices - 1, 2)
        elif slices < len(left):
            slices = min(2 * slices, len(left))
        else:
            break
    return tuple(left)


async def _first(
    candidates: Sequence[list[int]], tried: Callable[[Sequence[int]], Awaitable[bool]]
) -> list[int] | None:
    for candidate in candidates:
        if candidate and await tried(candidate):
            return candidate
    return None


def _split(parts: Sequence[int], slices: int) -> list[list[int]]:
    """Return the parts in so many slices of nearly one size."""
    bounds = [len(parts) * number // slices for number in range(slices + 1)]
    return [list(parts[start:end]) for start, end in itertools.pairwise(bounds)]
