"""Every sample file gives the traces a person reads from it.

So do records that others published, where they are at hand: REPLAY_TEST_FORMAT_SAMPLES=/path/to/samples.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from replaydiff.importers.collect import collected, detect
from tests.importers.reading import SAMPLE_FILES, SAMPLES, items, traces

FOLDER = os.environ.get("REPLAY_TEST_FORMAT_SAMPLES")
PUBLISHED = [
    json.loads(line) for line in Path(__file__).with_name("published.jsonl").read_text().splitlines()
]
"""Files, their source, and what is in them. `bare`: the attributes of a span, without its ids and times."""


def _ids(path: Path) -> str:
    return str(path.relative_to(SAMPLES))


@pytest.mark.parametrize("file", SAMPLE_FILES, ids=_ids)
def test_a_sample_gives_the_traces_a_person_reads_from_it(file: Path) -> None:
    expected = json.loads(file.with_name(file.name.split(".")[0] + ".expected.json").read_text())
    found = [msgspec.to_builtins(trace) for trace in traces(file.parent.name, file)]
    assert [_like(got, want) for got, want in zip(found, expected, strict=True)] == expected


@pytest.mark.skipif(not FOLDER, reason="REPLAY_TEST_FORMAT_SAMPLES names no folder")
@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: " ".join(case["files"]))
def test_published_records_give_what_a_person_reads_from_them(case: dict[str, Any], tmp_path: Path) -> None:
    paths = [Path(FOLDER or "") / name for name in case["files"]]
    if case.get("bare"):
        paths = [_span(tmp_path / "span.json", json.loads(paths[0].read_text()))]
    elif len(paths) == 1:
        with collected([str(paths[0])]) as (file,):
            assert case["source"] == detect(file).NAME
    found = [msgspec.to_builtins(item) for item in items(case["source"], *paths)]
    assert [_like(got, want) for got, want in zip(found, case["items"], strict=True)] == case["items"]


def _span(file: Path, recorded: dict[str, Any]) -> Path:
    """Write a span that has these attributes and nothing else."""
    span = {
        "name": recorded.get("name", "span"),
        "context": {"trace_id": "0x" + "ab" * 16, "span_id": "0x" + "cd" * 8},
        "kind": "SpanKind.CLIENT",
        "parent_id": None,
        "start_time": "2026-11-01T10:00:00Z",
        "end_time": "2026-11-01T10:00:01Z",
        "attributes": recorded.get("attributes", recorded),
    }
    file.write_text(json.dumps(span))
    return file


def _like(got: Any, want: Any) -> Any:
    """What was got, reduced to what the expectation speaks of."""
    if isinstance(want, dict) and isinstance(got, dict):
        return {key: _like(got.get(key), value) for key, value in want.items()}
    if isinstance(want, list) and isinstance(got, list | tuple) and len(got) == len(want):
        return [_like(one, other) for one, other in zip(got, want, strict=True)]
    if isinstance(want, str) and want.endswith("*") and isinstance(got, str):
        return want if got.startswith(want[:-1]) else got
    if isinstance(want, float) and isinstance(got, float):
        return pytest.approx(want) if got == pytest.approx(want) else got
    return got
