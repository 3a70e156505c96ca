"""How long a failed trial waits, and when its whole lane does."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaydiff.replay.agents import Outcome
from replaydiff.replay.engine.schedule import LONGEST_REQUESTED_S, Pace, provider_of, waiting_time
from replaydiff.replay.model import Status, Version, VersionKind


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
        (120.0, 1, 120.0, 180.0),
        (math.inf, 1, 300.0, 450.0),
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
    assert 0 <= waiting_time(asked_s, tries, chance) <= LONGEST_REQUESTED_S * 1.5


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
        pace.pause(outcome, tries=1)
        began = asyncio.get_running_loop().time()
        await pace.wait()
        return asyncio.get_running_loop().time() - began

    assert (asyncio.run(waited()) > 0.05) is rests


def went_well() -> Outcome:
    return Outcome(status=Status.OK, started_at=datetime(2026, 11, 21))


def test_no_more_trials_run_at_once_than_there_is_room_for_and_all_get_their_turn() -> None:
    async def run() -> tuple[int, int]:
        pace, running, most, done = Pace(limit=3), 0, 0, 0

        async def trial() -> None:
            nonlocal running, most, done
            async with pace.turn():
                running += 1
                most = max(most, running)
                await asyncio.sleep(0.001)
                running -= 1
            done += 1

        trials = [asyncio.ensure_future(trial()) for _ in range(30)]
        await asyncio.sleep(0)
        for waiting in trials[3:20:2]:
            waiting.cancel()
        await asyncio.gather(*trials, return_exceptions=True)
        return most, done

    assert asyncio.run(run()) == (3, 21)


def test_a_provider_that_is_overloaded_gets_half_and_then_more_again() -> None:
    async def run() -> list[int]:
        pace = Pace(random.Random(1), limit=8)
        rooms = []
        for _ in range(3):
            # Refused together: one sign.
            pace.pause(failed("429"), tries=1)
            pace.pause(failed("429", retry_after_s=0.01), tries=1)
            rooms.append(pace.room)
            pace._not_before = 0.0
        for count in (1, 2, 3, 100):
            for _ in range(count):
                pace.went(failed("500"))
                pace.went(went_well())
            rooms.append(pace.room)
        return rooms

    assert asyncio.run(run()) == [4, 2, 1, 2, 3, 4, 8]


def test_no_more_tries_start_in_a_minute_than_were_allowed() -> None:
    async def run() -> list[float]:
        pace, starts = Pace(limit=10, per_minute=60 / 0.05), []

        async def trial() -> None:
            async with pace.turn():
                starts.append(asyncio.get_running_loop().time())

        await asyncio.gather(*(trial() for _ in range(5)))
        return [after - before for before, after in itertools.pairwise(starts)]

    assert all(gap >= 0.045 for gap in asyncio.run(run()))


@pytest.mark.parametrize(
    ("fields", "provider"),
    [
        ({"args": {"model": "us.anthropic.claude-haiku-4-5-20251001-v1:0"}}, "anthropic"),
        ({"args": {"model": "openai/gpt-5.5-mini"}}, "openai"),
        ({"args": {"model": "o3"}}, "openai"),
        ({"args": {"model": "a-model-of-ours"}}, ""),
        ({}, ""),
        ({"url": "http://localhost:8000/agent"}, "localhost:8000"),
        ({"url": "http://localhost:8000/agent", "args": {"model": "gemini-3"}}, "google"),
    ],
)
def test_versions_of_one_provider_share_its_limits(fields: dict[str, Any], provider: str) -> None:
    assert provider_of(Version(name="x", kind=VersionKind.PYTHON, **fields)) == provider
