"""The small form of `make kills`: commands that pay are ended at a few random moments, and lose nothing."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.kills import triage
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


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=full)])
def test_triage_is_ended_and_loses_no_decision(number: signal.Signals, tmp_path: Path) -> None:
    outcome = triage.disturbed(number, 1, tmp_path, random.Random())
    assert (outcome.lost, outcome.different, outcome.other_codes) == (0, 0, [])


@full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_compacting_is_ended_and_loses_nothing(number: signal.Signals, tmp_path: Path) -> None:
    outcome, _ = disturbed(JOBS["compacting"], number, 1, tmp_path, random.Random())
    assert outcome.is_clean(JOBS["compacting"]), outcome
