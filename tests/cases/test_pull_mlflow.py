"""`replay cases pull mlflow`, by answers that MLflow 3.17.2 gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import replaydiff
from replaydiff.replay.errors import InputError, SettingsError
from tests.stand_ins.loopback import Request, serving

RECORDS: list[dict[str, Any]] = [
    {
        "dataset_record_id": "dr-1",
        "inputs": {"question": "Where is it?"},
        "expectations": {
            "expected_facts": ["shipped", "friday"],
            "expected_response": "It shipped",
            "guidelines": "be polite",
            "expected_tool_calls": [{"name": "get_order", "arguments": {"id": "7"}}],
            "expected_tone": {"warm": 1},
        },
        "tags": {"team": "x", "mlflow.user": "root"},
        "outputs": {},
    },
    {
        "dataset_record_id": "dr-2",
        "inputs": {"messages": [{"role": "user", "content": "Hi"}], "user_id": 3},
        "expectations": {},
        "tags": {"mlflow.user": "root"},
    },
]


def _answer(request: Request) -> tuple[int, Any]:
    """One record a page."""
    if request.path.endswith("/search"):
        named = request.body["filter_string"] == "name = 'golden'"
        return 200, {"datasets": [{"dataset_id": "d-1", "name": "golden"}] if named else []}
    place = int(request.param("page_token") or 0)
    page = {"records": json.dumps(RECORDS[place : place + 1])}
    return 200, page if place else {**page, "next_page_token": "1"}


def test_records_become_cases_and_a_second_pull_shows_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = tmp_path / "cases" / "golden.jsonl"
    golden.parent.mkdir()
    golden.write_text('{"id": "own", "input": "Mine"}\n')
    project = replaydiff.open(tmp_path)
    with serving(_answer) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
        _, found = project.cases.pull("golden", cases=golden, platform="mlflow", apply=True)
        assert [(one.kind, one.case_id) for one in found] == [("added", "dr-1"), ("added", "dr-2")]
        cases = {case["id"]: case for case in map(json.loads, golden.read_text().splitlines())}
        first, second = cases["dr-1"], cases["dr-2"]
        assert first == {
            "id": "dr-1",
            "input": "Where is it?",
            "expected_tool_calls": [{"name": "get_order", "args": {"id": "7"}}],
            "expected_answer": "It shipped",
            "expected_response_traits": ["shipped", "friday", "be polite"],
            "metadata": {"mlflow": {"tags": {"team": "x"}, "expectations": {"expected_tone": {"warm": 1}}}},
        }
        assert second["messages"] == [{"role": "user", "content": "Hi"}]
        assert second["metadata"] == {"mlflow": {"inputs": RECORDS[1]["inputs"]}}

        assert project.cases.pull("golden", cases=golden, platform="mlflow")[1] == []
        monkeypatch.setitem(RECORDS[0], "inputs", {"question": "Where is mine?"})
        (change,) = project.cases.pull("golden", cases=golden, platform="mlflow")[1]
        assert (change.kind, change.case_id) == ("edited", "dr-1")
        with pytest.raises(InputError, match="no dataset is named 'other'"):
            project.cases.pull("other", cases=golden, platform="mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    with pytest.raises(SettingsError, match="tracking server"):
        project.cases.pull("golden", cases=golden, platform="mlflow")
