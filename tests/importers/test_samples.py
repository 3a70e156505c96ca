"""Every sample file gives the traces a person reads from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.importers.reading import SAMPLE_FILES, SAMPLES, traces


def _ids(path: Path) -> str:
    return str(path.relative_to(SAMPLES))


@pytest.mark.parametrize("file", SAMPLE_FILES, ids=_ids)
def test_a_sample_gives_the_traces_a_person_reads_from_it(file: Path) -> None:
    expected = json.loads(file.with_name(file.name.split(".")[0] + ".expected.json").read_text())
    found = [msgspec.to_builtins(trace) for trace in traces(file.parent.name, file)]
    assert [_like(got, want) for got, want in zip(found, expected, strict=True)] == expected


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
