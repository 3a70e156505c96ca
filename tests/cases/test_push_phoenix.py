"""`replay push phoenix` and `replay cases pull phoenix`, against a stand-in or a real server.

`make platforms` starts a real Phoenix and names it in REPLAYDIFF_TEST_PHOENIX.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replaydiff.importers.http import JsonClient
from tests.cases.conftest import RUN, Command
from tests.stand_ins.loopback import serving
from tests.stand_ins.phoenix_datasets import PhoenixDatasets

REAL = os.environ.get("REPLAYDIFF_TEST_PHOENIX")
stand_in_only = pytest.mark.skipif(REAL is not None, reason="looks into the stand-in")


@pytest.fixture
def held() -> PhoenixDatasets:
    return PhoenixDatasets()


@pytest.fixture
def url(held: PhoenixDatasets) -> Iterator[str]:
    if REAL is not None:
        yield REAL
        return
    with serving(held) as server:
        yield server.url


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """The folder of a project; its name, and so that of its dataset, is new in each test."""
    folder = tmp_path / f"shop{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    return folder


@pytest.fixture
def replay(command: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("PHOENIX_BASE_URL", url)
    monkeypatch.setenv("PHOENIX_API_KEY", "phoenix-very-secret")
    return command


def _upload(url: str, dataset: str, rows: dict[str, dict[str, Any]], action: str = "append") -> None:
    """What a person does in Phoenix."""
    body = {"action": action, "name": dataset, "example_ids": list(rows)}
    for column, key in (("inputs", "input"), ("outputs", "output"), ("metadata", "metadata")):
        body[column] = [row[key] for row in rows.values()]
    with JsonClient(url, headers={}, service="Phoenix", keys="") as client:
        client.post("/v1/datasets/upload?sync=true", body)


def _examples(url: str, dataset: str) -> dict[str, dict[str, Any]]:
    with JsonClient(url, headers={}, service="Phoenix", keys="") as client:
        listed: Any = client.get("/v1/datasets", {"name": dataset})
        path = f"/v1/datasets/{listed['data'][0]['id']}/examples"
        found: Any = client.get(path)
    return {row["id"]: row for row in found["data"]["examples"]}


def test_cases_become_examples_and_leave_with_the_golden_set(replay: Command, golden: Path, url: str) -> None:
    name = f"replay-{Path.cwd().name}-golden"
    assert "3 dataset items" in replay("push", "phoenix")[1]
    found = _examples(url, name)
    assert found[f"{name}/weather"]["input"] == {"input": "Will it rain?"}
    assert found[f"{name}/late"]["output"] == {"tool_calls": [{"name": "get_order", "args": {"id": "31"}}]}
    assert replay("push", "phoenix")[1].startswith("nothing changed")

    lines = golden.read_text().splitlines()
    golden.write_text("\n".join((lines[0].replace("Late", "Very late"), lines[2])) + "\n")
    code, out = replay("push", "phoenix")
    assert (code, "1 dataset item, 1 archived item; unchanged: 1 dataset item" in out) == (0, True)
    assert set(_examples(url, name)) == {f"{name}/late", f"{name}/ü/1"}
    assert replay("push", "phoenix")[1].startswith("nothing changed")
    assert replay("cases", "pull", "phoenix")[1].startswith("nothing changed")


def test_edits_additions_and_removals_come_back_and_are_not_overwritten(
    replay: Command, golden: Path, url: str
) -> None:
    name = f"replay-{Path.cwd().name}-golden"
    replay("push", "phoenix")
    found = _examples(url, name)
    edited = {**found[f"{name}/weather"], "input": {"input": "Will it snow?"}}
    added = {"input": {"question": "New?"}, "output": {"answer": "Yes"}, "metadata": {}}
    rest = {f"{name}/weather": edited, f"{name}/ü/1": found[f"{name}/ü/1"], "made-there": added}
    _upload(url, name, rest, "update")

    code, out = replay("push", "phoenix")
    assert code == 0
    assert "1 items that were edited in Phoenix" in out
    assert "1 items that were archived in Phoenix" in out
    changes = json.loads(replay("cases", "pull", "phoenix", "--json")[1])["changes"]
    assert [(one["kind"], one["case"]) for one in changes] == [
        ("archived", "late"),
        ("edited", "weather"),
        ("added", "made-there"),
    ]
    replay("cases", "pull", "phoenix", "--yes")
    cases = {case["id"]: case for case in map(json.loads, golden.read_text().splitlines())}
    assert set(cases) == {"weather", "ü/1", "made-there"}
    assert cases["weather"]["input"] == "Will it snow?"
    assert (cases["made-there"]["input"], cases["made-there"]["expected_answer"]) == ("New?", "Yes")
    assert "metadata" not in cases["made-there"]
    assert replay("cases", "pull", "phoenix")[1].startswith("nothing changed")
    replay("push", "phoenix")
    assert set(_examples(url, name)) == set(rest)


def test_a_run_is_an_experiment_a_lane_with_runs_and_evaluations(
    replay: Command, replayed: None, held: PhoenixDatasets
) -> None:
    code, out = replay("push", "phoenix", RUN)
    assert (code, "3 dataset items, 12 experiment runs" in out) == (0, True)
    assert out.count("experiment: ") == 2
    code, out = replay("push", "phoenix", RUN)
    assert (code, out.startswith("nothing changed"), "12 experiment runs" in out) == (0, True, True)
    if REAL is None:
        _check_runs(held)


def _check_runs(held: PhoenixDatasets) -> None:
    """A trial has its answer, calls, verdict; the new lane the answer of the run."""
    old = next(run for run in held.runs.values() if run["output"]["answer"] == "old says 1")
    assert old["output"]["tool_calls"] == [{"name": "search", "args": {"q": 1}, "result": {"ok": True}}]
    (failed,) = (run for run in held.runs.values() if run["error"])
    assert failed["error"] == "the worker died"
    results = [one["result"] for (_, name), one in held.evaluations.items() if name == "replay_verdict"]
    assert [bool(result["label"]) for result in results] == [True] * 3
    lanes = {one["metadata"]["lane"]: one for one in held.experiments.values()}
    assert lanes["new"]["repetitions"] == 2
    assert {lane for lane, one in lanes.items() if "replay_answer" in one["metadata"]} == {"new"}


@stand_in_only
def test_a_refused_example_is_named_and_the_others_go_on(
    replay: Command, golden: Path, held: PhoenixDatasets
) -> None:
    held.refuses = f"replay-{Path.cwd().name}-golden/weather"
    code, out = replay("push", "phoenix")
    assert (code, "2 dataset items" in out, "not accepted: case 'weather'" in out) == (3, True, True)
    held.refuses = None
    assert "sent" in replay("push", "phoenix")[1]
