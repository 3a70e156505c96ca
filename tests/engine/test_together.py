"""Many trials at once: each ends as if it had been replayed by itself, whatever the others do."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from replaydiff.replay.model import Rule, Status
from tests.engine.project import SETTINGS, Project
from tests.stand_ins.full import full

ITEMS = 60
AGENT = """
import os, time  # VERSION


def call(name, args) -> str:
    return "THE REAL TOOL RAN"


def note(text):
    with open(os.environ["CALLS"], "a") as file:
        file.write(f"{text} {time.monotonic()}\\n")


def run_agent(text):
    note(f"begin {text}")
    try:
        status = call("get_order_status", {"order_id": text})
        number = int(text.partition("-")[2])
        if number == 20:
            os._exit(3)
        if number == 30:
            raise ValueError(text)
        if number == 40:
            time.sleep(60)
        if number == 45 and open(os.environ["CALLS"]).read().count(f"begin {text} ") == 1:
            raise ConnectionError("429 too many requests")
        if number == 50:
            call("get_order_status", {"order_id": "another"})
        return "answer: " + status
    finally:
        note(f"end {text}")


async def run_async(text):
    return run_agent(text)
"""
ODD = {20: Status.CRASHED, 30: Status.AGENT_ERROR, 40: Status.TIMEOUT, 50: Status.DIVERGED}


@pytest.mark.parametrize(
    ("entrypoint", "concurrency"),
    [("run_agent", 1), pytest.param("run_agent", 40, marks=full), pytest.param("run_async", 40, marks=full)],
)
def test_trials_end_as_if_each_was_replayed_by_itself(
    tmp_path: Path, entrypoint: str, concurrency: int
) -> None:
    project = Project(tmp_path / "shop")
    project.settings(SETTINGS.replace("run_agent", entrypoint))
    for version in ("v1", "v2"):
        project.commit(version, AGENT)
    project.sample(ITEMS)
    done = project.replay(
        "run", "--old", "git:v1", "--new", "git:v2", "--concurrency", str(concurrency), "--set", "run.timeout=1.5",
        "--trials", "1", "--no-aa", "--sample", "october",
    )  # fmt: skip
    assert done.code == 3, done.err

    trials = project.trials()
    assert len(trials) == len({(trial.item_id, trial.lane) for trial in trials}) == 2 * ITEMS
    for trial in trials:
        number = int(trial.item_id.partition("-")[2])
        assert trial.status is ODD.get(number, Status.OK), (trial.item_id, trial.reason)
        if number not in ODD:
            assert trial.final_response == f"answer: {trial.served[-1].call.result}"
        rules = [served.rule for served in trial.served]
        assert rules == [Rule.TAPE, *([Rule.MISS] if number == 50 else [])]
    assert Counter(trial.attempts for trial in trials if trial.item_id == "order-45")[2] >= 1
    if concurrency == 1:
        assert not overlapping(project.calls)


def overlapping(path: Path) -> list[str]:
    """Return what began while another trial ran; a trial whose process was ended has no end."""
    running: dict[str, int] = defaultdict(int)
    found = []
    for line in path.read_text().splitlines():
        event, text, _ = line.split()
        running[text] += 1 if event == "begin" else -1
        if event == "begin" and sum(count for one, count in running.items() if one not in ENDED) > 1:
            found.append(text)
    return found


ENDED = ("order-20", "order-40")
"""Trials whose process ends before they do."""
