"""How long a failed trial waits, and when its whole lane does."""

from __future__ import annotations

import asyncio
import math
import random
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.agents import Outcome
from replay.engine.schedule import LONGEST_WAIT_S, Pace, waiting_time
from replay.model import Status


def failed(reason: str = "", retry_after_s: float | None = None) -> Outcome:
    return Outcome(
        status=Status.INFRA_ERROR,
        reason=reason,
        retry_after_s=retry_after_s,
        started_at=datetime(2026, 11, 21),
    )


@pytest.mark.parametrize(
    ("asked_s", "tries", "least", "most"),
    [
        (None, 1, 0.5, 1.0),
        (None, 2, 1.0, 2.0),
        (None, 3, 2.0, 4.0),
        (None, 50, 30.0, 60.0),
        (10.0, 1, 10.0, 15.0),
        (3600.0, 1, 60.0, 90.0),
        (math.inf, 1, 60.0, 90.0),
        (math.nan, 1, 0.5, 1.0),
        (0.0, 4, 0.0, 0.0),
    ],
)
def test_the_wait_doubles_unless_one_was_asked_for(
    asked_s: float | None, tries: int, least: float, most: float
) -> None:
    assert (waiting_time(asked_s, tries, 0.0), waiting_time(asked_s, tries, 1.0)) == (least, most)


@given(st.none() | st.floats(), st.integers(1, 10_000), st.floats(0, 1))
def test_no_wait_is_endless_or_negative(asked_s: float | None, tries: int, chance: float) -> None:
    assert 0 <= waiting_time(asked_s, tries, chance) <= LONGEST_WAIT_S * 1.5


@pytest.mark.parametrize(
    ("outcome", "rests"),
    [
        (failed("RateLimitError: Error code: 429 (app/agent.py:3)"), True),
        (failed("APIStatusError: Error code: 529"), True),
        (failed("APIConnectionError: refused", retry_after_s=0.1), True),
        (failed("InternalServerError: Error code: 500"), False),
        (failed("order 1429 was not found"), False),
    ],
)
def test_a_lane_rests_where_the_provider_asked_for_it(outcome: Outcome, rests: bool) -> None:
    async def waited() -> float:
        pace = Pace(random.Random(1))
        pace.rest(outcome, tries=1)
        began = asyncio.get_running_loop().time()
        await pace.wait()
        return asyncio.get_running_loop().time() - began

    assert (asyncio.run(waited()) > 0.05) is rests
