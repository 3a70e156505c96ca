"""Every parser of foreign bytes reads or refuses what is almost right; `make fuzz` looks further."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.parsers import kept, mutated, problem, targets

TARGETS = targets()
INPUTS = 25


@pytest.mark.parametrize("name", TARGETS)
def test_bytes_that_are_almost_right_are_read_or_refused(name: str) -> None:
    target, chance = TARGETS[name], random.Random(name)
    for seed in target.seeds:
        assert problem(target, seed) is None
    for data in [
        *kept(name),
        *(mutated(chance.choice(target.seeds), chance, target.seeds) for _ in range(INPUTS)),
    ]:
        assert problem(target, data) is None
