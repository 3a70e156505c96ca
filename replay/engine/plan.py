"""What comes when: items in a seeded random order, the trials of one item as one block.

Lanes and trials of an item stand next to each other in time, in random order within their block. Whatever
drifts during a run, the clock or the provider, drifts for every lane alike; and a run that ends early is a
smaller sample of whole blocks. The order comes from hashes of seed and names alone: the same seed orders the
same items alike whatever order they came in, and a resumed run goes on as it began.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import NamedTuple

from replaydiff.replay.model import Lane


class Slot(NamedTuple):
    """The place of one trial in its item's block."""

    lane: Lane
    trial: int
    """Its index within the lane, from 0."""


def order(ids: Iterable[str], seed: int) -> list[str]:
    """The ids of a run's items in the order in which their blocks are replayed."""
    return sorted(ids, key=lambda name: (_place(seed, name), name))


def block(item_id: str, lanes: Collection[Lane], trials: int, seed: int) -> list[Slot]:
    """The trials of one item in the order in which they are started."""
    slots = [Slot(lane, trial) for lane in lanes for trial in range(trials)]
    return sorted(slots, key=lambda slot: (_place(seed, item_id, str(slot.lane), str(slot.trial)), slot))


def _place(seed: int, *names: str) -> bytes:
    text = "\x00".join((str(seed), *names))
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
