"""The small form of `make kills`: commands that pay are ended at a few random moments, and lose nothing."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.kills.ends import disturbed
from tests.kills.paid import JOBS
from tests.stand_ins.full import full


@pytest.mark.parametrize(
    "name",
    ["judging", pytest.param("recording", marks=full), pytest.param("simulating", marks=full)],
)
@pytest.mark.slow
def test_a_command_that_pays_is_ended_and_loses_nothing(name: str, tmp_path: Path) -> None:
    number = signal.SIGKILL if name == "judging" else signal.SIGTERM
    outcome, paid = disturbed(JOBS[name], number, 1, tmp_path, random.Random())
    assert outcome.is_clean(JOBS[name]), outcome
    assert paid.total() > 0
