"""Real trajectories, to the last digit: REPLAY_TEST_REAL_DATA=/path/to/data names the folder that holds them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Replay

FOLDER = os.environ.get("REPLAY_TEST_REAL_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="REPLAY_TEST_REAL_DATA names no folder")
AIRLINE = "tau-airline-gpt-4o-tasks-00-24"


def compared(replay: Replay, source: str, traces: str, *lanes: str) -> dict[str, Any]:
    """The document of a comparison of observed traces, and its expected figures as `expected`."""
    folder = Path(FOLDER or "")
    name = traces.split(".")[0]
    assert replay("import", source, str(folder / traces)).code == 0
    done = replay(
        "compare", "--cases", str(folder / f"{name}.golden.jsonl"), "--pair-by", "metadata.task_id",
        *lanes, "--metric", "tool_calls", "--metric", "score:reward", "--json",
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.out)
    document["expected"] = json.loads((folder / f"{name}.expected.json").read_text())
    return document


def test_pass_hat_k_of_one_model_is_as_its_authors_computed_it(replay: Replay) -> None:
    found = compared(replay, "openai", f"{AIRLINE}.openai.jsonl", "--old", "observed:true")
    metrics, expected = found["metrics"], found["expected"]
    assert metrics["tool_calls"]["pass_hat_k"]["old"] == expected["match"]["pass_hat_k"]
    assert metrics["score:reward"]["pass_hat_k"]["old"] == expected["reward"]["pass_hat_k"]


def test_two_halves_of_one_model_do_not_alarm(replay: Replay) -> None:
    halves = [f"observed:release IN ('trial-{n}','trial-{n + 1}')" for n in (0, 2)]
    found = compared(replay, "openai", f"{AIRLINE}.openai.jsonl", "--old", halves[0], "--new", halves[1])
    for metric, group in (("tool_calls", "match"), ("score:reward", "reward")):
        expected = found["expected"][group]["trials_0_1_vs_2_3"]
        assert {name: found["metrics"][metric][name] for name in ("old", "new", "delta")} == {
            name: expected[name] for name in ("old", "new", "delta")
        }
    assert found["items"]["regressed"] == 0
    assert found["answer"] == "CAN'T TELL"


@pytest.mark.parametrize("name", ["tau2-airline-base-vs-ft", "tau2-retail-base-vs-ft"])
def test_two_models_have_the_figures_that_were_expected(replay: Replay, name: str) -> None:
    lanes = ("--old", "observed:release = 'base'", "--new", "observed:release = 'ft'")
    found = compared(replay, "jsonl", f"{name}.traces.jsonl", *lanes)
    for metric in ("tool_calls", "score:reward"):
        expected, figures = found["expected"][metric], found["metrics"][metric]
        assert [figures[part] for part in ("old", "new", "delta")] == [
            expected[part] for part in ("old", "new", "delta")
        ]
        deltas = {case["id"]: case["metrics"][metric]["delta"] for case in found["cases"]}
        assert {name for name, delta in deltas.items() if delta > 0} == set(expected["raw_up"])
        assert {name for name, delta in deltas.items() if delta < 0} == set(expected["raw_down"])
