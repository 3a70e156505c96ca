"""The search for reference cycles is put off, and what was made meanwhile is not searched at once."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: that of the tests has frozen what it holds.
PROGRAM = """
import gc
from replaydiff.replay.cycles import no_cycle_search

def searches():
    return sum(one["collections"] for one in gc.get_stats())

def many():
    return [[number] for number in range(100_000)]

gc.collect()
before = searches()
with no_cycle_search():
    assert not gc.isenabled()
    kept = many()
few = [[] for _ in range(100)]
assert searches() == before, "a search right after the block"
assert gc.isenabled()
more = many()
assert searches() > before, "no search any more"
gc.disable()
with no_cycle_search():
    pass
assert not gc.isenabled(), "a search that nobody wanted"
"""


def test_nothing_is_searched_within_the_block_nor_right_after_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
