"""What genuine instrumentations write of planned runs comes in as `results.json` says.

`make instrumentations` makes the environments in `.venv-frameworks/` and runs this file; without them it is
skipped. A row that differs in less than `results.json` says fails, too: `python -m tests.instrumentations.matrix`
measures it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.instrumentations.matrix import RESULTS, ROWS, Writer, installed, measure, row_name, stand_in


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The address of a model that does what prompts plan."""
    with stand_in() as address:
        yield address


@pytest.mark.parametrize(("writer", "mode"), ROWS, ids=[row_name(*row) for row in ROWS])
def test_what_happened_comes_in(writer: Writer, mode: str, model: str, tmp_path: Path) -> None:
    if not installed(writer):
        pytest.skip(f"{writer.environment} is not installed: make instrumentations")
    cells, lines = measure(writer, mode, model, tmp_path)
    assert cells == json.loads(RESULTS.read_text())["writers"][writer.name]["modes"][mode], lines
