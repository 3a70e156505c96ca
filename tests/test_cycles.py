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


DURING_A_RUN = """
import gc
from replaydiff.replay.cycles import SEARCH_AFTER, newer_cycles_only, search_rarely

before = gc.get_threshold()
with newer_cycles_only():
    assert gc.get_threshold() == (SEARCH_AFTER, *before[1:])
    assert gc.get_freeze_count()
assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0), "not as it was"
gc.set_threshold(0)
search_rarely()
assert gc.get_threshold()[0] == 0, "a search that nobody wanted"
"""


def test_a_run_searches_rarely_and_leaves_all_as_it_was() -> None:
    done = subprocess.run([sys.executable, "-c", DURING_A_RUN], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_searched_within_the_block_nor_right_after_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
