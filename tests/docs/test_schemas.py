"""The published schemas accept what we ship and write, and refuse what is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from replaydiff.replay.golden import case_to_json, read_golden
from tests.stand_ins.schemas import validator

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "replay" / "demo"


def test_the_demos_traces_and_cases_fit_their_schemas() -> None:
    traces = validator("trace")
    with gzip.open(DEMO / "traces.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            traces.validate(json.loads(line))
    cases = validator("case")
    for case in read_golden(DEMO / "files" / "cases" / "golden.jsonl"):
        cases.validate(case_to_json(case))


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("case", {"id": "a"}),
        ("case", {"id": "a", "input": "x", "match": "strickt"}),
        ("case", {"id": "a", "input": "x", "expected_tool_calls": [{"args": {}}]}),
        ("trace", {"trace_id": "a", "input": "x"}),
        ("trace", {"trace_id": "a", "started_at": "2026-10-01", "input": "x", "scores": {"s": [1]}}),
    ],
)
def test_what_is_wrong_does_not_fit(name: str, record: dict[str, Any]) -> None:
    assert not validator(name).is_valid(record)
